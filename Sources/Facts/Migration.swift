import FoundationEssentials

/// One file of `Migrations/`.
///
/// The comment at its head ends where the first statement begins. It has a line `-- breaking: yes|no` and, where tables
/// must be analysed afterwards, a line `-- analyze: repricer.a, repricer.b`. The text runs as one transaction, up to a
/// line `-- step: WHAT (KIND)`, which starts another step.
package struct Migration: Sendable, Equatable {
    package let version: Int
    /// The part of the file name between the number and `.sql`.
    package let name: String
    package let file: String
    package let text: String
    /// Whether programs of an older schema must not run beside it.
    package let isBreaking: Bool
    /// The tables to analyse afterwards, each with its schema.
    package let analyzed: [String]
    package let steps: [Step]

    /// A part that runs by itself and is recorded when it is done.
    package struct Step: Sendable, Equatable {
        package enum Kind: String, Sendable {
            /// Statements that stand or fall together.
            case transaction
            /// One statement that no transaction can hold, such as `CREATE INDEX CONCURRENTLY`.
            case alone
            /// One statement that changes some of the rows that still need it. It is repeated until it finds none,
            /// and where it contains `:bucket`, in each bucket.
            case batches
        }

        package let what: String
        package let kind: Kind
        package let text: String

        var spreadsByBucket: Bool { kind == .batches && text.contains(":bucket") }
    }

    /// Every `NNNN_what.sql` of a directory in order; the numbers are 1, 2, 3 … without a gap.
    ///
    /// `schema.sql` (the dump), `README.md` and dot-files are passed over; anything else that ends
    /// in `.sql` is an error, so that a misnamed file cannot be forgotten.
    package static func read(directory: String) throws(MigrationError) -> [Migration] {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: directory)
        } catch {
            throw .directoryUnreadable(path: directory)
        }
        var texts: [(version: Int, name: String, file: String, text: String)] = []
        for name in names.sorted() where name.hasSuffix(".sql") && !name.hasPrefix(".") {
            if name == "schema.sql" { continue }
            texts.append(try read(file: name, directory: directory))
        }
        guard !texts.isEmpty else { throw .noMigrations(path: directory) }
        try checkNumbers(texts.map { ($0.version, $0.file) })
        var migrations: [Migration] = []
        for text in texts {
            migrations.append(
                try Migration(
                    version: text.version, name: text.name, file: text.file, text: text.text))
        }
        return migrations
    }

    private static func read(
        file: String, directory: String
    ) throws(MigrationError) -> (version: Int, name: String, file: String, text: String) {
        guard let match = file.wholeMatch(of: /([0-9]{4})_([a-z0-9_]+)\.sql/),
            let version = Int(match.1)
        else { throw .badFileName(file) }
        guard let data = FileManager.default.contents(atPath: "\(directory)/\(file)"),
            let text = String(validating: data, as: UTF8.self), !text.utf8.contains(0)
        else { throw .notText(file: file) }
        return (version, String(match.2), file, text)
    }

    private static func checkNumbers(
        _ files: [(version: Int, file: String)]
    ) throws(MigrationError) {
        var expected = 1
        for (index, file) in files.enumerated() {
            if index > 0, files[index - 1].version == file.version {
                throw .duplicateVersion(
                    file.version, files: [files[index - 1].file, file.file])
            }
            guard file.version == expected else { throw .missingVersion(expected) }
            expected += 1
        }
    }
}

extension Migration {
    /// Reads the head and the steps of a file's text.
    init(version: Int, name: String, file: String, text: String) throws(MigrationError) {
        self.version = version
        self.name = name
        self.file = file
        self.text = text
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        let head = lines.prefix { $0.isEmpty || $0.hasPrefix("--") }
        let marks = head.compactMap { Self.value(of: "breaking", $0) }
        guard marks.count == 1, let mark = marks.first, ["yes", "no"].contains(mark) else {
            throw .unmarked(file: file)
        }
        isBreaking = mark == "yes"
        analyzed = head.compactMap { Self.value(of: "analyze", $0) }
            .flatMap { $0.split(separator: ",") }
            .map { String($0.drop { $0 == " " }) }
        for table in analyzed
        where table.wholeMatch(of: /(repricer|report)\.[a-z_][a-z0-9_]*/) == nil {
            throw .badHead(
                file: file, "'\(table)' is no table to analyse; write `-- analyze: repricer.NAME`")
        }
        steps = try Self.steps(lines, file)
        let rewrites = steps.contains { $0.kind == .batches }
        guard !rewrites || !analyzed.isEmpty else {
            throw .badHead(
                file: file,
                "it changes rows in batches and names no table to analyse; add `-- analyze: repricer.NAME`"
            )
        }
    }

    private static func value(of key: String, _ line: Substring) -> String? {
        let prefix = "-- \(key):"
        guard line.hasPrefix(prefix) else { return nil }
        let value = line.dropFirst(prefix.count).drop { $0 == " " || $0 == "\t" }
        return String(value.reversed().drop { $0.isWhitespace }.reversed())
    }

    private static func steps(
        _ lines: [Substring], _ file: String
    ) throws(MigrationError) -> [Step] {
        var steps: [Step] = []
        var (what, kind, text) = ("the schema", Step.Kind.transaction, "")
        for line in lines {
            guard let step = value(of: "step", line) else {
                text += line + "\n"
                continue
            }
            guard let match = step.wholeMatch(of: /(.+) \((transaction|alone|batches)\)/),
                let next = Step.Kind(rawValue: String(match.2))
            else {
                throw .badHead(
                    file: file,
                    "'\(step)' is no step; write `-- step: WHAT (transaction|alone|batches)`")
            }
            steps.append(Step(what: what, kind: kind, text: text))
            (what, kind, text) = (String(match.1), next, "")
        }
        steps.append(Step(what: what, kind: kind, text: text))
        for step in steps where step.kind != .transaction && !step.isOneStatement {
            throw .badHead(
                file: file,
                "the step '\(step.what)' (\(step.kind.rawValue)) must hold exactly one statement")
        }
        return steps
    }
}

extension Migration {
    /// What an `alone` step builds.
    struct Index: Hashable, Sendable {
        var name: String
        var table: String
        var isUnique: Bool
    }
}

extension Migration.Step {
    /// The index that an `alone` step builds, and its table; nil where it builds none, or hides its name.
    var index: Migration.Index? {
        let code = text.split(separator: "\n").filter { !$0.hasPrefix("--") }.joined(separator: " ")
        let pattern =
            /CREATE\s+(UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:IF\s+NOT\s+EXISTS\s+)?([a-z_][a-z0-9_]*)\s+ON\s+([a-z_][a-z0-9_.]*)/
            .ignoresCase()
        return code.firstMatch(of: pattern).map {
            Migration.Index(name: String($0.2), table: String($0.3), isUnique: $0.1 != nil)
        }
    }

    /// Whether it is one statement. Our files end each statement with a semicolon at the end of a line, so this counts
    /// those.
    fileprivate var isOneStatement: Bool {
        let code = text.split(separator: "\n").filter { !$0.hasPrefix("--") }
        let ends = code.count { $0.reversed().drop { $0.isWhitespace }.first == ";" }
        return ends == 1
    }
}
