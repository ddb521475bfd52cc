import Facts
package import Postgres
import Pricing

/// Until the guard of errors of a batch has seen enough answers, no more calls of the batch are in flight than it
/// needs. So a common cause ends few rows, however many replicas claim.
package enum GuardSampleQueries {
    /// How many more calls may be in flight, because some answers take long, and some do not count.
    private static let spare = 5
    /// A guard that waits for more answers than this is judged only by the batch watch, because few further answers
    /// come until then.
    private static let leastMax = 1000

    /// The condition that the batch `b` has a guard of errors that has not seen enough answers.
    package static let isSampling: SQL = """
        (NOT b.is_sampled AND b.guards @> '[{"guard": "errors"}]')
        """

    /// How many calls of the batch may be claimed now; nil for no limit. No other process claims any of them until the
    /// transaction ends.
    package static func room(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> Int? {
        // This returns no row while another claim, or a person's decision, holds the batch.
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
        // The calls in flight are counted first. So an answer that is stored in between counts twice, and none is
        // missed.
        let out = try callsOut(of: batchID, on: connection)
        let errors = try GuardQueries.errors(
            of: batchID, since: try found.millisecondsOrNil("guards_count_from"), on: connection)
        // The process that stored these answers judges them and halts the batch.
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

    /// How many changes of the batch await their first answer. A change of unknown outcome is not counted, because it
    /// may stay unknown for long.
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
