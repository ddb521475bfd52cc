package import JSONReading
package import Pricing

/// `JWSRenewalInfoDecodedPayload`: the payload of a `signedRenewalInfo`, field by field under the
/// App Store's names. Codes and enumerations are kept raw. It names no app: what encloses it does.
package struct WireRenewal: WireObject {
    package let json: JSONNode

    package init?(_ json: JSONNode) {
        guard json.kind == .object else { return nil }
        self.json = json
    }

    package var originalTransactionId: String? { json["originalTransactionId"]?.storableText }
    package var appTransactionId: String? { json["appTransactionId"]?.storableText }
    package var environment: String? { json["environment"]?.storableText }
    package var productId: String? { json["productId"]?.storableText }
    package var autoRenewProductId: String? { json["autoRenewProductId"]?.storableText }
    /// 0 off, 1 on.
    package var autoRenewStatus: Int? { json["autoRenewStatus"]?.int }
    package var isInBillingRetryPeriod: Bool? { json["isInBillingRetryPeriod"]?.boolean }
    /// 1 cancelled, 2 billing error, 3 no consent, 4 product not for sale, 5 other.
    package var expirationIntent: Int? { json["expirationIntent"]?.int }
    /// 0 asked, not answered; 1 consented, or informed. That of an item says more.
    package var priceIncreaseStatus: Int? { json["priceIncreaseStatus"]?.int }
    package var gracePeriodExpiresDate: Instant? { json["gracePeriodExpiresDate"]?.instant }
    package var renewalDate: Instant? { json["renewalDate"]?.instant }
    package var recentSubscriptionStartDate: Instant? {
        json["recentSubscriptionStartDate"]?.instant
    }
    package var signedDate: Instant? { json["signedDate"]?.instant }
    package var currency: String? { json["currency"]?.storableText }
    /// Milliunits of `currency`; an offer to come is in it.
    package var renewalPrice: Int64? { json["renewalPrice"]?.int64 }
    package var offerType: Int? { json["offerType"]?.int }
    package var offerIdentifier: String? { json["offerIdentifier"]?.storableText }
    package var offerDiscountType: String? { json["offerDiscountType"]?.storableText }
    package var offerPeriod: String? { json["offerPeriod"]?.storableText }
    package var eligibleWinBackOfferIds: WireList<String>? {
        json.texts("eligibleWinBackOfferIds")
    }
    /// The one of the renewal to come.
    package var appAccountToken: String? { json["appAccountToken"]?.storableText }
    package var renewalBillingPlanType: String? { json["renewalBillingPlanType"]?.storableText }
    package var commitmentInfo: Commitment? { json.object("commitmentInfo") }
    package var advancedCommerceInfo: Info? { json.object("advancedCommerceInfo") }

    /// What a commitment to several billing periods renews to.
    package struct Commitment: WireObject {
        package let json: JSONNode

        package init?(_ json: JSONNode) {
            guard json.kind == .object else { return nil }
            self.json = json
        }

        package var commitmentAutoRenewProductId: String? {
            json["commitmentAutoRenewProductId"]?.storableText
        }
        package var commitmentAutoRenewStatus: Int? { json["commitmentAutoRenewStatus"]?.int }
        package var commitmentRenewalBillingPlanType: String? {
            json["commitmentRenewalBillingPlanType"]?.storableText
        }
        package var commitmentRenewalDate: Instant? { json["commitmentRenewalDate"]?.instant }
        /// Milliunits.
        package var commitmentRenewalPrice: Int64? { json["commitmentRenewalPrice"]?.int64 }
    }

    /// `advancedCommerceRenewalInfo`: present for Advanced Commerce only.
    package struct Info: WireObject {
        package let json: JSONNode

        package init?(_ json: JSONNode) {
            guard json.kind == .object else { return nil }
            self.json = json
        }

        /// Opaque; a new one whenever the renewal info changes.
        package var consistencyToken: String? { json["consistencyToken"]?.storableText }
        package var descriptors: WireDescriptors? { json.object("descriptors") }
        package var period: String? { json["period"]?.storableText }
        package var requestReferenceId: String? { json["requestReferenceId"]?.storableText }
        package var taxCode: String? { json["taxCode"]?.storableText }
        package var items: WireList<Item>? { json.list("items") }
    }

    /// An item set to renew. Without a SKU it is unreadable.
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
        /// Milliunits; the increased price already while an increase waits for consent.
        package var price: Int64? { json["price"]?.int64 }
        package var offer: WireOffer? { json.object("offer") }
        package var priceIncreaseInfo: Increase? { json.object("priceIncreaseInfo") }
    }

    /// An increase that the App Store has scheduled for an item.
    package struct Increase: WireObject {
        package let json: JSONNode

        package init?(_ json: JSONNode) {
            guard json.kind == .object else { return nil }
            self.json = json
        }

        /// `SCHEDULED`, `PENDING` or `ACCEPTED`.
        package var status: String? { json["status"]?.storableText }
        /// Milliunits.
        package var price: Int64? { json["price"]?.int64 }
        package var dependentSKUs: WireList<String>? { json.texts("dependentSKUs") }
    }
}
