internal import JSON
package import Pricing

/// Extend a Subscription Renewal Date, for one subscription.
package struct ExtensionRequest: Hashable, Sendable {
    package let extendByDays: Int
    package let extendReasonCode: Int
    /// The same again for the same request, and for no other: a repeat extends nothing twice.
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

/// Extend Subscription Renewal Dates for All Active Subscribers of a product.
package struct MassExtensionRequest: Hashable, Sendable {
    package let productId: String
    package let extendByDays: Int
    package let extendReasonCode: Int
    package let requestIdentifier: String
    /// nil: all storefronts. Never empty (4000027).
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

/// `ExtendRenewalDateResponse`; unsigned.
package struct ExtensionAnswer: Hashable, Sendable {
    package var isSuccess: Bool
    /// The new renewal date.
    package var effectiveAt: Instant?
}

/// `MassExtendRenewalDateStatusResponse`; unsigned.
package struct MassExtensionStatus: Hashable, Sendable {
    package var isComplete: Bool
    package var completedAt: Instant?
    /// nil before the end, as far as Apple leaves them out.
    package var succeeded: Int64?
    package var failed: Int64?
}
