/// One subscription as the store holds it. Prices are milliunits, instants UTC milliseconds.
struct StoreSubscription: Codable, Hashable, Sendable {
    /// Apple's `status` numbers.
    enum Status: Int, Codable, Hashable, Sendable, CaseIterable {
        case active = 1
        case expired = 2
        case billingRetry = 3
        case gracePeriod = 4
        case revoked = 5
    }

    /// The first transaction; the later ones count up from it.
    var originalTransactionID: Int64
    /// Periods paid after the first; the shortened mode stops after twelve.
    var renewalCount = 0
    var storefront: String
    var currency: String
    var period: BillingPeriod
    var appAccountToken: String
    /// The request that bought the subscription; renewal infos repeat it.
    var purchaseReferenceID: String
    var startedAt: Int64
    /// The day of the month on which renewals are due, where the month has it.
    var anchorDay: Int
    var purchasedAt: Int64
    var expiresAt: Int64
    var status = Status.active
    var autoRenews = true
    var expirationIntent: Int?
    var graceEndsAt: Int64?
    var retryEndsAt: Int64?
    var recoversAt: Int64?
    var revokedAt: Int64?
    var items: [StoreItem]
    var tokenNumber = 1
    /// The newest `signedDate` given out; each signed statement gets a later one.
    var lastSignedAt: Int64
    var notificationCount = 0
    /// When an increase was last charged, for the twelve-month rule.
    var increasedAt: Int64?
    var plan = SubscriberPlan()
    /// How many seats the transaction paid for, each at the items' prices; nil: one.
    var seatCount: Int?
    /// How many seats the next renewal pays for; nil: as many.
    var renewalSeatCount: Int?
    /// Whether this is the view of a transaction that paid for seats added to those of its period.
    var isAddedSeat: Bool?
    var seats: Int { seatCount ?? 1 }
    /// Whether the running period began by a purchase in the app and not by a renewal.
    var lastWasPurchase: Bool?
    /// When it was bought anew after its end; nil: never.
    var boughtAgainAt: Int64?
    /// Instants at which the renewal date was extended; nil: never.
    var extendedAt: [Int64]?
    /// Whether it is a family member's, who shares another's purchase.
    var isFamilyShared: Bool?
    var ownershipType: String { isFamilyShared == true ? "FAMILY_SHARED" : "PURCHASED" }
    /// The account's storefront from the next renewal on.
    var nextHome: NextHome?
    /// Periods that ended since the store began.
    var past: [PastPeriod]?
    /// The requests already answered: request id to a digest of its body.
    var answered: [String: String] = [:]

    struct NextHome: Codable, Hashable, Sendable {
        var storefront: String
        /// Full prices by SKU; one that is not listed keeps its number in the other currency.
        var prices: [String: Int64]
    }

    /// Transactions of one subscription share all digits but the last four.
    static let transactionsMax: Int64 = 10_000

    var transactionID: Int64 { originalTransactionID + Int64(renewalCount) }

    var id: String { String(originalTransactionID) }

    var isBilledOrWaiting: Bool {
        switch status {
        case .active, .gracePeriod, .billingRetry: true
        case .expired, .revoked: false
        }
    }

    /// The SKU under which an item renews.
    func renewalSKU(of sku: String) -> String {
        items.first { $0.sku == sku }?.renewalSKU ?? sku
    }

    var renewingItems: [StoreItem] {
        isBilledOrWaiting ? items.filter { !$0.isLeaving } : []
    }

    /// What each seat of the running period cost.
    var chargedPrice: Int64 {
        items.reduce(0) { $0 + $1.chargedPrice }
    }

    func firstRenewal(atOrAfter instant: Int64, calendar: BillingCalendar) -> Int64 {
        var count = 0
        while renewal(count, calendar: calendar) < instant { count += 1 }
        return renewal(count, calendar: calendar)
    }

    /// R0, R1, …: the renewals from the next one on.
    func renewal(_ index: Int, calendar: BillingCalendar) -> Int64 {
        index == 0
            ? expiresAt
            : calendar.end(of: period, from: expiresAt, count: index, anchorDay: anchorDay)
    }
}

/// One SKU of a subscription.
struct StoreItem: Codable, Hashable, Sendable {
    var sku: String
    var displayName: String
    var description: String
    /// Full price of the running period, without an offer.
    var price: Int64
    var offer: StoreOffer?
    var change: PendingChange?
    /// Whether it was declined: it is paid for the running period and ends at the next charge.
    var isLeaving = false
    /// The SKU that a metadata change gives it at the next renewal.
    var nextSKU: String?
    /// The product that replaces it at the next renewal.
    var replacement: Replacement?
    /// The refund of the running period's charge.
    var refund: ItemRefund?

    /// The SKU that the renewal info lists.
    var renewalSKU: String { replacement?.sku ?? nextSKU ?? sku }

    var chargedPrice: Int64 { offer?.price ?? price }

    /// The price that the renewal info shows: the higher one as soon as the subscriber was told.
    func renewalPrice(nextRenewalAt: Int64) -> Int64 {
        if let replacement { return replacement.price }
        guard let change else { return price }
        switch change.kind {
        case .decrease: return change.effectiveAt <= nextRenewalAt ? change.price : price
        case .increase(let increase): return increase.status == .scheduled ? price : change.price
        }
    }
}

/// An offer that the running period was charged at.
struct StoreOffer: Codable, Hashable, Sendable {
    var price: Int64
    /// Periods at this price from the next renewal on.
    var periodsLeft: Int
    var periodCount: Int
    var reason: String
}

/// A price that an item will have from a later renewal on.
struct PendingChange: Codable, Hashable, Sendable {
    enum Kind: Codable, Hashable, Sendable {
        case decrease
        case increase(PendingIncrease)
    }

    var price: Int64
    /// The renewal that first charges it.
    var effectiveAt: Int64
    var kind: Kind

    var increase: PendingIncrease? {
        get {
            switch kind {
            case .decrease: nil
            case .increase(let increase): increase
            }
        }
        set {
            if let newValue { kind = .increase(newValue) }
        }
    }

    /// Whether the subscriber was told, after which no other change is taken.
    var isCommunicated: Bool {
        guard let increase else { return false }
        return increase.status != .scheduled
    }
}

struct PendingIncrease: Codable, Hashable, Sendable {
    enum Status: String, Codable, Hashable, Sendable {
        case scheduled = "SCHEDULED"
        case pending = "PENDING"
        case accepted = "ACCEPTED"
    }

    var status = Status.scheduled
    var needsConsent: Bool
    var communicatesAt: Int64
    /// When this subscriber will consent; nil before the communication and for those who never do.
    var consentsAt: Int64?
    var dependentSKUs: [String]
}

/// What a subscriber will do of their own accord.
struct SubscriberPlan: Codable, Hashable, Sendable {
    /// The answer to the communication of an increase.
    enum Answer: String, Codable, Hashable, Sendable, CaseIterable {
        case consentsEarly, consentsLate, ignores, consentsToSome, cancels
    }

    /// A charge that fails at the first renewal at or after `from`.
    struct BillingTrouble: Codable, Hashable, Sendable {
        var from: Int64
        var hasGrace: Bool
        /// Time from the failed renewal to the recovery; nil never recovers.
        var recoversAfter: Int64?
    }

    var answer = Answer.consentsEarly
    var cancelsAt: Int64?
    var resumesAt: Int64?
    var refundedAt: Int64?
    var revokedAt: Int64?
    /// Further actions, in order; nil: none.
    var doings: [Doing]?
    var trouble: BillingTrouble?
}
