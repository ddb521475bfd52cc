/// What is known of one subscription from the newest signed payloads. It holds nothing that we only intend.
///
/// Prices are milliunits. Each optional is a value that Apple has not sent (yet). An unknown storefront, currency or
/// offer reason is kept as its text, because an unknown value never fails.
package struct SubscriptionFacts: Hashable, Sendable {
    package var originalTransactionID: String
    /// Apple's `status`: 1 active, 2 expired, 3 billing retry, 4 grace period, 5 revoked.
    package var status: Int?
    package var autoRenews: Bool?
    package var isInBillingRetry = false
    package var gracePeriodExpiresAt: Instant?
    package var expirationIntent: Int?
    package var storefront: String?
    package var currency: String?
    /// `P1W`, `P1M`, `P2M`, `P3M`, `P6M`, `P1Y`, or an unknown text.
    package var period: String?
    /// The period from the next renewal on, where it is another than that of the running one: the customer chose it.
    package var renewalPeriod: String?
    package var productID: String?
    package var appAccountToken: String?
    /// Apple's `inAppOwnershipType`: `PURCHASED`, `FAMILY_SHARED`, `ASSIGNED`, or an unknown text.
    package var ownershipType: String?
    /// The kind of holder who does not pay for it, such as a family member; nil for a buyer. Such a subscription has no
    /// price of its own, and Apple refuses calls for it. For an assigned seat that is an inference, from error 4000227
    /// (Notifications 2.23).
    package var holder: Holder? { ownershipType.flatMap(Holder.init) }

    package enum Holder: String, Hashable, Sendable {
        case familyMember = "FAMILY_SHARED"
        case assignedSeat = "ASSIGNED"

        /// In words, after "the subscription is".
        var words: String {
            switch self {
            case .familyMember: "a family member's, who does not pay for it"
            case .assignedSeat: "a seat that was assigned, whose holder does not pay for it"
            }
        }
    }
    /// The discount type of the running period of an ordinary subscription: `FREE_TRIAL`, ….
    package var offerDiscountType: String?
    /// The type of the running period's offer, as Apple codes it; nil where there is none.
    package var offerType: Int?
    /// All seats of the running period: those that its own transaction charged, and those that were added later.
    package var quantity: Int?
    /// The seats that were added to the running period; nil where none were.
    package var addedSeats: AddedSeats?
    /// Why the running period was charged: `PURCHASE`, `RENEWAL`, or an unknown text.
    package var transactionReason: String?
    /// The app transaction of the download in which it was bought.
    package var appTransactionID: String?
    /// The product that renews. It differs from `productID` where a change of it is pending.
    package var autoRenewProductID: String?
    /// What the next period costs as a whole, in milliunits of `renewalCurrency`; nil where the newest renewal info
    /// does not say.
    package var renewalTotal: Int64?
    /// In which currency the next period is charged; nil where the newest renewal info does not say.
    package var renewalCurrency: String?
    /// The type of the next period's offer; nil where there is none.
    package var renewalOfferType: Int?
    /// Further fields of the running period's transaction, and of the newest renewal info.
    package var transactionDetails = SignedDetails()
    package var renewalDetails = SignedDetails()
    package var latestTransactionID: String?
    package var originalPurchaseAt: Instant?
    package var recentSubscriptionStartAt: Instant?
    /// The start of the running period: `purchaseDate` of the latest transaction.
    package var purchasedAt: Instant?
    package var expiresAt: Instant?
    package var renewalAt: Instant?
    package var consistencyToken: String?
    package var items: [Item] = []
    /// The renames, in the order of their statements. A transaction that was charged before a rename may be signed with
    /// the old names or with the new ones.
    package var renames: [FormerName] = []
    /// The `signedDate` of the newest folded payload.
    package var signedAt: Instant?
    /// The start of the period from which on no increase can have been missed. There is a statement for each later
    /// period, or where one is missing, the prices after it can be compared with those before it.
    package var knownSince: Instant?

    /// One SKU of the bundle, as it is charged now and as it is set to renew.
    package struct Item: Hashable, Sendable {
        package var sku: String
        /// The full price of the running period (from the transaction info, without an offer); nil when the item only
        /// joins at the renewal.
        package var currentPrice: Int64?
        /// `items[].price` of the renewal info. While an increase is PENDING this is already the higher price.
        package var renewalPrice: Int64?
        /// Whether the renewal info lists the SKU.
        package var renews = false
        package var offer: Offer?
        package var increase: Increase?
        /// The SKU in the running period's transaction, where the item was renamed after it.
        package var chargedAs: String?
    }

    /// A rename of an item.
    package struct FormerName: Hashable, Sendable {
        package var from: String
        package var to: String
        package var at: Instant
        /// The transaction of the period that was running at the rename.
        package var transactionID: String?
        /// Whether the only sign of the rename is that the transaction listed one SKU in place of the other, at another
        /// price.
        package var isDoubtful = false
        /// Whether it is about this transaction alone, because the new name was known as another item's before.
        package var isOfItsTransaction = false

        package init(from: String, to: String, at: Instant, transactionID: String?) {
            self.from = from
            self.to = to
            self.at = at
            self.transactionID = transactionID
        }
    }

    /// An offer that runs on an item. `periodsLeft` counts periods from the next renewal on, by the renewal info; it
    /// is 0 or nil when the offer ends with the running period.
    package struct Offer: Hashable, Sendable {
        package var price: Int64?
        package var period: String?
        package var periodsLeft: Int?
        package var reason: String?
        /// Whether the running period (transaction info) was charged at the offer's price.
        package var isRunning = false
        /// The price of the running period, where the renewal info shows an offer at another price.
        package var runningPrice: Int64?

        /// What the running period was charged; nil where it was not charged in an offer, or Apple has not said.
        var chargedPrice: Int64? { isRunning ? runningPrice ?? price : nil }
    }

    /// Apple's `priceIncreaseInfo` of a renewal item.
    package struct Increase: Hashable, Sendable {
        /// `SCHEDULED`, `PENDING`, `ACCEPTED`, or an unknown text.
        package var status: String
        package var price: Int64?
        package var dependentSKUs: [String] = []
        /// When the first statement that showed it was signed; nil where the subscriber was told of it.
        package var shownAt: Instant?
    }
}

extension SubscriptionFacts {
    /// Whether a further period of the item will be charged, as far as is known: it is not where the subscription
    /// ended (2 expired, 5 revoked) or its renewal is off.
    package func isSetToRenew(_ sku: String) -> Bool {
        autoRenews != false && status != 2 && status != 5
            && items.contains { $0.sku == sku && $0.renews }
    }
}

// The values that must be known of each. The others are set as they are read.
extension SubscriptionFacts {
    package init(originalTransactionID: String) {
        self.originalTransactionID = originalTransactionID
    }
}

extension SubscriptionFacts.Item {
    package init(sku: String) { self.sku = sku }
}

extension SubscriptionFacts.Offer {
    package init(price: Int64?) { self.price = price }
}

extension SubscriptionFacts.Increase {
    package init(status: String) { self.status = status }
}

extension SubscriptionFacts {
    /// Whether the item renews at this price, or an announced increase leads to it, whoever requested that.
    package func bears(_ price: Int64, for sku: String) -> Bool {
        items.contains { $0.sku == sku && ($0.increase?.price ?? $0.renewalPrice) == price }
    }
}
