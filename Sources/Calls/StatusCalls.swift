/// Reads the status of a subscription, as every check of a call does.
package protocol StatusCalls: Sendable {
    /// Calls Get All Subscription Statuses. The answer holds the statements on this subscription.
    func checkStatus(transactionID: String) async -> StoreAnswer
}
