import Batches

/// Compares a plan with the rows that an earlier `plan --rows` wrote, both in the order of lines.
struct PlanDrift {
    /// The most lines that are kept. The rest is only counted.
    static let linesMax = 1000

    private let path: String
    private var file: PlanRowsFile
    private var earlier: PlanRowsFile.Row?
    /// The first rows that differ: `LINE: what differs`.
    private(set) var lines: [String] = []
    private(set) var count = 0

    init(path: String) throws {
        self.path = path
        file = PlanRowsFile(try FileByteSource(path: path))
        try advance()
    }

    mutating func compare(_ line: Int, _ json: String) throws {
        while let row = earlier, row.line < line {
            tell(row.line, "is no longer in the file")
            try advance()
        }
        guard let row = earlier, row.line == line else {
            tell(line, "was not in the plan")
            return
        }
        try advance()
        guard row.bytes != Array(json.utf8) else { return }
        let differences = try named {
            Self.differences(
                try PlanRowsFile.members(row.bytes), try PlanRowsFile.members(Array(json.utf8)))
        }
        if !differences.isEmpty { tell(line, differences.joined(separator: ", ")) }
    }

    /// Counts what the earlier plan had after the last row.
    mutating func finish() throws {
        while let row = earlier {
            tell(row.line, "is no longer in the file")
            try advance()
        }
    }

    private mutating func tell(_ line: Int, _ what: String) {
        count += 1
        if lines.count < Self.linesMax { lines.append("\(line): drifted: \(what)") }
    }

    private mutating func advance() throws {
        var file = file
        earlier = try named { try file.next() }
        self.file = file
    }

    private func named<Value>(_ read: () throws -> Value) throws -> Value {
        do {
            return try read()
        } catch is PlanRowsFile.Malformed {
            throw CommandFailure(
                .inputRejected,
                "\(path): malformed_row: it does not hold the rows of a plan; give "
                    + "the NDJSON file that plan --rows wrote", isAboutFile: true)
        }
    }

    /// Keys that change with the clock or with each statement, without changing a verdict.
    private static let moving: Set = [
        "notice_at", "judged_at", "facts_at", "known_since", "stale",
    ]

    /// The differences as `KEY was X, is Y`. Rules are named only where nothing else differs. Keys in `moving` are
    /// never named.
    private static func differences(
        _ old: [PlanRowsFile.Member], _ new: [PlanRowsFile.Member]
    ) -> [String] {
        let current = Dictionary(new.map { ($0.name, $0.value) }, uniquingKeysWith: { $1 })
        let changed = old.filter { member in
            !moving.contains(member.name) && current[member.name] != member.value
        }
        let plain = changed.filter { $0.name != "rules" && $0.name != "remedy" }
        guard !plain.isEmpty else { return changed.isEmpty ? [] : ["rules"] }
        return plain.map { member in
            let now = current[member.name] ?? "nothing"
            return "\(member.name) was \(member.value.prefix(100)), is \(now.prefix(100))"
        }
    }
}
