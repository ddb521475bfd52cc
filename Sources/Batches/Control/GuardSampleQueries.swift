import Facts
package import Postgres
import Pricing

/// Until the guard of errors of a batch has seen as many answers as it waits for, no more of its calls are out than it
/// needs: what all would meet ends few rows, however many replicas claim.
package enum GuardSampleQueries {
    /// So many more may be out: some answers take long, and some tell nothing.
    private static let spare = 5
    /// A guard that waits for more answers is judged by the batch watch alone: what comes meanwhile is little beside them.
    private static let leastMax = 1000

    /// The batch `b` has a guard of errors that has not seen enough.
    package static let isSampling: SQL = """
        (NOT b.is_sampled AND b.guards @> '[{"guard": "errors"}]')
        """

    /// How many of its calls may be claimed now; nil: as many as one wants. Until the transaction ends nobody else claims any.
    package static func room(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> Int? {
        // No row comes back where another claim of the batch is being made, or a person decides on it.
        let found = try connection.query(
            """
            -- name: lockSample
            SELECT b.guards_count_from, b.is_sampled, g.* FROM repricer.batches b
            CROSS JOIN LATERAL jsonb_to_recordset(b.guards) AS g (guard text, over integer, least integer)
            WHERE b.batch_id = \(uuid: batchID) AND g.guard = 'errors'
            FOR NO KEY UPDATE OF b SKIP LOCKED
            """
        ).oneOrNil()
        guard let found else { return 0 }
        let rail = try GuardQueries.rail(found)
        guard try !found.bool("is_sampled") else { return nil }
        guard rail.least <= leastMax else {
            try connection.sendLater([noteSampled(batchID)])
            return nil
        }
        // The calls that are out are counted first: an answer that is stored in between then counts twice, and none is
        // missed.
        let out = try callsOut(of: batchID, on: connection)
        let errors = try GuardQueries.errors(
            of: batchID, since: try found.millisecondsOrNil("guards_count_from"), on: connection)
        // Whoever stored the answers judges them, and halts it.
        guard !rail.isExceeded(by: errors.count, of: errors.all) else { return 0 }
        guard errors.all < Int64(rail.least) else {
            try connection.sendLater([noteSampled(batchID)])
            return nil
        }
        return max(0, rail.least + spare - Int(errors.all) - out)
    }

    private static func noteSampled(_ batchID: String) -> SQL {
        """
        -- name: noteSampled
        UPDATE repricer.batches SET is_sampled = true WHERE batch_id = \(uuid: batchID)
        """
    }

    /// Changes whose first answer is awaited. One of unknown outcome may stay so for long: it is not waited for.
    private static func callsOut(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.query(
            """
            -- name: sampleCallsOut
            SELECT count(*) AS rows FROM repricer.store_calls r
            JOIN repricer.price_changes c ON c.original_transaction_id = r.subject AND c.bucket = r.bucket
                AND c.request_reference_id = r.call_id
            WHERE r.kind = 'price_change' AND r.settled_at IS NULL AND c.batch_id = \(uuid: batchID)
                AND c.state = 'sending'
            """
        ).one().int("rows")
    }
}
