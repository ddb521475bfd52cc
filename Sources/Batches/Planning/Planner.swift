package import Facts
package import Pricing

/// Forecasts a batch: rows in, verdicts out. It reads facts and rules and writes nothing.
///
/// The file is read once to find which rows belong together (`BatchOutline`), then judged in pieces. While the
/// database reads the facts of one piece, other pieces are judged. All facts are of one snapshot.
package struct Planner: Sendable {
    private let pool: DatabasePool
    private let rules: RuleSet
    private let environment: StoreEnvironment
    private let known: Instant?

    /// The most pieces that are being read, judged or wait for their turn. It bounds the memory.
    static let piecesInFlight = 6

    /// `known`: past increases count as they were imported by then; nil stands for now.
    package init(
        pool: DatabasePool, rules: RuleSet, environment: StoreEnvironment,
        knownAt known: Instant? = nil
    ) {
        self.pool = pool
        self.rules = rules
        self.environment = environment
        self.known = known
    }

    /// Judges a batch as of an instant and hands the verdicts to the sink. Rows of waves are judged for the earliest
    /// release of their wave. Throws `unreadable_file` when the
    /// file must be read again and is no longer the one that was outlined.
    package func plan(
        _ input: BatchInput, outline: BatchOutline, waves: WavePlan? = nil, asOf now: Instant,
        into sink: some PlanSink
    ) async throws {
        let inForce = rules.inForce(at: now)
        let judge = Judge(
            rules: RuleCourse(rules, from: now), environment: environment, now: now)
        try await pool.withConnection { connection in
            try await connection.read { try PlanQueries.beginSnapshot(on: $0) }
            let worker = PieceJudge(
                judge: judge, waves: waves.map { WaveJudges($0, judge) },
                connection: connection, known: known,
                siblings: { outline.rows(of: $0) },
                claims: { outline.claims(on: $0) })
            if let count = outline.pieceCount {
                let pieces = PieceSource.outline(outline, (0..<count).makeIterator())
                try await Self.judge(pieces, worker, into: sink)
            } else {
                let source = DigestingByteSource(try input.open())
                let pieces = PieceSource.file(
                    try BatchFileReader(source: source, file: input.path, rules: inForce))
                try await Self.judge(pieces, worker, into: sink)
                guard source.hexadecimalDigest == outline.sha256 else {
                    throw BatchFileError(
                        code: .unreadableFile, file: input.path, line: nil,
                        message: "the file changed while it was read",
                        remedy: "run the command again")
                }
            }
            try await connection.read { try PlanQueries.endSnapshot(on: $0) }
        }
    }

    /// Judges rows that are in memory already.
    package func plan(
        rows: [BatchRow], waves: WavePlan? = nil, asOf now: Instant
    ) async throws -> [PlanRow] {
        try await plan(entries: rows.map(BatchFileEntry.row), waves: waves, asOf: now)
    }

    /// Judges rows that are in memory already, good or spoiled.
    package func plan(
        entries: [BatchFileEntry], waves: WavePlan? = nil, asOf now: Instant
    ) async throws -> [PlanRow] {
        let rows = entries.compactMap(\.row)
        let judge = Judge(
            rules: RuleCourse(rules, from: now), environment: environment, now: now)
        let siblings = Dictionary(grouping: rows, by: \.originalTransactionID)
            .mapValues { $0.sorted { $0.line < $1.line } }
        let claims = Dictionary(grouping: rows.flatMap(\.claims), by: \.name)
            .mapValues { $0.map(\.claim) }
        return try await pool.withConnection { connection in
            try await connection.read { try PlanQueries.beginSnapshot(on: $0) }
            let worker = PieceJudge(
                judge: judge, waves: waves.map { WaveJudges($0, judge) },
                connection: connection, known: known,
                siblings: { siblings[$0] ?? [] },
                claims: { claims[$0] ?? [] })
            let piece = try await worker.judge(entries)
            try await connection.read { try PlanQueries.endSnapshot(on: $0) }
            return piece.rows
        }
    }

    private enum Step<Prepared: Sendable>: Sendable {
        case prepared(Int, Prepared)
        case taken
    }

    /// Reads and judges pieces in parallel. The sink takes one at a time, in the order of the file.
    private static func judge<Sink: PlanSink>(
        _ source: PieceSource, _ worker: PieceJudge, into sink: Sink
    ) async throws {
        var source = source
        try await withThrowingTaskGroup(of: Step<Sink.Prepared>.self) { group in
            var started = 0
            var taken = 0
            var isTaking = false
            var isAtEnd = false
            var waiting: [Int: Sink.Prepared] = [:]
            while true {
                if !isTaking, let next = waiting.removeValue(forKey: taken) {
                    isTaking = true
                    group.addTask {
                        try await sink.take(next)
                        return .taken
                    }
                }
                while !isAtEnd, started - taken < piecesInFlight {
                    guard let piece = try source.next() else {
                        isAtEnd = true
                        break
                    }
                    let number = started
                    group.addTask {
                        .prepared(number, try sink.prepare(try await worker.judge(piece.entries())))
                    }
                    started += 1
                }
                switch try await group.next() {
                case .prepared(let number, let prepared): waiting[number] = prepared
                case .taken:
                    taken += 1
                    isTaking = false
                case nil: return
                }
            }
        }
    }
}

/// The source of the rows of a plan: the outline, or the file read again.
private enum PieceSource {
    case outline(BatchOutline, Range<Int>.Iterator)
    case file(BatchFileReader)

    enum Piece: Sendable {
        case outline(BatchOutline, Int)
        case file(BatchPiece)

        func entries() -> [BatchFileEntry] {
            switch self {
            case .outline(let outline, let number): outline.entries(ofPiece: number)
            case .file(let piece): piece.entries()
            }
        }
    }

    /// The next rows; nil at the end.
    mutating func next() throws(BatchFileError) -> Piece? {
        switch self {
        case .outline(let outline, var numbers):
            let number = numbers.next()
            self = .outline(outline, numbers)
            return number.map { .outline(outline, $0) }
        case .file(var reader):
            let piece = try reader.nextPiece(rowsMax: BatchOutline.pieceRowsMax)
            self = .file(reader)
            return piece.map(Piece.file)
        }
    }
}
