/// The terms of an extension: days, reason and the caller's request identifier.
struct ExtensionTerms: Hashable, Sendable {
    var days: Int64
    var reason: Int64
    var requestIdentifier: String
}

/// A running request of Extend Subscription Renewal Dates for All Active Subscribers, which takes hours.
struct MassExtension: Hashable, Sendable {
    var terms: ExtensionTerms
    var productID: String
    /// nil: all.
    var storefronts: [String]?
    var beganAt: Int64
    var endsAt: Int64
    /// The subscriptions still to be processed, in this order and at even intervals.
    var waiting: [Int64]
    var total: Int
    var succeeded: Int64 = 0
    var failed: Int64 = 0
    var completedAt: Int64?

    /// The instant of the next subscription, or of the end.
    var nextAt: Int64 {
        guard !waiting.isEmpty else { return endsAt }
        let done = Int64(total - waiting.count)
        return beganAt + (endsAt - beganAt) * (done + 1) / (Int64(total) + 1)
    }

    var summary: MassSummary {
        MassSummary(
            requestIdentifier: terms.requestIdentifier, productID: productID,
            storefronts: storefronts, succeeded: succeeded, failed: failed)
    }
}

/// The counts of a mass extension that is complete.
struct MassSummary: Codable, Hashable, Sendable {
    var requestIdentifier: String
    var productID: String
    var storefronts: [String]?
    var succeeded: Int64
    var failed: Int64
}

extension ExtensionTerms {
    /// `ExtendRenewalDateRequest`, and what `MassExtendRenewalDateRequest` shares with it.
    init(_ body: [String: JSONValue]) throws(StoreError) {
        guard let days = body.present("extendByDays")?.integer, (1...90).contains(days) else {
            throw .invalidExtendByDays
        }
        guard let reason = body.present("extendReasonCode")?.integer, (0...3).contains(reason)
        else { throw .invalidExtendReasonCode }
        guard let identifier = body.present("requestIdentifier")?.string, !identifier.isEmpty,
            identifier.count <= 128
        else { throw .invalidRequestIdentifier }
        self.init(days: days, reason: reason, requestIdentifier: identifier)
    }
}

/// `MassExtendRenewalDateRequest`.
struct MassExtensionRequest: Hashable, Sendable {
    var terms: ExtensionTerms
    var productID: String
    var storefronts: [String]?

    init(_ bytes: [UInt8]) throws(StoreError) {
        guard let body = JSONValue.parse(bytes)?.object else { throw .malformedPayload }
        terms = try ExtensionTerms(body)
        guard let product = body.present("productId")?.string, !product.isEmpty else {
            throw .invalidProductID
        }
        productID = product
        guard let list = body.present("storefrontCountryCodes") else { return }
        guard let elements = list.array else { throw .malformedPayload }
        guard !elements.isEmpty else { throw .emptyStorefronts }
        var codes: [String] = []
        for element in elements {
            guard let code = element.string, Markets.byStorefront[code] != nil else {
                throw .invalidStorefront
            }
            codes.append(code)
        }
        storefronts = codes
    }
}

/// `ExtendRenewalDateResponse`.
struct ExtensionPayload: Encodable, Sendable {
    var originalTransactionId: String
    var webOrderLineItemId: String
    var success = true
    var effectiveDate: Int64
}

/// `MassExtendRenewalDateStatusResponse`.
struct MassExtensionPayload: Encodable, Sendable {
    var requestIdentifier: String
    var complete: Bool
    var completeDate: Int64?
    var succeededCount: Int64?
    var failedCount: Int64?

    init(_ mass: MassExtension) {
        requestIdentifier = mass.terms.requestIdentifier
        complete = mass.completedAt != nil
        completeDate = mass.completedAt
        succeededCount = complete ? mass.succeeded : nil
        failedCount = complete ? mass.failed : nil
    }
}
