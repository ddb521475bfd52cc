package import Facts
package import Postgres

/// What follows a halt: probes of halted storefronts, and rows to put back because a common cause ended them.
package enum HaltQueries {
    /// The outcome of the probe of a halted storefront.
    package struct StorefrontProbe: Sendable, Equatable {
        package var batchID: String
        package var storefront: String
        package var subscription: String
        /// Apple's code and its name, where the probe was refused.
        package var answer: String?
        package var hasRecovered: Bool
    }

    /// Releases one row as the probe of each halted storefront where that is due, and notes the outcome of the probe
    /// before. Instants are UTC milliseconds: `at` of the business clock, `realNow` and `next` of real time.
    package static func probeStorefronts(
        at: Int64, realNow: Int64, next: Int64, on connection: isolated PostgresConnection
    ) throws -> [StorefrontProbe] {
        try connection.query(
            """
            -- name: probeStorefronts
            SELECT * FROM repricer.probe_storefronts(\(timestamp: at), \(timestamp: realNow), \(timestamp: next))
            """
        ).map { row in
            try StorefrontProbe(
                batchID: row.text("batch_id"), storefront: row.text("storefront"),
                subscription: row.text("subscription"), answer: row.textOrNil("answer"),
                hasRecovered: row.bool("has_recovered"))
        }
    }

    /// Work of a kind that had ended with a refusal and was put back.
    package struct PutBack: Sendable, Equatable {
        package var kind: String
        /// The batch; nil stands for every batch, or for a kind without batches.
        package var batchID: String?
        package var code: String
        package var count: Int64
    }

    /// Puts back rows that ended with refusals of a common cause, at most `limit` of each halt in one transaction.
    /// Instants are as above. For `wait` milliseconds of real time these rows wait behind rows that were never called.
    package static func putBackRefused(
        at: Int64, realNow: Int64, limit: Int, wait: Int64,
        on connection: isolated PostgresConnection
    ) throws -> [PutBack] {
        try connection.query(
            """
            -- name: putBackRefused
            SELECT * FROM repricer.put_back_refused(\(timestamp: at), \(timestamp: realNow), \(limit)::integer,
                \(wait)::bigint * interval '1 millisecond')
            """
        ).map { row in
            try PutBack(
                kind: row.text("kind"), batchID: row.textOrNil("batch_id"), code: row.text("code"),
                count: row.int64("rows"))
        }
    }

    /// What was halted or throttled, and why.
    package struct Idle: Sendable, Equatable {
        package var what: String
        package var reason: String
    }

    /// Ends halts and throttles where nothing is left to call, because no call can end them any more.
    package static func endIdleHalts(
        at: Int64, on connection: isolated PostgresConnection
    ) throws -> [Idle] {
        try connection.query(
            """
            -- name: endIdleHalts
            SELECT * FROM repricer.end_idle_halts(\(timestamp: at))
            """
        ).map { row in
            try Idle(what: row.text("what"), reason: row.textOrNil("reason") ?? "")
        }
    }

    /// How many subscriptions of each batch are parked for each code since before the running streak of refusals, or
    /// were parked more than once. Others have succeeded in between, so these are exceptions.
    package static func parkedBefore(
        _ batchIDs: [String], on connection: isolated PostgresConnection
    ) throws -> [String: [Int: Int]] {
        var found: [String: [Int: Int]] = [:]
        for id in batchIDs {
            // Two statements: a spread database joins no table of its coordinator with the spread ones.
            let streak = try connection.query(
                """
                -- name: streakSince
                SELECT coalesce(min(since), 'infinity')::text AS since FROM repricer.refusal_streaks
                WHERE kind = 'price_change' AND refused <> '{}' AND (batch_id IS NULL OR batch_id = \(uuid: id))
                """
            ).one().text("since")
            let rows = try connection.query(
                """
                -- name: parkedBefore
                SELECT parked_reason, count(DISTINCT original_transaction_id) AS parked FROM repricer.price_changes
                WHERE batch_id = \(uuid: id) AND stage IN ('queued', 'unknown') AND parked_reason IS NOT NULL
                    AND (parks > 1 OR state_since < \(streak)::timestamptz)
                GROUP BY parked_reason
                """)
            for row in rows {
                // A reason that does not begin with a code is not an answer of the App Store.
                let digits = try row.text("parked_reason").prefix { $0.isASCII && $0.isNumber }
                guard let code = Int(digits) else { continue }
                found[id, default: [:]][code, default: 0] += try row.int("parked")
            }
        }
        return found
    }

    /// The codes with which changes of these calls ended before they were put back for a second chance, by call id. A
    /// second chance comes after a call of another subscription has succeeded, or after a person has resumed a batch
    /// that a guard had halted. The calls share a bucket.
    package static func secondChances(
        of calls: [StoreCall], on connection: isolated PostgresConnection
    ) throws -> [String: Set<Int>] {
        guard let bucket = calls.first?.bucket else { return [:] }
        let recovered = try connection.query(
            """
            -- name: recoveredHalts
            SELECT 'halt ' || put_back_id AS halt, code FROM repricer.put_backs
            WHERE kind = 'price_change' AND (is_recovered OR is_of_guard AND ended_until IS NOT NULL)
            """
        ).map { (halt: try $0.text("halt"), code: try $0.text("code")) }
        guard !recovered.isEmpty else { return [:] }
        let rows = try connection.query(
            """
            -- name: secondChances
            SELECT t.call, p.halt, p.reason
            FROM unnest(\(calls.map(\.subject))::text[], \(uuids: calls.map(\.callID))::uuid[]) AS t (id, call)
            CROSS JOIN LATERAL (
                SELECT h.evidence_id AS halt, h.reason FROM repricer.price_changes c
                JOIN repricer.price_change_history h
                    ON h.original_transaction_id = c.original_transaction_id AND h.change_id = c.change_id
                    AND h.bucket = \(bucket)::smallint
                WHERE c.original_transaction_id = t.id AND c.request_reference_id = t.call
                    AND c.bucket = \(bucket)::smallint
                    AND h.evidence_id = ANY (\(recovered.map(\.halt))::text[])
            ) p
            """)
        let codes = Dictionary(recovered.map { ($0.halt, $0.code) }) { first, _ in first }
        var found: [String: Set<Int>] = [:]
        for row in rows {
            // The change may have ended with another code than the one that halted the batch.
            guard let code = codes[try row.text("halt")], let number = Int(code),
                try row.textOrNil("reason")?.contains(": \(code) ") ?? false
            else { continue }
            found[try row.text("call"), default: []].insert(number)
        }
        return found
    }
}
