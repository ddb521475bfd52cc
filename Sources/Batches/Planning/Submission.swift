package import Facts
import Postgres
package import Pricing
import ServiceKit

/// Stores a planned batch, all of it or nothing.
package enum Submission {
    package struct Outcome: Sendable, Equatable {
        package var batchID: String
        /// False where the same content is a live batch already, and nothing was written.
        package var isNew: Bool
    }

    /// What is known of a batch once all its rows were handed over.
    package typealias Totals = (planHash: String, changes: Int, rejects: Int)

    /// Runs `plan`, which hands all rows to the sink, then stores the batch itself. All of it is one transaction:
    /// when `plan` throws, or a key of the database refuses a row, nothing is stored.
    ///
    /// - Parameters:
    ///   - storesRefused: Whether refused rows are kept beside the others. Otherwise a refused row stops the
    ///     storing.
    ///   - told: Gets every row, stored or not.
    package static func store<Told: PlanSink>(
        name: String, contentSHA256: String, asOf now: Instant, terms: BatchTerms = BatchTerms(),
        storesRefused: Bool, pool: DatabasePool, reportingTo told: Told,
        plan: @escaping @Sendable (SubmissionSink<Told>) async throws -> Totals
    ) async throws -> Outcome {
        var random = SystemRandomNumberGenerator()
        let batchID = UUIDv7.make(nowMilliseconds: now.milliseconds, random: &random)
        return try await pool.withTransaction { connection in
            if let known = try BatchQueries.batchID(ofContent: contentSHA256, on: connection) {
                return Outcome(batchID: known, isNew: false)
            }
            _ = try connection.pipeline([
                SubmissionQueries.begin(
                    batchID, name: name, contentSHA256: contentSHA256, terms: terms, asOf: now)
            ])
            let sink = SubmissionSink(
                empty: SubmissionRows(batchID: batchID, at: now, waves: terms.waves),
                connection: connection, storesRefused: storesRefused, told: told)
            let totals: Totals
            do {
                totals = try await plan(sink)
            } catch {
                // No statement of the sink may reach the connection after its transaction has ended.
                _ = await sink.underWay?.result
                throw error
            }
            try await sink.underWay?.value
            _ = try connection.pipeline([SubmissionQueries.finish(batchID, totals)])
            return Outcome(batchID: batchID, isNew: true)
        }
    }
}

/// Writes the rows of one submission, inside its transaction.
package actor SubmissionSink<Told: PlanSink>: PlanSink {
    package struct Prepared: Sendable {
        fileprivate let statements: [SQL]
        fileprivate let isRefused: Bool
        fileprivate let told: Told.Prepared
    }

    private nonisolated let empty: SubmissionRows
    private let connection: DatabaseConnection
    private let storesRefused: Bool
    private nonisolated let told: Told
    private var isRefused = false
    /// The newest statements, which the database runs while the next piece is prepared.
    fileprivate private(set) var underWay: Task<Void, any Error>?

    fileprivate init(
        empty: SubmissionRows, connection: DatabaseConnection, storesRefused: Bool, told: Told
    ) {
        self.empty = empty
        self.connection = connection
        self.storesRefused = storesRefused
        self.told = told
    }

    package nonisolated func prepare(_ piece: PlannedPiece) throws -> Prepared {
        // It is seeded from the system once for each piece, because a system call for each id would cost more than the
        // id.
        var random = SeededRandom(seed: .random(in: .min ... .max))
        var rows = empty
        for row in piece.rows { rows.add(row, random: &random) }
        return Prepared(
            statements: SubmissionQueries.store(rows),
            isRefused: piece.rows.contains { $0.fault != nil },
            told: try told.prepare(piece))
    }

    package func take(_ prepared: Prepared) async throws {
        // Once a row is refused, nothing of the batch will be kept, so the rest is only judged.
        isRefused = isRefused || prepared.isRefused
        let statements = storesRefused || !isRefused ? prepared.statements : []
        try await told.take(prepared.told)
        let earlier = underWay
        underWay = await connection.start(statements)
        try await earlier?.value
    }
}
