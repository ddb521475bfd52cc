/// The `requestInfo` of every request to the Advanced Commerce API.
struct RequestInfo: Hashable, Sendable {
    var referenceID: String
    var consistencyToken: String?

    init(_ body: [String: JSONValue]) throws(StoreError) {
        guard let value = body.present("requestInfo") else { throw .nullRequestInfo }
        guard let info = value.object else { throw .malformedPayload }
        guard let reference = info.present("requestReferenceId") else {
            throw .nullRequestReferenceID
        }
        guard let text = reference.string, UUIDText.isValid(text) else {
            throw .invalidRequestReferenceID
        }
        referenceID = text.lowercased()
        if let account = info.present("appAccountToken") {
            guard let text = account.string, text.isEmpty || UUIDText.isValid(text) else {
                throw .invalidAppAccountToken
            }
        }
        if let token = info.present("consistencyToken") {
            guard let text = token.string else { throw .invalidConsistencyToken }
            consistencyToken = text
        }
    }
}

/// `SubscriptionPriceChangeRequest`, checked as far as it can be without the subscription.
struct ChangePriceRequest: Hashable, Sendable {
    struct Item: Hashable, Sendable {
        var sku: String
        var price: Int64
        var dependentSKUs: [String]
    }

    /// Far above any price, and low enough that sums cannot overflow.
    static let priceMax: Int64 = 1_000_000_000_000_000

    var info: RequestInfo
    var items: [Item]
    var currency: String?
    var storefront: String?

    init(_ bytes: [UInt8]) throws(StoreError) {
        guard let body = JSONValue.parse(bytes)?.object else { throw .malformedPayload }
        info = try RequestInfo(body)
        storefront = try ChangePriceRequest.storefront(in: body)
        if let value = body.present("currency") {
            guard let text = value.string, Markets.priceStep(of: text) != nil else {
                throw .invalidCurrency
            }
            currency = text
        }
        guard let list = body.present("items") else { throw .nullItems }
        guard let elements = list.array else { throw .malformedPayload }
        guard !elements.isEmpty else { throw .nullItems }
        items = []
        for element in elements { items.append(try ChangePriceRequest.item(element)) }
        guard Set(items.map(\.sku)).count == items.count else { throw .itemRepeated }
        try checkDependents()
    }

    static func storefront(in body: [String: JSONValue]) throws(StoreError) -> String? {
        guard let value = body.present("storefront") else { return nil }
        guard let text = value.string, text.utf8.count == 3,
            text.utf8.allSatisfy({ (65...90).contains($0) })
        else { throw .invalidStorefront }
        return text
    }

    private static func item(_ value: JSONValue) throws(StoreError) -> Item {
        if value.isNull { throw .nullItem }
        guard let fields = value.object else { throw .malformedPayload }
        guard let sku = fields.present("SKU") else { throw .nullSKU }
        guard let text = sku.string else { throw .malformedPayload }
        try check(sku: text)
        guard let price = fields.present("price") else { throw .nullPrice }
        guard let amount = price.integer, amount <= priceMax else { throw .malformedPayload }
        guard amount > 0 else { throw .negativePrice }
        var dependents: [String] = []
        if let list = fields.present("dependentSKUs") {
            guard let elements = list.array else { throw .malformedPayload }
            for element in elements {
                guard let dependent = element.string else { throw .malformedPayload }
                try check(sku: dependent)
                if !dependents.contains(dependent) { dependents.append(dependent) }
            }
        }
        return Item(sku: text, price: amount, dependentSKUs: dependents)
    }

    private static func check(sku: String) throws(StoreError) {
        if sku.isEmpty { throw .nullSKU }
        if sku.count > 128 { throw .skuLengthExceeded }
    }

    private func checkDependents() throws(StoreError) {
        try DependentSKUs.check(items.map { ($0.sku, $0.dependentSKUs) })
    }

    /// The same request sent again has the same digest, whatever its JSON looks like.
    var digest: String {
        let parts = items.map { "\($0.sku)=\($0.price)<\($0.dependentSKUs.joined(separator: ","))" }
        return ([currency ?? "", storefront ?? ""] + parts).joined(separator: "|")
    }
}

/// The two rules about dependents: not shared, not chained.
enum DependentSKUs {
    static func check(_ parents: [(sku: String, dependents: [String])]) throws(StoreError) {
        var owners: [String: String] = [:]
        for parent in parents {
            for dependent in parent.dependents {
                if dependent == parent.sku { throw .dependentsChained }
                if let owner = owners[dependent], owner != parent.sku { throw .dependentsShared }
                owners[dependent] = parent.sku
            }
        }
        for parent in parents where !parent.dependents.isEmpty && owners[parent.sku] != nil {
            throw .dependentsChained
        }
    }
}

/// The text form of a UUID.
enum UUIDText {
    static func isValid(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 36 else { return false }
        for (index, byte) in bytes.enumerated() {
            switch index {
            case 8, 13, 18, 23:
                if byte != 0x2d { return false }
            default:
                let isHex =
                    (0x30...0x39).contains(byte) || (0x41...0x46).contains(byte)
                    || (0x61...0x66).contains(byte)
                if !isHex { return false }
            }
        }
        return true
    }
}
