import Pricing

// The fields of `subscription_checkpoints.rest`.

/// What a checkpoint keeps in its column `rest`: the progress of each change, money, dependents, cancellations of ours
/// that the customer reversed, and paid periods. The facts have columns of their own, as in `subscriptions`.
struct StoredCheckpoint {
    /// An instant of what has this id: when a cancellation was reversed, or until when a former name was the item's.
    struct Dated {
        var id: String
        var at: Instant
    }

    var changes: [FoldCheckpoint.Told] = []
    var money: [MoneyEntry] = []
    var cancellations: [DependentCancellation] = []
    var reenabled: [Dated] = []
    /// Checkpoints that were written before periods were kept have none.
    var toldPeriods: [ToldPeriod]?

    var reenabledAt: [String: Instant] {
        Dictionary(reenabled.map { ($0.id, $0.at) }) { $1 }
    }

    init() {}

    init(_ checkpoint: FoldCheckpoint) {
        changes = checkpoint.changes
        money = checkpoint.money
        cancellations = checkpoint.cancellations
        reenabled = checkpoint.reenabledAt.sorted { $0.key < $1.key }
            .map { Dated(id: $0.key, at: $0.value) }
        toldPeriods = checkpoint.toldPeriods
    }
}

extension StoredCheckpoint: StoredObject {
    static var unread: Self { Self() }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("changes", &changes)
        try fields.field("money", &money)
        try fields.field("cancellations", &cancellations)
        try fields.field("reenabled", &reenabled)
        try fields.field("periods", &toldPeriods)
    }
}

extension StoredCheckpoint.Dated: StoredObject {
    static var unread: Self { Self(id: "", at: .unread) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("id", &id)
        try fields.field("at", &at)
    }
}

extension FoldCheckpoint.Told: StoredObject {
    static var unread: Self {
        Self(
            changeID: "", sku: "", dependentSKUs: [], formerSKUs: [], formerUntil: [:],
            progress: .unread, calledAt: .unread)
    }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("id", &changeID)
        try fields.field("sku", &sku)
        try fields.field("dependents", &dependentSKUs)
        try fields.field("former", &formerSKUs)
        var ends = formerUntil.sorted { $0.key < $1.key }.map {
            StoredCheckpoint.Dated(id: $0.key, at: $0.value)
        }
        try fields.field("formerUntil", &ends)
        formerUntil = Dictionary(ends.map { ($0.id, $0.at) }) { $1 }
        try fields.field("calledAt", &calledAt)
        try fields.field("progress", &progress)
    }
}

extension ChangeProgress: StoredObject {
    static var unread: Self { Self(state: .queued, dueAt: nil, since: .unread) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("state", &state)
        try fields.field("reason", &reason)
        try fields.field("scheduledAt", &scheduledAt)
        try fields.field("consentAskedAt", &consentAskedAt)
        try fields.field("acceptedAt", &acceptedAt)
        try fields.field("acceptance", &acceptance)
        try fields.field("effectiveAt", &effectiveAt)
        try fields.field("endedAt", &endedAt)
        try fields.field("dueAt", &dueAt)
        try fields.field("slip", &slip)
        try fields.field("since", &since)
    }
}

extension MoneyEntry: StoredObject {
    static var unread: Self {
        Self(
            Key(of: "", "", .charge, at: .unread, number: 0), terms: nil, amount: 0,
            taxExclusive: nil, currency: "", storefront: nil, evidenceID: "")
    }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("transaction", &key.transactionID)
        try fields.field("sku", &key.sku)
        try fields.field("kind", &key.kind)
        try fields.field("at", &key.occurredAt)
        try fields.field("number", &key.number)
        try fields.field("amount", &amount)
        try fields.field("taxExclusive", &taxExclusive)
        try fields.field("currency", &currency)
        try fields.field("storefront", &storefront)
        try fields.field("evidence", &evidenceID)
        try fields.field("terms", &terms)
    }
}

extension MoneyEntry.Terms: StoredObject {
    static var unread: Self {
        Self(
            0, times: 0, isOffer: false, isPurchase: false, isAddedSeat: false, until: nil,
            revokedAt: nil)
    }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("price", &price)
        try fields.field("quantity", &quantity)
        try fields.field("isOffer", &isOffer)
        try fields.field("isPurchase", &isPurchase)
        try fields.field("isAddedSeat", &isAddedSeat)
        try fields.mark("isRelisted", &isRelisted)
        try fields.field("period", &period)
        try fields.field("expiresAt", &expiresAt)
        try fields.field("revokedAt", &revokedAt)
    }
}

extension DependentCancellation: StoredObject {
    static var unread: Self {
        Self(
            changeID: "", dependentSKU: "", parentSKU: "", cause: "", state: .requested,
            requestedAt: .unread, requestedByEvidence: "")
    }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("change", &changeID)
        try fields.field("dependent", &dependentSKU)
        try fields.field("parent", &parentSKU)
        try fields.field("cause", &cause)
        try fields.field("price", &price)
        try fields.field("currency", &currency)
        try fields.field("state", &state)
        try fields.field("requestedAt", &requestedAt)
        try fields.field("requestedBy", &requestedByEvidence)
        try fields.field("settledAt", &settledAt)
        try fields.field("settledBy", &settledByEvidence)
        try fields.field("detail", &detail)
        try fields.field("isCross", &isCrossSubscription)
        try fields.field("cancel", &cancelReferenceID)
    }
}

extension ToldPeriod: StoredObject {
    static var unread: Self {
        Self(purchasedAt: .unread, currency: nil, storefront: nil, period: nil, prices: [])
    }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("at", &purchasedAt)
        try fields.field("currency", &currency)
        try fields.field("storefront", &storefront)
        try fields.field("period", &period)
        try fields.field("endsAt", &endsAt)
        try fields.field("knownSince", &knownSince)
        try fields.mark("isAfterToldPause", &isAfterToldPause)
        try fields.field("announced", &announced)
        try fields.field("prices", &prices)
    }
}

extension ToldPeriod.Price: StoredObject {
    static var unread: Self { Self(sku: "", price: 0) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("sku", &sku)
        try fields.field("price", &price)
    }
}
