package import Facts
package import Pricing

/// Forecasts a batch: rows in, verdicts out. It reads facts and rules and writes nothing.
///
/// The file is read once to learn which rows belong together (`BatchOutline`), and once more in pieces: while
/// the database reads the facts of one piece, others are judged. All facts are of one snapshot.
package struct Planner: Sendable {
    private let pool: DatabasePool
    private let rules: RuleSet
    private let environment: StoreEnvironment
    private let known: Instant?

    /// Pieces that are read, judged or waiting for their turn: what bounds the memory.
    static let piecesInFlight = 6

    /// `known`: past increases as they were imported by then; nil: by now.
    package init(
        pool: DatabasePool, rules: RuleSet, environment: StoreEnvironment,
        knownAt known: Instant? = nil
    ) {
        self.pool = pool
        self.rules = rules
        self.environment = environment
        self.known = known
    }

    /// Judges a batch as of an instant and hands the verdicts to the sink. Throws `unreadable_file` when the
    /// file is no longer the one that was outlined.
    package func plan(
        _ input: BatchInput, outline: BatchOutline, asOf now: Instant, into sink: some PlanSink
    ) async throws {
        let inForce = rules.inForce(at: now)
        let judge = Judge(
            rules: RuleCourse(rules, from: now), environment: environment, now: now)
        try await pool.withConnection { connection in
            try await connection.read { try PlanQueries.beginSnapshot(on: $0) }
            let source = DigestingByteSource(try input.open())
            let reader = try BatchFileReader(source: source, file: input.path, rules: inForce)
            let pieces = PieceReader(reader)
            let worker = PieceJudge(
                judge: judge, connection: connection, known: known,
                siblings: { outline.rows(of: $0) },
                claims: { outline.claims(on: $0) })
            try await Self.judge(pieces, worker, into: sink)
            guard source.hexadecimalDigest == outline.sha256 else {
                throw BatchFileError(
                    code: .unreadableFile, file: input.path, line: nil,
                    message: "the file changed while it was read", remedy: "run the command again")
            }
            try await connection.read { try PlanQueries.endSnapshot(on: $0) }
        }
    }

    /// Judges rows that are in memory already.
    package func plan(rows: [BatchRow], asOf now: Instant) async throws -> [PlanRow] {
        let judge = Judge(
            rules: RuleCourse(rules, from: now), environment: environment, now: now)
        let siblings = Dictionary(grouping: rows, by: \.originalTransactionID)
            .mapValues { $0.sorted { $0.line < $1.line } }
        let claims = Dictionary(grouping: rows.flatMap(\.claims), by: \.name)
            .mapValues { $0.map(\.claim) }
        return try await pool.withConnection { connection in
            try await connection.read { try PlanQueries.beginSnapshot(on: $0) }
            let worker = PieceJudge(
                judge: judge, connection: connection, known: known,
                siblings: { siblings[$0] ?? [] },
                claims: { claims[$0] ?? [] })
            let piece = try await worker.judge(rows.map(BatchFileEntry.row))
            try await connection.read { try PlanQueries.endSnapshot(on: $0) }
            return piece.rows
        }
    }

    private enum Step<Prepared: Sendable>: Sendable {
        case prepared(Int, Prepared)
        case taken
    }

    /// Reads, judges and takes pieces at once: one is taken at a time, in the order of the file.
    private static func judge<Sink: PlanSink>(
        _ source: PieceReader, _ worker: PieceJudge, into sink: Sink
    ) async throws {
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
                    let entries = try source.next()
                    isAtEnd = entries.isEmpty
                    if isAtEnd { break }
                    let number = started
                    group.addTask {
                        .prepared(number, try sink.prepare(try await worker.judge(entries)))
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

/// Cuts a batch file into pieces.
private final class PieceReader {
    /// Enough to make one query worthwhile, few enough to be judged in a few hundredths of a second.
    private static let rowsMax = 4096
    private var reader: BatchFileReader

    init(_ reader: BatchFileReader) {
        self.reader = reader
    }

    /// The next rows of the file; none at its end.
    func next() throws(BatchFileError) -> [BatchFileEntry] {
        var entries: [BatchFileEntry] = []
        entries.reserveCapacity(Self.rowsMax)
        while entries.count < Self.rowsMax, let entry = try reader.next() { entries.append(entry) }
        return entries
    }
}
