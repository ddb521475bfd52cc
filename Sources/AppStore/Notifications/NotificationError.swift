package import JOSE

/// Why a notification was not accepted.
package enum NotificationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Not a signed payload at all: HTTP 400.
    case malformed(JOSEError)
    /// The App Store's, and no notification; says what it is: HTTP 400.
    case otherStatement(String)
    /// Signed by somebody else, or about something else: HTTP 403.
    case refused(Refusal)

    package enum Refusal: Hashable, Sendable {
        case signature(JOSEError)
        case bundle
        case appID
        case environment
        case nestedSignature(JOSEError)
        case nestedBundle
        case nestedEnvironment
        /// Transaction and renewal speak of two subscriptions.
        case nestedSubscription
    }

    /// Stable and short, for logs and metrics.
    package var code: String {
        switch self {
        case .malformed(let error): error.code.rawValue
        case .otherStatement: "no_notification"
        case .refused(.signature(let error)): error.code.rawValue
        case .refused(.bundle): "wrong_bundle"
        case .refused(.appID): "wrong_app_id"
        case .refused(.environment): "wrong_environment"
        case .refused(.nestedSignature(let error)): "nested_\(error.code.rawValue)"
        case .refused(.nestedBundle): "nested_wrong_bundle"
        case .refused(.nestedEnvironment): "nested_wrong_environment"
        case .refused(.nestedSubscription): "nested_other_subscription"
        }
    }

    /// Every code there is.
    package static var codes: [String] {
        JOSEError.Code.allCases.flatMap { [$0.rawValue, "nested_\($0.rawValue)"] }
            + [
                "no_notification", "wrong_bundle", "wrong_app_id", "wrong_environment",
                "nested_wrong_bundle", "nested_wrong_environment", "nested_other_subscription",
            ]
    }

    /// What is wrong, without the code. Safe to show: nothing of the payload is in it.
    package var detail: String {
        switch self {
        case .malformed(let error): error.detail
        case .otherStatement(let what): "the payload is \(what), not a notification"
        case .refused(.signature(let error)): error.detail
        case .refused(.bundle): "the bundle id is not ours"
        case .refused(.appID): "the app's Apple id is not ours"
        case .refused(.environment): "the environment is not ours"
        case .refused(.nestedSignature(let error)): error.detail
        case .refused(.nestedBundle): "the transaction's bundle id is not ours"
        case .refused(.nestedEnvironment): "a nested environment is not ours"
        case .refused(.nestedSubscription):
            "transaction and renewal are of different subscriptions"
        }
    }

    /// Safe to show: nothing of the payload is in it.
    package var description: String { "\(code): \(detail)" }
}
