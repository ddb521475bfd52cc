package import Pricing

/// Why money goes back (`refundReason`).
package enum RefundReason: String, Hashable, Sendable, Encodable, CaseIterable {
    case unintendedPurchase = "UNINTENDED_PURCHASE"
    case fulfillmentIssue = "FULFILLMENT_ISSUE"
    case unsatisfied = "UNSATISFIED_WITH_PURCHASE"
    case legal = "LEGAL"
    case other = "OTHER"
    case modifyItems = "MODIFY_ITEMS_REFUND"
    /// Sandbox only.
    case simulateDecline = "SIMULATE_REFUND_DECLINE"
}

/// How much goes back (`refundType`).
package enum RefundType: String, Hashable, Sendable, Encodable, CaseIterable {
    case full = "FULL"
    case prorated = "PRORATED"
    /// By `refundAmount`.
    case custom = "CUSTOM"
}

/// When a change of metadata holds.
package enum MetadataEffective: String, Hashable, Sendable, Encodable, CaseIterable {
    case immediately = "IMMEDIATELY"
    case nextBillCycle = "NEXT_BILL_CYCLE"
}

/// What the customer sees of a subscription. At most 30 and 45 characters.
package struct CommerceDescriptors: Hashable, Sendable, Encodable {
    package let displayName: String
    package let description: String

    package init(displayName: String, description: String) throws(RequestFault) {
        try FieldCheck.names(displayName: displayName, description: description)
        self.displayName = displayName
        self.description = description
    }
}

/// Revoke Subscription: ends it at once and refunds it. The `REFUND` notification proves it.
package struct RevokeRequest: Hashable, Sendable, Encodable {
    package let requestInfo: CommerceRequestInfo
    package let refundReason: RefundReason
    /// Whether the App Store may weigh the risk of abuse.
    package let refundRiskingPreference: Bool
    package let refundType: RefundType
    package let storefront: String?

    package init(
        _ info: CommerceRequestInfo, reason: RefundReason, type: RefundType,
        weighsRisk: Bool, storefront: String? = nil, environment: StoreEnvironment
    ) throws(RequestFault) {
        if reason == .simulateDecline, environment == .production { throw .declineOnlyInSandbox }
        // An amount belongs to an item, and this request has none.
        if type == .custom { throw .refundAmountMissing(sku: "subscription") }
        try FieldCheck.storefront(storefront)
        requestInfo = info
        refundReason = reason
        refundRiskingPreference = weighsRisk
        refundType = type
        self.storefront = storefront
    }
}

/// Change Subscription Metadata: other names, another SKU for the same service; no price and no billing.
package struct MetadataRequest: Hashable, Sendable, Encodable {
    package struct Item: Hashable, Sendable, Encodable {
        package let currentSKU: String
        package let effective: MetadataEffective
        package let SKU: String?
        package let displayName: String?
        package let description: String?

        package init(
            currentSKU: String, effective: MetadataEffective, newSKU: String? = nil,
            displayName: String? = nil, description: String? = nil
        ) throws(RequestFault) {
            try FieldCheck.sku(currentSKU)
            if let newSKU { try FieldCheck.sku(newSKU) }
            try FieldCheck.names(displayName: displayName, description: description)
            guard newSKU != nil || displayName != nil || description != nil else {
                throw .nothingToChange
            }
            self.currentSKU = currentSKU
            self.effective = effective
            self.SKU = newSKU
            self.displayName = displayName
            self.description = description
        }
    }

    package struct Descriptors: Hashable, Sendable, Encodable {
        package let effective: MetadataEffective
        package let displayName: String?
        package let description: String?

        package init(
            effective: MetadataEffective, displayName: String? = nil, description: String? = nil
        ) throws(RequestFault) {
            try FieldCheck.names(displayName: displayName, description: description)
            guard displayName != nil || description != nil else { throw .nothingToChange }
            self.effective = effective
            self.displayName = displayName
            self.description = description
        }
    }

    package let requestInfo: CommerceRequestInfo
    package let items: [Item]?
    package let descriptors: Descriptors?
    package let taxCode: String?
    package let storefront: String?

    package init(
        _ info: CommerceRequestInfo, items: [Item] = [], descriptors: Descriptors? = nil,
        taxCode: String? = nil, storefront: String? = nil
    ) throws(RequestFault) {
        guard !items.isEmpty || descriptors != nil || taxCode != nil else { throw .nothingToChange }
        try FieldCheck.different(items.map(\.currentSKU))
        try FieldCheck.text(taxCode, "taxCode", max: .max)
        try FieldCheck.storefront(storefront)
        requestInfo = info
        self.items = items.isEmpty ? nil : items
        self.descriptors = descriptors
        self.taxCode = taxCode
        self.storefront = storefront
    }
}

/// Migrate a Subscription to the Advanced Commerce API. Refused by the App Store (4030027) once a price increase
/// was communicated.
package struct MigrateRequest: Hashable, Sendable, Encodable {
    package struct Item: Hashable, Sendable, Encodable {
        package let SKU: String
        package let displayName: String
        package let description: String

        package init(sku: String, displayName: String, description: String) throws(RequestFault) {
            try FieldCheck.sku(sku)
            try FieldCheck.names(displayName: displayName, description: description)
            SKU = sku
            self.displayName = displayName
            self.description = description
        }
    }

    package let requestInfo: CommerceRequestInfo
    package let targetProductId: String
    package let descriptors: CommerceDescriptors
    package let items: [Item]
    /// Where the subscription has a change pending for its renewal, what it renews to; else none.
    package let renewalItems: [Item]?
    package let taxCode: String
    package let storefront: String?

    package init(
        _ info: CommerceRequestInfo, targetProductID: String, descriptors: CommerceDescriptors,
        items: [Item], renewalItems: [Item] = [], taxCode: String, storefront: String? = nil
    ) throws(RequestFault) {
        guard !items.isEmpty else { throw .noItems }
        try FieldCheck.different(items.map(\.SKU))
        try FieldCheck.different(renewalItems.map(\.SKU))
        try FieldCheck.text(targetProductID, "targetProductId", max: .max)
        try FieldCheck.text(taxCode, "taxCode", max: .max)
        try FieldCheck.storefront(storefront)
        requestInfo = info
        targetProductId = targetProductID
        self.descriptors = descriptors
        self.items = items
        self.renewalItems = renewalItems.isEmpty ? nil : renewalItems
        self.taxCode = taxCode
        self.storefront = storefront
    }
}

/// Request Transaction Refund: of items of one transaction.
package struct RefundRequest: Hashable, Sendable, Encodable {
    package struct Item: Hashable, Sendable, Encodable {
        package let SKU: String
        package let refundReason: RefundReason
        package let refundType: RefundType
        /// Whether the item's service ends with the refund.
        package let revoke: Bool
        /// Milliunits; of the type CUSTOM alone.
        package let refundAmount: Int32?

        package init(
            sku: String, reason: RefundReason, type: RefundType, revokes: Bool,
            amountMilliunits: Int32? = nil
        ) throws(RequestFault) {
            try FieldCheck.sku(sku)
            switch (type, amountMilliunits) {
            case (.custom, nil): throw .refundAmountMissing(sku: sku)
            case (.custom, .some(let amount)):
                guard amount > 0 else { throw .refundAmountNotPositive(sku: sku) }
            case (.full, .some), (.prorated, .some): throw .refundAmountWithoutCustom(sku: sku)
            case (.full, nil), (.prorated, nil): break
            }
            SKU = sku
            refundReason = reason
            refundType = type
            revoke = revokes
            refundAmount = amountMilliunits
        }
    }

    package let requestInfo: CommerceRequestInfo
    package let items: [Item]
    package let refundRiskingPreference: Bool
    package let currency: String?
    package let storefront: String?

    /// - Parameter ownedSKUs: Those of the running subscription where known: one of them must stay (4000168).
    package init(
        _ info: CommerceRequestInfo, items: [Item], weighsRisk: Bool, currency: String? = nil,
        storefront: String? = nil, ownedSKUs: Set<String>? = nil, environment: StoreEnvironment
    ) throws(RequestFault) {
        guard !items.isEmpty else { throw .noItems }
        try FieldCheck.different(items.map(\.SKU))
        let declines = items.count { $0.refundReason == .simulateDecline }
        guard declines == 0 || declines == items.count else { throw .declineMustBeOfAll }
        if declines > 0, environment == .production { throw .declineOnlyInSandbox }
        if let ownedSKUs, ownedSKUs.isSubset(of: items.filter(\.revoke).map(\.SKU)) {
            throw .allItemsRevoked
        }
        try FieldCheck.currency(currency)
        try FieldCheck.storefront(storefront)
        requestInfo = info
        self.items = items
        refundRiskingPreference = weighsRisk
        self.currency = currency
        self.storefront = storefront
    }
}
