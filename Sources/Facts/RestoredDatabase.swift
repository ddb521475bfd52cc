package import Postgres

/// What a service asks for that finds itself in another database than before: the status of each subscription that the
/// lost one may have called. Calls of such a subscription wait for it.
package enum RestoredDatabase {
    /// Reason and name of the list of these checks, in `status_checks`.
    package static let checkReason = "recover"
    package static let checkList = "restored"

    /// Whether the subscription's status is still to be read: it was not asked for yet, or its last answer showed none.
    /// Both name a column, or a value, of the statement.
    package static func isAwaited(_ subscription: SQL, bucket: SQL) -> SQL {
        """
        EXISTS (SELECT FROM repricer.status_checks k
            WHERE k.original_transaction_id = \(fragment: subscription) AND k.bucket = \(fragment: bucket)
                AND k.reason = \(checkReason) AND k.list_id = \(checkList)
                AND (k.outcome IN ('read', 'drifted')) IS NOT TRUE)
        """
    }
}
