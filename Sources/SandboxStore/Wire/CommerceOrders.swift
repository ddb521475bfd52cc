/// Revoke Subscription: `SubscriptionRevokeRequest`.
///
/// Apple lists the codes of each endpoint and not which fault comes first; here they come in the order of the fields.
struct RevokeOrder: Hashable, Sendable {
    var info: RequestInfo
    var reason: String
    var type: String
    var storefront: String?

    init(_ bytes: [UInt8], isProduction: Bool) throws(StoreError) {
        let fields = try OrderFields(bytes)
        info = try RequestInfo(fields.values)
        reason = try fields.refundReason(isProduction: isProduction)
        type = try fields.refundType()
        // An amount belongs to an item, and this request has none.
        if type == RefundWords.custom { throw .nullRefundAmount }
        try fields.checkRisking()
        storefront = try ChangePriceRequest.storefront(in: fields.values)
    }
}

/// Request Transaction Refund: `RequestRefundRequest`.
struct RefundOrder: Hashable, Sendable {
    struct Item: Hashable, Sendable {
        var sku: String
        var reason: String
        var type: String
        var revokes: Bool
        /// Milliunits.
        var amount: Int64?
    }

    var info: RequestInfo
    var items: [Item]
    var currency: String?
    var storefront: String?

    init(_ bytes: [UInt8], isProduction: Bool) throws(StoreError) {
        let fields = try OrderFields(bytes)
        info = try RequestInfo(fields.values)
        items = []
        for element in try fields.elements("items", isRequired: true) {
            let item = try Self.item(element, isProduction: isProduction)
            guard !items.contains(where: { $0.sku == item.sku }) else {
                throw .multipleOperations
            }
            items.append(item)
        }
        let declines = items.count { $0.reason == RefundWords.decline }
        guard declines == 0 || declines == items.count else { throw .partialDecline }
        try fields.checkRisking()
        currency = fields.values.present("currency")?.string
        storefront = try ChangePriceRequest.storefront(in: fields.values)
    }

    private static func item(_ fields: OrderFields, isProduction: Bool) throws(StoreError) -> Item {
        let sku = try fields.sku("SKU", missing: .nullSKU)
        let reason = try fields.refundReason(isProduction: isProduction)
        let type = try fields.refundType()
        guard case .bool(let revokes) = fields.values.present("revoke") else {
            throw .malformedPayload
        }
        let amount = fields.values.present("refundAmount")
        if type == RefundWords.custom {
            guard let given = amount?.integer else { throw .nullRefundAmount }
            guard given > 0 else { throw .negativeRefundAmount }
        } else if amount != nil {
            throw .refundAmountWithoutCustom
        }
        return Item(sku: sku, reason: reason, type: type, revokes: revokes, amount: amount?.integer)
    }
}

/// Change Subscription Metadata: `SubscriptionChangeMetadataRequest`.
struct MetadataOrder: Hashable, Sendable {
    struct Item: Hashable, Sendable {
        var currentSKU: String
        var isImmediate: Bool
        var names: NextNames
    }

    struct Descriptors: Hashable, Sendable {
        var isImmediate: Bool
        var displayName: String?
        var description: String?
    }

    var info: RequestInfo
    var items: [Item]
    var descriptors: Descriptors?
    var taxCode: String?
    var storefront: String?

    init(_ bytes: [UInt8]) throws(StoreError) {
        let fields = try OrderFields(bytes)
        info = try RequestInfo(fields.values)
        items = []
        for element in try fields.elements("items", isRequired: false) {
            let item = try Self.item(element)
            guard !items.contains(where: { $0.currentSKU == item.currentSKU }) else {
                throw .multipleOperations
            }
            items.append(item)
        }
        if let value = fields.values.present("descriptors") {
            let inner = try OrderFields(value)
            let isImmediate = try inner.isImmediate()
            let (name, text) = try inner.names()
            guard name != nil || text != nil else { throw .nameOrDescription }
            descriptors = Descriptors(
                isImmediate: isImmediate, displayName: name, description: text)
        }
        taxCode = try fields.taxCode()
        storefront = try ChangePriceRequest.storefront(in: fields.values)
        guard !items.isEmpty || descriptors != nil || taxCode != nil else {
            throw .invalidProductChanges
        }
    }

    private static func item(_ fields: OrderFields) throws(StoreError) -> Item {
        let current = try fields.sku("currentSKU", missing: .nullCurrentSKU)
        let isImmediate = try fields.isImmediate()
        let sku =
            fields.values.present("SKU") == nil
            ? nil : try fields.sku("SKU", missing: .nullSKU)
        let (name, text) = try fields.names()
        guard sku != nil || name != nil || text != nil else { throw .invalidProductChanges }
        return Item(
            currentSKU: current, isImmediate: isImmediate,
            names: NextNames(sku: sku, displayName: name, description: text))
    }
}

/// Migrate a Subscription to Advanced Commerce: `SubscriptionMigrateRequest`.
struct MigrateOrder: Sendable {
    var info: RequestInfo
    var targetProductID: String
    var descriptors: StoreNames
    var items: [(sku: String, names: StoreNames)]
    var hasRenewalItems: Bool
    var taxCode: String
    var storefront: String?

    init(_ bytes: [UInt8]) throws(StoreError) {
        let fields = try OrderFields(bytes)
        info = try RequestInfo(fields.values)
        guard let value = fields.values.present("descriptors") else { throw .nullDescriptors }
        descriptors = try OrderFields(value).bothNames()
        items = []
        for element in try fields.elements("items", isRequired: true) {
            let sku = try element.sku("SKU", missing: .nullSKU)
            guard !items.contains(where: { $0.sku == sku }) else { throw .multipleOperations }
            items.append((sku, try element.bothNames()))
        }
        hasRenewalItems = try !fields.elements("renewalItems", isRequired: false).isEmpty
        guard let target = fields.values.present("targetProductId") else {
            throw .nullTargetProductID
        }
        guard let text = target.string else { throw .invalidTargetProductID }
        targetProductID = text
        guard let code = try fields.taxCode() else { throw .nullTaxCode }
        taxCode = code
        storefront = try ChangePriceRequest.storefront(in: fields.values)
    }
}

/// Words of refunds.
enum RefundWords {
    static let decline = "SIMULATE_REFUND_DECLINE"
    static let custom = "CUSTOM"
    static let prorated = "PRORATED"
    static let reasons: Set<String> = [
        "UNINTENDED_PURCHASE", "FULFILLMENT_ISSUE", "UNSATISFIED_WITH_PURCHASE", "LEGAL", "OTHER",
        "MODIFY_ITEMS_REFUND", decline,
    ]
    static let types: Set<String> = ["FULL", prorated, custom]
}

/// The fields of one JSON object, read strictly.
private struct OrderFields {
    var values: [String: JSONValue]

    init(_ bytes: [UInt8]) throws(StoreError) {
        guard let fields = JSONValue.parse(bytes)?.object else { throw .malformedPayload }
        values = fields
    }

    init(_ value: JSONValue) throws(StoreError) {
        guard let fields = value.object else { throw .malformedPayload }
        values = fields
    }

    func elements(_ key: String, isRequired: Bool) throws(StoreError) -> [OrderFields] {
        guard let value = values.present(key) else {
            if isRequired { throw .nullItems }
            return []
        }
        guard let list = value.array else { throw .malformedPayload }
        if list.isEmpty { throw .atLeastOneItem }
        var elements: [OrderFields] = []
        for element in list {
            if element.isNull { throw .nullItem }
            elements.append(try OrderFields(element))
        }
        return elements
    }

    func sku(_ key: String, missing: StoreError) throws(StoreError) -> String {
        guard let value = values.present(key) else { throw missing }
        guard let text = value.string, !text.isEmpty else { throw .invalidSKU }
        guard text.count <= 128 else { throw .skuLengthExceeded }
        return text
    }

    func names() throws(StoreError) -> (displayName: String?, description: String?) {
        let name = values.present("displayName")
        let text = values.present("description")
        if let name, name.string?.isEmpty ?? true { throw .invalidDisplayName }
        if let text, text.string?.isEmpty ?? true { throw .invalidDescription }
        if let name = name?.string, name.count > 30 { throw .displayNameLengthExceeded }
        if let text = text?.string, text.count > 45 { throw .descriptionLengthExceeded }
        return (name?.string, text?.string)
    }

    func bothNames() throws(StoreError) -> StoreNames {
        let (name, text) = try names()
        guard let name else { throw .nullDisplayName }
        guard let text else { throw .nullDescription }
        return StoreNames(displayName: name, description: text)
    }

    func isImmediate() throws(StoreError) -> Bool {
        switch values.present("effective")?.string {
        case "IMMEDIATELY": return true
        case "NEXT_BILL_CYCLE": return false
        case .some: throw .malformedPayload
        case nil: throw .nullEffective
        }
    }

    func taxCode() throws(StoreError) -> String? {
        guard let value = values.present("taxCode") else { return nil }
        guard let text = value.string, text.hasPrefix("C"), text.count <= 20 else {
            throw .invalidTaxCode
        }
        return text
    }

    func refundReason(isProduction: Bool) throws(StoreError) -> String {
        guard let value = values.present("refundReason") else { throw .nullRefundReason }
        guard let text = value.string, RefundWords.reasons.contains(text) else {
            throw .invalidRefundReason
        }
        if isProduction, text == RefundWords.decline { throw .declineOnlyInSandbox }
        return text
    }

    func refundType() throws(StoreError) -> String {
        guard let value = values.present("refundType") else { throw .nullRefundType }
        guard let text = value.string, RefundWords.types.contains(text) else {
            throw .invalidRefundType
        }
        return text
    }

    /// `refundRiskingPreference` is required; it changes nothing here.
    func checkRisking() throws(StoreError) {
        guard case .bool = values.present("refundRiskingPreference") else {
            throw .nullRefundRisking
        }
    }
}
