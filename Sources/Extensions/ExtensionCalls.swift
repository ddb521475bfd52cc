package import AppStore

/// The calls that extensions need. The live one is the App Store client; tests script their own.
package protocol ExtensionCalls: Sendable {
    /// Extend a Subscription Renewal Date. Nothing of it leaves once `leavingBefore` has passed.
    func extend(
        originalTransactionID: String, _ request: ExtensionRequest,
        leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<ExtensionAnswer>
    /// Extend Subscription Renewal Dates for All Active Subscribers; `leavingBefore` as above.
    func extendAll(
        _ request: MassExtensionRequest, leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<String>
    /// Get Status of Subscription Renewal Date Extensions.
    func extensionStatus(
        productID: String, requestIdentifier: String
    ) async -> CallOutcome<MassExtensionStatus>
}

extension AppStoreClient: ExtensionCalls {}
