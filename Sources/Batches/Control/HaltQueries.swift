package import Postgres

/// What follows from a halt: probes of halted storefronts, and rows that ended by refusals that everybody met.
package enum HaltQueries {
    /// What became of the probe of a halted storefront.
    package struct StorefrontProbe: Sendable, Equatable {
        package var batchID: String
        package var storefront: String
        package var subscription: String
        /// Apple's code and its name, where the probe was refused.
        package var answer: String?
        package var hasRecovered: Bool
    }

    /// Lets one row of each halted storefront go that is due to probe, and notes what became of the probe before.
    /// Instants are UTC milliseconds: `at` of the business clock, `realNow` and `next` of real time.
    package static func probeStorefronts(
        at: Int64, realNow: Int64, next: Int64, on connection: isolated PostgresConnection
    ) throws -> [StorefrontProbe] {
        try connection.query(
            """
            -- name: probeStorefronts
            SELECT * FROM repricer.probe_storefronts(\(timestamp: at), \(timestamp: realNow), \(timestamp: next))
            """
        ).map { row in
            StorefrontProbe(
                batchID: try row.text("batch_id"), storefront: try row.text("storefront"),
                subscription: try row.text("subscription"), answer: try row.textOrNil("answer"),
                hasRecovered: try row.bool("has_recovered"))
        }
    }

    /// Work of a kind that had ended by a refusal and goes again.
    package struct PutBack: Sendable, Equatable {
        package var kind: String
        /// The batch; nil stands for every batch, or for a kind without batches.
        package var batchID: String?
        package var code: String
        package var count: Int64
    }

    /// Puts back what ended by refusals that everybody met, at most `limit` rows of each halt in one transaction.
    /// Instants are as above.
    package static func putBackRefused(
        at: Int64, realNow: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [PutBack] {
        try connection.query(
            """
            -- name: putBackRefused
            SELECT * FROM repricer.put_back_refused(\(timestamp: at), \(timestamp: realNow), \(limit)::integer)
            """
        ).map { row in
            PutBack(
                kind: try row.text("kind"), batchID: try row.textOrNil("batch_id"),
                code: try row.text("code"), count: try row.int64("rows"))
        }
    }
}
