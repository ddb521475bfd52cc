import AppStore
package import HTTP
package import Pricing
package import ServiceKit

/// Accepts V1 notifications. It checks the shared secret, the app and the environment, and puts them into the same
/// inbox.
///
/// Every body contains the secret. The body is stored, and recognised as a duplicate, without it. The secret is never
/// logged, and a body with a wrong one is not kept at all.
package struct LegacyIntake: Sendable {
    /// Requests a status check of a subscription, durably, because only the status is signed and a V1 notification is
    /// just a hint. A repeated request changes nothing.
    package typealias AskForStatus =
        @Sendable (_ originalTransactionID: String, _ at: Int64) async throws -> Void

    /// The codes of refusals that only this intake has.
    static let codes = ["two_passwords", "no_notification_type", wrongSecret]
    private static let wrongSecret = "wrong_shared_secret"

    private let intake: NotificationIntake
    private let secret: SharedSecret
    private let bundleID: String
    private let environment: StoreEnvironment
    private let clock: any WallClock
    private let askForStatus: AskForStatus

    package init(
        intake: NotificationIntake, secret: SharedSecret, bundleID: String,
        environment: StoreEnvironment, clock: any WallClock,
        askForStatus: @escaping AskForStatus
    ) {
        self.intake = intake
        self.secret = secret
        self.bundleID = bundleID
        self.environment = environment
        self.clock = clock
        self.askForStatus = askForStatus
    }

    /// Returns `stored` only once the notification is durable, and so is the status check that it asks for.
    func take(_ body: [UInt8]) async -> IntakeOutcome {
        let notification: LegacyNotification
        do throws(NotificationRefusal) {
            notification = try check(body)
        } catch {
            return intake.count(.refused(error))
        }
        let receivedAt = clock.nowMilliseconds()
        let redacted = notification.redacted()
        let id = LegacyNotification.id(ofRedacted: redacted)
        let event = notification.event(id: id, receivedAt: Instant(milliseconds: receivedAt))
        let outcome = await intake.keep(
            Arrival(
                notificationUUID: id, signedAtMilliseconds: event?.key.signedAt.milliseconds,
                type: notification.type, originalTransactionID: notification.originalTransactionID,
                understood: notification.kind != nil, isWork: event != nil,
                unknown: notification.unknown.map(\.description), evidence: .whole(redacted)))
        // A repeated notification requests the check too, because the process may have ended between the two steps the
        // first time.
        guard case .stored = outcome, notification.kind != .consumptionRequest,
            let subscription = notification.originalTransactionID
        else { return outcome }
        do {
            try await askForStatus(subscription, receivedAt)
            return outcome
        } catch {
            return .unavailable("\(error)")
        }
    }

    private func check(_ body: [UInt8]) throws(NotificationRefusal) -> LegacyNotification {
        let notification: LegacyNotification
        do throws(LegacyFault) {
            notification = try LegacyNotification(body)
        } catch {
            throw NotificationRefusal(.malformed, code: error.code, message: error.description)
        }
        guard secret.isEqual(to: notification.password ?? []) else {
            throw NotificationRefusal(
                .forbidden, code: Self.wrongSecret,
                message: "password is not the app's shared secret")
        }
        // Where the body names no app, the secret says which one it is, because the secret is the app's own.
        guard notification.bundleIDs.subtracting([bundleID]).isEmpty else {
            throw NotificationRefusal(
                .forbidden, code: "wrong_bundle", message: "the bundle id is not ours")
        }
        guard notification.environment == environment else {
            throw NotificationRefusal(
                .forbidden, code: "wrong_environment", message: "the environment is not ours")
        }
        return notification
    }
}
