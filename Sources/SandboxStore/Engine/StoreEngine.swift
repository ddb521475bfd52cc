/// The simulated App Store as a value. Subscriptions, time and requests go in; notifications come out.
///
/// It reads no clock, draws no unseeded random numbers and does no I/O, so the same seed and the same requests at the
/// same instants give the same store. A heap of each subscription's next action makes time cheap.
package struct StoreEngine: Sendable {
    /// The options of one store.
    package struct Options: Codable, Hashable, Sendable {
        var seed: UInt64
        var calendar: BillingCalendar
        /// Apple's is chosen per app (3, 16 or 28 days).
        var graceDays: Int64 = 6
        /// Apple retries for 60 days; rehearsals shorten it so that a quarter sees the end.
        var retryDays: Int64 = 10
        /// Renewals after which a test account stops; nil never stops.
        var renewalsMax: Int?
        /// How long a mass extension takes, however many subscriptions it has.
        var massExtensionHours: Int64?
        /// The percentage of a mass extension's subscriptions that fail for no reason of their own.
        var massFailurePercent: Int?
        /// The answer to a call that repeats an earlier one with a new id; nil: `staleToken`.
        var repeats: Repeats?
        /// The base of original transaction ids.
        var firstTransactionID: Int64 = 2_000_000_000_000_000
    }

    /// The answer to a call for a price that an earlier call has already set, when the sender has forgotten that call.
    /// Apple does not document it.
    enum Repeats: String, Codable, CaseIterable, Sendable {
        /// Its consistency token is not the current one.
        case staleToken = "stale-token"
        /// It is accepted again, whatever its token.
        case accepted
        /// It is refused as already communicated, whatever its token.
        case refused
    }

    package internal(set) var options: Options
    /// The instant up to which everything has happened.
    package internal(set) var now: Int64
    var subscriptions: [Int64: StoreSubscription] = [:]
    /// By request identifier; see `StoreEngine+Extensions`.
    var massExtensions: [MassExtension] = []
    /// Original transaction ids by `appAccountToken`, which identifies the customer.
    private var customers: [String: [Int64]] = [:]
    private var agenda = ActionHeap()
    var outgoing: [StoreEvent] = []

    init(options: Options, now: Int64, subscriptions: [StoreSubscription] = []) {
        self.options = options
        self.now = now
        for subscription in subscriptions { put(subscription) }
    }

    /// How many subscriptions the store holds.
    package var subscriptionCount: Int { subscriptions.count }

    /// The next instant at which anything happens by itself.
    package var nextActionAt: Int64? { agenda.first?.at }

    /// Actions on the agenda, for `GET /sandbox/state`.
    package var pendingActionCount: Int { agenda.count }

    /// Lets everything up to `instant` happen; time never goes back. Returns what Apple would send.
    package mutating func advance(to instant: Int64) -> [StoreEvent] {
        while let next = agenda.first, next.at <= instant {
            agenda.removeFirst()
            if next.subscription < 0 {
                now = max(now, next.at)
                goOn(with: Int(-next.subscription - 1))
                continue
            }
            guard var subscription = subscriptions[next.subscription],
                let action = subscription.nextAction(calendar: options.calendar),
                action.at == next.at
            else { continue }
            now = max(now, action.at)
            perform(action, on: &subscription)
            put(subscription)
        }
        now = max(now, instant)
        return takeOutgoing()
    }

    /// The subscription that a transaction id of any of its periods names.
    func subscription(ofTransaction text: String) -> StoreSubscription? {
        guard let number = Int64(text), number >= 0 else { return nil }
        let original = number - number % StoreSubscription.transactionsMax
        guard let found = subscriptions[original], number <= found.transactionID else { return nil }
        return found
    }

    /// Stores a subscription and puts its next action on the agenda.
    mutating func put(_ subscription: StoreSubscription) {
        let id = subscription.originalTransactionID
        if subscriptions.updateValue(subscription, forKey: id) == nil {
            customers[subscription.appAccountToken, default: []].append(id)
        }
        if let action = subscription.nextAction(calendar: options.calendar) {
            agenda.insert(.init(at: action.at, subscription: id))
        }
    }

    /// All subscriptions of this one's customer, itself included, in the order of ids.
    func subscriptions(ofCustomerOf one: StoreSubscription) -> [StoreSubscription] {
        let ids = customers[one.appAccountToken] ?? [one.originalTransactionID]
        return ids.sorted().compactMap { subscriptions[$0] }
    }

    /// Puts a mass extension on the agenda. As it has no subscription, its entry has a negative number.
    mutating func plan(massExtension index: Int, at: Int64) {
        agenda.insert(.init(at: at, subscription: -Int64(index) - 1))
    }

    mutating func takeOutgoing() -> [StoreEvent] {
        let events = outgoing
        outgoing = []
        return events
    }

    /// Returns a new `signedDate`, later than every earlier one of this subscription.
    func sign(_ subscription: inout StoreSubscription) -> Int64 {
        subscription.lastSignedAt = max(now, subscription.lastSignedAt + 1)
        return subscription.lastSignedAt
    }

    /// Gives the subscription a new consistency token, as each change of the renewal info does.
    func touch(_ subscription: inout StoreSubscription) {
        subscription.tokenNumber += 1
    }

    func consistencyToken(of subscription: StoreSubscription) -> String {
        var random = SeededRandom(
            seed: options.seed, "token", subscription.id, String(subscription.tokenNumber))
        return "1.\(subscription.id).\(random.uuid())"
    }

    mutating func notify(
        _ type: StoreEvent.Kind, _ subtype: StoreEvent.Subtype? = nil,
        _ subscription: inout StoreSubscription, about transactionID: Int64? = nil
    ) {
        subscription.notificationCount += 1
        var random = SeededRandom(
            seed: options.seed, "notification", subscription.id,
            String(subscription.notificationCount))
        let signedAt = sign(&subscription)
        outgoing.append(
            StoreEvent(
                notificationUUID: random.uuid(), kind: type, subtype: subtype, signedAt: signedAt,
                consistencyToken: consistencyToken(of: subscription), subscription: subscription,
                transactionID: transactionID))
    }
}

/// One notification before it is signed, with the subscription as it was then.
package struct StoreEvent: Hashable, Sendable {
    package enum Kind: String, Codable, Hashable, Sendable {
        case subscribed = "SUBSCRIBED"
        case priceChange = "PRICE_CHANGE"
        case priceIncrease = "PRICE_INCREASE"
        case didRenew = "DID_RENEW"
        case didChangeRenewalStatus = "DID_CHANGE_RENEWAL_STATUS"
        case didFailToRenew = "DID_FAIL_TO_RENEW"
        case didChangeRenewalPref = "DID_CHANGE_RENEWAL_PREF"
        case metadataUpdate = "METADATA_UPDATE"
        case migration = "MIGRATION"
        case gracePeriodExpired = "GRACE_PERIOD_EXPIRED"
        case expired = "EXPIRED"
        case refund = "REFUND"
        case refundDeclined = "REFUND_DECLINED"
        case refundReversed = "REFUND_REVERSED"
        case revoke = "REVOKE"
        case renewalExtended = "RENEWAL_EXTENDED"
        case renewalExtension = "RENEWAL_EXTENSION"
    }

    package enum Subtype: String, Codable, Hashable, Sendable {
        case initialBuy = "INITIAL_BUY"
        case resubscribe = "RESUBSCRIBE"
        case downgrade = "DOWNGRADE"
        case increaseQuantity = "INCREASE_QUANTITY"
        case seats = "SEATS"
        case pending = "PENDING"
        case accepted = "ACCEPTED"
        case billingRecovery = "BILLING_RECOVERY"
        case autoRenewEnabled = "AUTO_RENEW_ENABLED"
        case autoRenewDisabled = "AUTO_RENEW_DISABLED"
        case gracePeriod = "GRACE_PERIOD"
        case voluntary = "VOLUNTARY"
        case billingRetry = "BILLING_RETRY"
        case priceIncrease = "PRICE_INCREASE"
        case failure = "FAILURE"
        case summary = "SUMMARY"
    }

    package var notificationUUID: String
    package var kind: Kind
    package var subtype: Subtype?
    package var signedAt: Int64
    /// Of the subscription.
    var consistencyToken: String
    /// nil where the notification is about none.
    var subscription: StoreSubscription?
    /// The transaction of an earlier period; nil: the newest.
    var transactionID: Int64?
    /// Set only for `RENEWAL_EXTENSION`/`SUMMARY`.
    var summary: MassSummary?
}

/// A binary heap of (instant, subscription); stale entries are skipped when they come up.
struct ActionHeap: Sendable {
    struct Entry: Comparable, Sendable {
        var at: Int64
        var subscription: Int64

        static func < (left: Entry, right: Entry) -> Bool {
            (left.at, left.subscription) < (right.at, right.subscription)
        }
    }

    private var entries: [Entry] = []

    var first: Entry? { entries.first }
    var count: Int { entries.count }

    mutating func insert(_ entry: Entry) {
        entries.append(entry)
        var child = entries.count - 1
        while child > 0, entries[child] < entries[(child - 1) / 2] {
            entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeFirst() {
        guard let last = entries.popLast(), !entries.isEmpty else { return }
        entries[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < entries.count && entries[child] < entries[least] {
                least = child
            }
            if least == parent { return }
            entries.swapAt(parent, least)
            parent = least
        }
    }
}
