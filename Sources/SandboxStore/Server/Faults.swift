/// A fault of an API call, as `POST /sandbox/faults` orders it.
struct CallFault: Hashable, Sendable {
    enum Kind: String, Hashable, Sendable, CaseIterable {
        /// The request has no effect; no answer for `seconds`.
        case dropBefore = "drop_before"
        /// The request takes effect; instead of its answer there is none for `seconds`.
        case dropAfter = "drop_after"
        case http500 = "http_500"
        case http429 = "http_429"
        /// The request takes effect; its answer is sent after `seconds`.
        case late
        /// The request takes effect after `seconds`, then it is answered.
        case slow
        /// The request takes effect; the answer is not JSON.
        case garbage
        /// The request takes effect, the answer is JSON without the statements it should carry.
        case hollow
        /// The connection is reset, and the request has no effect.
        case resetBefore = "reset_before"
        /// The request takes effect; the connection is reset instead of its answer.
        case resetAfter = "reset_after"
        /// A repeat of a request id is refused with 4000097.
        case refuseRepeats = "refuse_repeats"
        /// The call is refused with `code`, one of Apple's that the store knows.
        case refuse
        /// A page token of the history has expired.
        case expireToken = "expire_token"
        /// The history says that there is more, without a token for it.
        case noToken = "no_token"
        /// An entry of the history has an invalid signature.
        case forge
    }

    /// Calls that faults can be ordered for.
    static let endpoints: Set<String> = [
        "changePrice", "cancel", "status", "history", "test", "testStatus", "extend", "extendAll",
        "extendStatus",
    ]

    var kind: Kind
    /// Real seconds, for `late`, `slow` and the drops: beyond a client's deadline unless ordered otherwise.
    /// Before a reset: none unless ordered. For `http429`, until calls are welcome again: one unless ordered.
    var seconds: Double
    /// What `refuse` answers.
    var error: StoreError?
}

/// A fault of notifications.
struct NotificationFault: Hashable, Sendable {
    enum Kind: String, Hashable, Sendable, CaseIterable {
        case duplicate, reorder, delay
        /// It is never sent; only the history holds it.
        case lose
        /// Each attempt closes the connection in the middle of the request; after the last one delivery ends.
        case hangUp = "hang_up"
    }

    var kind: Kind
    /// Real seconds, for `delay` and `reorder`.
    var seconds: Double
}

/// Faults that wait for their next occasions.
struct FaultQueue: Sendable {
    static let countMax: Int64 = 1_000_000

    private var calls: [String: [(fault: CallFault, left: Int64)]] = [:]
    private var notifications: [(fault: NotificationFault, left: Int64)] = []

    /// Adds what a request body orders; a sentence says what is wrong with it.
    mutating func add(_ body: [UInt8]) -> String? {
        guard let fields = JSONValue.parse(body)?.object else {
            return "the body is no JSON object"
        }
        let count = fields.present("count")?.integer ?? 1
        guard (1...FaultQueue.countMax).contains(count) else { return "count must be 1 or more" }
        guard let kind = fields.present("kind")?.string else { return "kind is missing" }
        let seconds: Double =
            switch fields.present("seconds") {
            case .integer(let whole): Double(whole)
            case .number(let value): value
            case .none, .null, .bool, .string, .array, .object: 0
            }
        guard (0...86_400).contains(seconds) else { return "seconds must be 0 to 86400" }
        let endpoint = fields.present("endpoint")?.string ?? "notifications"
        if endpoint == "notifications" {
            guard let kind = NotificationFault.Kind(rawValue: kind) else {
                return "unknown kind; notifications know duplicate, reorder, delay, lose, hang_up"
            }
            let fault = NotificationFault(kind: kind, seconds: seconds > 0 ? seconds : 1)
            notifications.append((fault, count))
            return nil
        }
        guard let kind = CallFault.Kind(rawValue: kind) else {
            let known = CallFault.Kind.allCases.map(\.rawValue).joined(separator: ", ")
            return "unknown kind; calls know \(known)"
        }
        guard CallFault.endpoints.contains(endpoint) else {
            return "unknown endpoint"
        }
        let error = fields.present("code")?.integer.flatMap { StoreError(rawValue: Int($0)) }
        guard kind != .refuse || error != nil else {
            return "refuse needs a code that the store knows"
        }
        let usual: Double =
            switch kind {
            case .resetBefore, .resetAfter: 0
            case .http429: 1
            case .dropBefore, .dropAfter, .http500, .late, .slow, .garbage, .hollow,
                .refuseRepeats, .refuse, .expireToken, .noToken, .forge:
                35
            }
        let fault = CallFault(kind: kind, seconds: seconds > 0 ? seconds : usual, error: error)
        calls[endpoint, default: []].append((fault, count))
        return nil
    }

    mutating func clear() {
        calls = [:]
        notifications = []
    }

    mutating func takeCallFault(_ endpoint: String) -> CallFault? {
        guard var waiting = calls[endpoint], let first = waiting.first else { return nil }
        waiting[0].left -= 1
        if waiting[0].left <= 0 { waiting.removeFirst() }
        calls[endpoint] = waiting
        return first.fault
    }

    var nextNotificationFault: NotificationFault? { notifications.first?.fault }

    mutating func takeNotificationFault() -> NotificationFault? {
        guard let first = notifications.first else { return nil }
        notifications[0].left -= 1
        if notifications[0].left <= 0 { notifications.removeFirst() }
        return first.fault
    }
}
