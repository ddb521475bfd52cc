import Pricing

// The fields of `subscriptions.items`, `.increases`, `.renames` and `.signed_details`.

extension SubscriptionFacts.Item: StoredObject {
    static var unread: Self { Self(sku: "") }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("sku", &sku)
        try fields.field("currentPrice", &currentPrice)
        try fields.field("renewalPrice", &renewalPrice)
        try fields.field("renews", &renews)
        try fields.field("chargedAs", &chargedAs)
        try fields.field("offer", &offer)
        try fields.field("increase", &increase)
    }
}

extension SubscriptionFacts.Offer: StoredObject {
    static var unread: Self { Self(price: nil) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("price", &price)
        try fields.field("period", &period)
        try fields.field("periodsLeft", &periodsLeft)
        try fields.field("reason", &reason)
        try fields.field("isRunning", &isRunning)
        try fields.field("runningPrice", &runningPrice)
    }
}

extension SubscriptionFacts.Increase: StoredObject {
    static var unread: Self { Self(status: "") }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("status", &status)
        try fields.field("price", &price)
        try fields.field("dependentSKUs", &dependentSKUs)
        try fields.field("shownAt", &shownAt)
    }
}

extension RecordedIncrease: StoredObject {
    static var unread: Self { Self(sku: "", price: 0) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("sku", &sku)
        try fields.field("price", &price)
        try fields.field("communicatedAt", &communicatedAt)
        try fields.field("effectiveAt", &effectiveAt)
        try fields.field("origin", &origin)
        try fields.field("consentAskedAt", &consentAskedAt)
        try fields.field("acceptedAt", &acceptedAt)
        try fields.field("refusedAt", &refusedAt)
    }
}

extension SubscriptionFacts.FormerName: StoredObject {
    static var unread: Self { Self(from: "", to: "", at: .unread, transactionID: nil) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("from", &from)
        try fields.field("to", &to)
        try fields.field("at", &at)
        try fields.field("transactionID", &transactionID)
        try fields.mark("isDoubtful", &isDoubtful)
        try fields.mark("isOfItsTransaction", &isOfItsTransaction)
    }
}

/// The details of the running period's transaction and of the newest renewal info, and the seats that were added.
struct StoredDetails: Equatable {
    var transaction = SignedDetails()
    var renewal = SignedDetails()
    var addedSeats: AddedSeats?

    init() {}

    /// nil where there is nothing to keep.
    init?(_ facts: SubscriptionFacts) {
        transaction = facts.transactionDetails
        renewal = facts.renewalDetails
        addedSeats = facts.addedSeats
        if self == StoredDetails() { return nil }
    }
}

extension StoredDetails: StoredObject {
    static var unread: Self { Self() }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.details("transaction", &transaction, SignedDetails.ofTransaction)
        try fields.details("renewal", &renewal, SignedDetails.ofRenewal)
        try fields.field("addedSeats", &addedSeats)
    }
}

extension AddedSeats: StoredObject {
    static var unread: Self { Self(ownQuantity: nil, purchases: []) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("ownQuantity", &ownQuantity)
        try fields.field("purchases", &purchases)
    }
}

extension AddedSeats.Purchase: StoredObject {
    static var unread: Self {
        Self(transactionID: "", purchasedAt: .unread, seats: 0, isGivenBack: false)
    }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("transactionID", &transactionID)
        try fields.field("purchasedAt", &purchasedAt)
        try fields.field("seats", &seats)
        try fields.field("isGivenBack", &isGivenBack)
    }
}
