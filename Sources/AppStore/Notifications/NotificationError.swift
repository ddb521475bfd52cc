package import JOSE

/// Why a notification was not accepted.
package enum NotificationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// It is no signed payload at all: HTTP 400.
    case malformed(JOSEError)
    /// The App Store signed it, but it is no notification; the text says what it is: HTTP 400.
    case otherStatement(String)
    /// Somebody else signed it, or it is about something else: HTTP 403.
    case refused(Refusal)

    package enum Refusal: Hashable, Sendable {
        case signature(JOSEError)
        case bundle
        case appID
        case environment
        case nestedSignature(JOSEError)
        case nestedBundle
        case nestedEnvironment
        /// The transaction and the renewal are about two subscriptions.
        case nestedSubscription
    }

    /// The code, stable and short, for logs and metrics.
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

    /// Every code.
    package static var codes: [String] {
        JOSEError.Code.allCases.flatMap { [$0.rawValue, "nested_\($0.rawValue)"] }
            + [
                "no_notification", "wrong_bundle", "wrong_app_id", "wrong_environment",
                "nested_wrong_bundle", "nested_wrong_environment", "nested_other_subscription",
            ]
    }

    /// What is wrong, without the code. It is safe to show, because nothing of the payload is in it.
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

    /// It is safe to show, because nothing of the payload is in it.
    package var description: String { "\(code): \(detail)" }
}
