package import AppStore

/// The calls that extensions need. The App Store client makes them; tests script their own.
package protocol ExtensionCalls: Sendable {
    /// Calls Extend a Subscription Renewal Date. No byte leaves after `leavingBefore`.
    func extend(
        originalTransactionID: String, _ request: ExtensionRequest,
        leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<ExtensionAnswer>
    /// Calls Extend Subscription Renewal Dates for All Active Subscribers. No byte leaves after `leavingBefore`.
    func extendAll(
        _ request: MassExtensionRequest, leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<String>
    /// Calls Get Status of Subscription Renewal Date Extensions.
    func extensionStatus(
        productID: String, requestIdentifier: String
    ) async -> CallOutcome<MassExtensionStatus>
}

extension AppStoreClient: ExtensionCalls {}
