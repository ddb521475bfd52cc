import AppStore
import Pricing
import ServiceKit

/// The stations of a notification's way from the App Store to our inbox, in order.
enum PathStation: String, Sendable, CaseIterable {
    /// The App Store accepts our key and knows the address.
    case requested
    /// The App Store tried to send it.
    case attempted
    /// Our address answered with a success.
    case delivered
    /// It is signed for this app, environment and roots.
    case verified
    /// It is in this database.
    case stored

    var meaning: String {
        switch self {
        case .requested: "the App Store takes the request"
        case .attempted: "the App Store sends the notification"
        case .delivered: "our address answers with a success"
        case .verified: "it is signed for this app and environment"
        case .stored: "it is in this database"
        }
    }
}

/// The finding: the last station reached, and what failed after it.
struct PathFinding: Sendable, Equatable {
    var reached: [PathStation] = []
    var brokeAt: PathStation?
    /// What is wrong, and what to do.
    var problem: String?
    var notificationUUID: String?
    var isAppStoreAway = false

    var isWhole: Bool { brokeAt == nil }
}

/// Follows the path of a test notification. Every external call is a closure, so that tests can simulate each failure.
struct NotificationPath: Sendable {
    typealias Entry = NotificationHistoryPage.Entry

    var request: @Sendable () async -> CallOutcome<String>
    var status: @Sendable (_ token: String) async -> CallOutcome<Entry>
    /// The notification's id; throws where our settings refuse it.
    var verify: @Sendable (_ signedPayload: String) throws -> String
    var isStored: @Sendable (_ uuid: String) async throws -> Bool
    /// The real time between two queries.
    var wait: @Sendable () async throws -> Void
    /// How often the status is queried, and then the database.
    var questionsMax: Int

    /// The path at which the receiver accepts notifications.
    static let ourPath = "/notifications"

    func walk() async throws -> PathFinding {
        var finding = PathFinding()
        guard let token = requested(await request(), &finding) else { return finding }
        finding.reached.append(.requested)
        guard let entry = try await attempt(token, &finding) else { return finding }
        finding.reached.append(.attempted)
        return try await judge(entry, finding)
    }

    private func requested(
        _ outcome: CallOutcome<String>, _ finding: inout PathFinding
    ) -> String? {
        switch outcome {
        case .answered(let token, _): return token
        case .refused(let code, let message, _):
            let why = code.meaning ?? message
            switch code.httpStatus {
            case 401:
                finding.fail(
                    .requested,
                    "token refused (\(code)): the App Store does not take our key; compare issuer, key id, key "
                        + "file and bundle id (`repricer config print`) with App Store Connect: Users and "
                        + "Access, Integrations, In-App Purchase")
            case 404 where code.rawValue == 4_040_007:
                finding.fail(
                    .requested,
                    "no such URL (\(code)): \(why); set the server URL of this environment under App "
                        + "Information, version 2: https://your-host\(Self.ourPath)")
            case let status where code.isBareStatus:
                finding.fail(
                    .requested,
                    "\(status) without a code: this is not the App Store, or a proxy on the way answers for it; "
                        + "check REPRICER_API_BASE_URL, which has no path of its own, and the proxy"
                )
            default:
                finding.fail(
                    .requested,
                    "refused (\(code)): \(why); the way of notifications is not proved: `repricer config check` "
                        + "tries key, app and environment")
            }
        case .throttled(let until, _):
            finding.fail(
                .requested,
                "too many test notifications; ask again after \(RFC3339.format(until.milliseconds))"
            )
            finding.isAppStoreAway = true
        case .notSent(let reason):
            finding.fail(
                .requested,
                "the App Store can't be reached: \(reason); check the network, the proxy and "
                    + "REPRICER_API_BASE_URL")
            finding.isAppStoreAway = true
        case .unknown(let reason, _):
            finding.fail(
                .requested,
                "the App Store gives no usable answer: \(reason); try again later, and see "
                    + "`repricer config check`")
            finding.isAppStoreAway = true
        }
        return nil
    }

    /// Queries until an attempt is reported. The last answer counts, because the App Store may try again.
    private func attempt(
        _ token: String, _ finding: inout PathFinding
    ) async throws -> Entry? {
        var last: Entry?
        var trouble: String?
        for question in 0..<max(1, questionsMax) {
            if question > 0 { try await wait() }
            switch await status(token) {
            case .answered(let entry, _):
                last = entry
                if !entry.sendAttempts.isEmpty { return entry }
                trouble = nil
            case .refused(let code, _, _):
                trouble = "its status is refused (\(code)): \(code.meaning ?? "")"
            case .throttled: trouble = "the App Store asks for silence"
            case .unknown(let reason, _), .notSent(let reason):
                trouble = "its status can't be read: \(reason)"
            }
        }
        if let trouble {
            finding.isAppStoreAway = true
            finding.fail(.attempted, trouble)
        } else {
            // Whether our settings accept it is not decided here, so a failure is ignored.
            finding.notificationUUID = last.flatMap { try? verify($0.signedPayload) }
            finding.fail(
                .attempted,
                "not delivered yet: the App Store has made no attempt; run it again in a minute")
        }
        return nil
    }

    private func judge(_ entry: Entry, _ before: PathFinding) async throws -> PathFinding {
        var finding = before
        let result = entry.sendAttempts.last?.result ?? "no result"
        let isDelivered = entry.sendAttempts.contains { $0.result == "SUCCESS" }
        if isDelivered { finding.reached.append(.delivered) }
        let uuid: String
        do {
            uuid = try verify(entry.signedPayload)
        } catch {
            finding.fail(
                .verified,
                "refused by us: \(error); check REPRICER_BUNDLE_ID, REPRICER_APP_APPLE_ID, "
                    + "REPRICER_ENVIRONMENT and REPRICER_ROOT_CERTIFICATES")
            return finding
        }
        finding.notificationUUID = uuid
        guard isDelivered else {
            finding.fail(.delivered, Self.undelivered(result))
            return finding
        }
        finding.reached.append(.verified)
        for question in 0..<max(1, min(questionsMax, 5)) {
            if question > 0 { try await wait() }
            if try await isStored(uuid) {
                finding.reached.append(.stored)
                return finding
            }
        }
        finding.fail(
            .stored,
            "not stored: something answered the App Store with a success, and it was not the receiver of "
                + "this database; check the URL in App Store Connect, the proxy and the forwarder")
        return finding
    }

    /// Apple's `sendAttemptResult` in words.
    private static func undelivered(_ result: String) -> String {
        let why =
            switch result {
            case "UNSUCCESSFUL_HTTP_RESPONSE_CODE":
                "delivered but refused: our address answered with an error. The URL must end in \(ourPath), any "
                    + "other path is answered 404; else the log of `repricer serve` and "
                    + "repricer_notifications_total name the reason, or the proxy and the forwarder's do"
            case "TIMED_OUT": "our address gave no answer in time"
            case "TLS_ISSUE": "no TLS connection: the certificate, its chain, or TLS below 1.2"
            case "NO_RESPONSE", "SOCKET_ISSUE", "PREMATURE_CLOSE":
                "no connection, or one that broke: DNS, firewall (17.0.0.0/8 must come in), proxy"
            case "CIRCULAR_REDIRECT": "our address redirects in a circle"
            case "INVALID_RESPONSE", "UNSUPPORTED_CHARSET":
                "our address answers with no HTTP that Apple reads"
            default: "the App Store says no more"
            }
        return "not delivered (\(result)): \(why)"
    }
}

extension PathFinding {
    fileprivate mutating func fail(_ station: PathStation, _ problem: String) {
        brokeAt = station
        self.problem = problem
    }
}
