package import JSONReading
package import Pricing

/// `JWSTransactionDecodedPayload`: the payload of a `signedTransactionInfo`, field by field under
/// the App Store's names. Codes and enumerations are kept raw.
package struct WireTransaction: WireObject {
    package let json: JSONNode

    package init?(_ json: JSONNode) {
        guard json.kind == .object else { return nil }
        self.json = json
    }

    package var originalTransactionId: String? { json["originalTransactionId"]?.storableText }
    package var transactionId: String? { json["transactionId"]?.storableText }
    package var webOrderLineItemId: String? { json["webOrderLineItemId"]?.storableText }
    package var previousOriginalTransactionId: String? {
        json["previousOriginalTransactionId"]?.storableText
    }
    package var appTransactionId: String? { json["appTransactionId"]?.storableText }
    package var bundleId: String? { json["bundleId"]?.storableText }
    package var environment: String? { json["environment"]?.storableText }
    /// The generic product where the transaction is one of Advanced Commerce.
    package var productId: String? { json["productId"]?.storableText }
    package var subscriptionGroupIdentifier: String? {
        json["subscriptionGroupIdentifier"]?.storableText
    }
    package var type: String? { json["type"]?.storableText }
    package var quantity: Int? { json["quantity"]?.int }
    package var appAccountToken: String? { json["appAccountToken"]?.storableText }
    package var inAppOwnershipType: String? { json["inAppOwnershipType"]?.storableText }
    package var purchaseDate: Instant? { json["purchaseDate"]?.instant }
    package var originalPurchaseDate: Instant? { json["originalPurchaseDate"]?.instant }
    package var expiresDate: Instant? { json["expiresDate"]?.instant }
    package var signedDate: Instant? { json["signedDate"]?.instant }
    package var revocationDate: Instant? { json["revocationDate"]?.instant }
    /// 0 other, 1 an issue with the app.
    package var revocationReason: Int? { json["revocationReason"]?.int }
    package var revocationType: String? { json["revocationType"]?.storableText }
    /// Thousandths of a percent: 0 to 100,000.
    package var revocationPercentage: Int? { json["revocationPercentage"]?.int }
    package var isUpgraded: Bool? { json["isUpgraded"]?.boolean }
    /// 1 introductory, 2 promotional, 3 offer code, 4 win-back.
    package var offerType: Int? { json["offerType"]?.int }
    package var offerIdentifier: String? { json["offerIdentifier"]?.storableText }
    package var offerDiscountType: String? { json["offerDiscountType"]?.storableText }
    /// ISO 8601, as in `P1M`.
    package var offerPeriod: String? { json["offerPeriod"]?.storableText }
    package var transactionReason: String? { json["transactionReason"]?.storableText }
    /// ISO 3166-1 alpha-3.
    package var storefront: String? { json["storefront"]?.storableText }
    package var storefrontId: String? { json["storefrontId"]?.storableText }
    /// Milliunits of `currency`.
    package var price: Int64? { json["price"]?.int64 }
    package var currency: String? { json["currency"]?.storableText }
    package var billingPlanType: String? { json["billingPlanType"]?.storableText }
    package var commitmentInfo: Commitment? { json.object("commitmentInfo") }
    package var advancedCommerceInfo: Info? { json.object("advancedCommerceInfo") }

    /// A commitment to several billing periods.
    package struct Commitment: WireObject {
        package let json: JSONNode

        package init?(_ json: JSONNode) {
            guard json.kind == .object else { return nil }
            self.json = json
        }

        package var billingPeriodNumber: Int? { json["billingPeriodNumber"]?.int }
        package var totalBillingPeriods: Int? { json["totalBillingPeriods"]?.int }
        package var commitmentExpiresDate: Instant? { json["commitmentExpiresDate"]?.instant }
        /// Milliunits.
        package var commitmentPrice: Int64? { json["commitmentPrice"]?.int64 }
    }

    /// `advancedCommerceTransactionInfo`: present for Advanced Commerce only.
    package struct Info: WireObject {
        package let json: JSONNode

        package init?(_ json: JSONNode) {
            guard json.kind == .object else { return nil }
            self.json = json
        }

        package var descriptors: WireDescriptors? { json.object("descriptors") }
        /// Milliunits.
        package var estimatedTax: Int64? { json["estimatedTax"]?.int64 }
        /// Milliunits.
        package var taxExclusivePrice: Int64? { json["taxExclusivePrice"]?.int64 }
        /// A decimal number as text, as in `0.15`.
        package var taxRate: String? { json["taxRate"]?.storableText }
        package var taxCode: String? { json["taxCode"]?.storableText }
        package var period: String? { json["period"]?.storableText }
        /// That of the purchase, not of a price change of ours.
        package var requestReferenceId: String? { json["requestReferenceId"]?.storableText }
        package var items: WireList<Item>? { json.list("items") }
    }

    /// An item that was charged. Without a SKU it is unreadable.
    package struct Item: WireObject {
        package let json: JSONNode
        package let SKU: String

        package init?(_ json: JSONNode) {
            guard let sku = json["SKU"]?.storableText else { return nil }
            self.json = json
            SKU = sku
        }

        package var displayName: String? { json["displayName"]?.storableText }
        package var description: String? { json["description"]?.storableText }
        /// Milliunits, without the offer.
        package var price: Int64? { json["price"]?.int64 }
        package var offer: WireOffer? { json.object("offer") }
        package var refunds: WireList<Refund>? { json.list("refunds") }
        package var revocationDate: Instant? { json["revocationDate"]?.instant }
    }

    /// A refund of one item.
    package struct Refund: WireObject {
        package let json: JSONNode

        package init?(_ json: JSONNode) {
            guard json.kind == .object else { return nil }
            self.json = json
        }

        /// Milliunits.
        package var refundAmount: Int64? { json["refundAmount"]?.int64 }
        package var refundDate: Instant? { json["refundDate"]?.instant }
        package var refundReason: String? { json["refundReason"]?.storableText }
        package var refundType: String? { json["refundType"]?.storableText }
    }
}

/// `advancedCommerceInfo.descriptors`, alike in transactions and renewals.
package struct WireDescriptors: WireObject {
    package let json: JSONNode

    package init?(_ json: JSONNode) {
        guard json.kind == .object else { return nil }
        self.json = json
    }

    package var displayName: String? { json["displayName"]?.storableText }
    package var description: String? { json["description"]?.storableText }
}

/// `advancedCommerceInfo.items[].offer`, alike in transactions and renewals.
package struct WireOffer: WireObject {
    package let json: JSONNode

    package init?(_ json: JSONNode) {
        guard json.kind == .object else { return nil }
        self.json = json
    }

    /// Milliunits.
    package var price: Int64? { json["price"]?.int64 }
    package var period: String? { json["period"]?.storableText }
    /// In a renewal those still to come.
    package var periodCount: Int? { json["periodCount"]?.int }
    package var reason: String? { json["reason"]?.storableText }
}
