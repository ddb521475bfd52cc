/// Why a payload is not taken, whoever sends it again.
package struct NotificationRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Hashable, Sendable {
        /// It is not a notification at all, and is answered with 400.
        case malformed
        /// It is a notification, but not one that Apple signed for this app, and is answered with 403.
        case forbidden
    }

    package let kind: Kind
    /// The code, stable and short: a label of metrics and a key of counts.
    package let code: String
    package let message: String

    package init(_ kind: Kind, code: String, message: String) {
        self.kind = kind
        self.code = code
        self.message = message
    }

    /// What the sender of the payload can do.
    package var remedy: String {
        switch kind {
        case .malformed: "pass each payload on as the App Store sent it"
        case .forbidden:
            "check the payload's app and environment against the settings, and "
                + "REPRICER_ROOT_CERTIFICATES"
        }
    }

    /// The text `CODE: what is wrong; what to do`.
    package var description: String { "\(code): \(message); \(remedy)" }
}

/// Verifies one payload at an instant (UTC milliseconds) and reduces it to what is stored. It is pure computation of
/// some 0.5 ms, or 3 ms where the chain of certificates is new.
package typealias NotificationCheck =
    @Sendable (_ signedPayload: String, _ now: Int64) throws(NotificationRefusal) -> Arrival
