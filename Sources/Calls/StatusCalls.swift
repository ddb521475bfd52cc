/// Reads the status of a subscription: what every check of a call asks.
package protocol StatusCalls: Sendable {
    /// Get All Subscription Statuses: the statements on this subscription.
    func checkStatus(transactionID: String) async -> StoreAnswer
}
