internal import JSON
package import Pricing

/// The request of Extend a Subscription Renewal Date, for one subscription.
package struct ExtensionRequest: Hashable, Sendable {
    package let extendByDays: Int
    package let extendReasonCode: Int
    /// The identifier of one request. A repetition uses the same one, so that nothing is extended twice.
    package let requestIdentifier: String

    package init(
        _ terms: ExtensionTerms, requestIdentifier: String
    ) throws(RequestFault) {
        try FieldCheck.requestIdentifier(requestIdentifier)
        extendByDays = terms.days
        extendReasonCode = terms.reason.rawValue
        self.requestIdentifier = requestIdentifier
    }

    var body: String {
        JSONWriter.object {
            $0.number("extendByDays", Int64(extendByDays))
            $0.number("extendReasonCode", Int64(extendReasonCode))
            $0.text("requestIdentifier", requestIdentifier)
        }
    }
}

/// The request of Extend Subscription Renewal Dates for All Active Subscribers of a product.
package struct MassExtensionRequest: Hashable, Sendable {
    package let productId: String
    package let extendByDays: Int
    package let extendReasonCode: Int
    package let requestIdentifier: String
    /// The storefronts; nil for all. It is never empty (4000027).
    package let storefrontCountryCodes: [String]?

    package init(
        _ terms: ExtensionTerms, productID: String, storefronts: [String]?,
        requestIdentifier: String
    ) throws(RequestFault) {
        try FieldCheck.requestIdentifier(requestIdentifier)
        try FieldCheck.text(productID, "productId", max: FieldCheck.productIDMax)
        if let storefronts {
            guard !storefronts.isEmpty else { throw .empty(field: "storefrontCountryCodes") }
            for storefront in storefronts { try FieldCheck.storefront(storefront) }
        }
        productId = productID
        extendByDays = terms.days
        extendReasonCode = terms.reason.rawValue
        self.requestIdentifier = requestIdentifier
        storefrontCountryCodes = storefronts
    }

    var body: String {
        JSONWriter.object {
            $0.number("extendByDays", Int64(extendByDays))
            $0.number("extendReasonCode", Int64(extendReasonCode))
            $0.text("productId", productId)
            $0.text("requestIdentifier", requestIdentifier)
            if let codes = storefrontCountryCodes { $0.texts("storefrontCountryCodes", codes) }
        }
    }
}

/// `ExtendRenewalDateResponse`. It is unsigned.
package struct ExtensionAnswer: Hashable, Sendable {
    package var isSuccess: Bool
    /// The new renewal date.
    package var effectiveAt: Instant?
}

/// `MassExtendRenewalDateStatusResponse`. It is unsigned.
package struct MassExtensionStatus: Hashable, Sendable {
    package var isComplete: Bool
    package var completedAt: Instant?
    /// The counts; nil before the end, and where Apple leaves them out.
    package var succeeded: Int64?
    package var failed: Int64?
}
