package import Postgres

/// Status checks after the database was replaced, by a restore for example. The service checks the status of each
/// subscription that the lost database may have called. Calls of such a subscription wait for its check.
package enum RestoredDatabase {
    /// Reason and name of the list of these checks, in `status_checks`.
    package static let checkReason = "recover"
    package static let checkList = "restored"

    /// The condition that the subscription's status is still to be read: it was not read yet, or the last answer
    /// contained none. Both parameters name a column or a value of the statement.
    package static func isAwaited(_ subscription: SQL, bucket: SQL) -> SQL {
        """
        EXISTS (SELECT FROM repricer.status_checks k
            WHERE k.original_transaction_id = \(fragment: subscription) AND k.bucket = \(fragment: bucket)
                AND k.reason = \(checkReason) AND k.list_id = \(checkList)
                AND (k.outcome IN ('read', 'drifted')) IS NOT TRUE)
        """
    }
}
