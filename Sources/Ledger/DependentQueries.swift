package import Postgres

/// Dependents whose end is not proved yet.
package enum DependentQueries {
    /// One that is due for a look at the subscription's status.
    package struct Open: Sendable {
        package var originalTransactionID: String
        package var changeID: String
        package var dependentSKU: String
        package var looks: Int
    }

    /// Takes those that are due and puts their next look off, so that two replicas don't look at once.
    package static func takeDue(
        realNow: Int64, nextLookAt: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Open] {
        try connection.query(
            """
            -- name: takeDueDependents
            WITH due AS (
                SELECT original_transaction_id, change_id, dependent_sku
                FROM repricer.dependent_cancellations
                WHERE state = 'requested'
                    AND (next_look_at IS NULL OR next_look_at <= \(timestamp: realNow))
                ORDER BY requested_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
            )
            UPDATE repricer.dependent_cancellations d
            SET looks = d.looks + 1, next_look_at = \(timestamp: nextLookAt)
            FROM due
            WHERE d.original_transaction_id = due.original_transaction_id
                AND d.change_id = due.change_id AND d.dependent_sku = due.dependent_sku
            RETURNING d.original_transaction_id, d.change_id, d.dependent_sku, d.looks
            """
        ).map { row in
            Open(
                originalTransactionID: try row.text("original_transaction_id"),
                changeID: try row.text("change_id"), dependentSKU: try row.text("dependent_sku"),
                looks: try row.int("looks"))
        }
    }

    /// Hands one over to a person: it can't be proved.
    package static func giveUp(_ open: Open, detail: String, at: Int64) -> SQL {
        """
        -- name: giveUpDependent
        UPDATE repricer.dependent_cancellations
        SET state = 'discrepancy', detail = \(detail), settled_at = \(timestamp: at)
        WHERE original_transaction_id = \(open.originalTransactionID)
            AND change_id = \(uuid: open.changeID) AND dependent_sku = \(open.dependentSKU)
            AND state = 'requested'
        """
    }
}
