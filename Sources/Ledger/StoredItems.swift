import Pricing

/// Reads `subscriptions.items` and `.increases` as this program writes them: a plan reads half a million of
/// them, and a general JSON decoder takes ten times as long. Nil for any text of another shape, which the
/// general decoder then reads, or refuses.
struct StoredItems {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    private init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    static func items(_ bytes: UnsafeRawBufferPointer) -> [SubscriptionFacts.Item]? {
        var text = StoredItems(bytes)
        guard let items = text.list({ $0.item() }), text.isAtEnd else { return nil }
        return items
    }

    static func increases(_ bytes: UnsafeRawBufferPointer) -> [RecordedIncrease]? {
        var text = StoredItems(bytes)
        guard let increases = text.list({ $0.recordedIncrease() }), text.isAtEnd else { return nil }
        return increases
    }

    private var isAtEnd: Bool { position == bytes.count }

    private mutating func item() -> SubscriptionFacts.Item? {
        var item = SubscriptionFacts.Item(sku: "")
        var found = 0
        let isRead = object { text, name in
            switch name {
            case "sku":
                guard let sku = text.string() else { return false }
                item.sku = sku
                found += 1
            case "renews":
                guard let renews = text.flag() else { return false }
                item.renews = renews
                found += 1
            case "currentPrice":
                guard let price = text.number() else { return false }
                item.currentPrice = price
            case "renewalPrice":
                guard let price = text.number() else { return false }
                item.renewalPrice = price
            case "offer":
                guard let offer = text.offer() else { return false }
                item.offer = offer
            case "chargedAs":
                guard let sku = text.string() else { return false }
                item.chargedAs = sku
            case "increase":
                guard let increase = text.increase() else { return false }
                item.increase = increase
            default: return false
            }
            return true
        }
        return isRead && found == 2 ? item : nil
    }

    private mutating func offer() -> SubscriptionFacts.Offer? {
        var offer = SubscriptionFacts.Offer()
        var found = 0
        let isRead = object { text, name in
            switch name {
            case "price": offer.price = text.number()
            case "period": offer.period = text.string()
            case "reason": offer.reason = text.string()
            case "periodsLeft": offer.periodsLeft = text.number().flatMap { Int(exactly: $0) }
            case "isRunning":
                guard let isRunning = text.flag() else { return false }
                offer.isRunning = isRunning
                found += 1
            default: return false
            }
            return true
        }
        return isRead && found == 1 ? offer : nil
    }

    private mutating func increase() -> SubscriptionFacts.Increase? {
        var increase = SubscriptionFacts.Increase(status: "")
        var found = 0
        let isRead = object { text, name in
            switch name {
            case "status":
                guard let status = text.string() else { return false }
                increase.status = status
                found += 1
            case "dependentSKUs":
                guard let skus = text.list({ $0.string() }) else { return false }
                increase.dependentSKUs = skus
                found += 1
            case "price": increase.price = text.number()
            default: return false
            }
            return true
        }
        return isRead && found == 2 ? increase : nil
    }

    private mutating func recordedIncrease() -> RecordedIncrease? {
        var increase = RecordedIncrease(sku: "", price: 0)
        var found = 0
        let isRead = object { text, name in
            switch name {
            case "sku":
                guard let sku = text.string() else { return false }
                increase.sku = sku
                found += 1
            case "price":
                guard let price = text.number() else { return false }
                increase.price = price
                found += 1
            case "communicatedAt": increase.communicatedAt = text.instant()
            case "effectiveAt": increase.effectiveAt = text.instant()
            case "consentAskedAt": increase.consentAskedAt = text.instant()
            case "acceptedAt": increase.acceptedAt = text.instant()
            case "refusedAt": increase.refusedAt = text.instant()
            case "origin":
                guard let origin = text.string().flatMap(RecordedIncrease.Origin.init(rawValue:))
                else { return false }
                increase.origin = origin
            default: return false
            }
            return true
        }
        return isRead && found == 2 ? increase : nil
    }

    private mutating func instant() -> Instant? {
        number().map { Instant(milliseconds: $0) }
    }
}

extension StoredItems {
    /// Reads members until the brace closes; a value that its reader could not take leaves the text where no
    /// comma or brace follows, so that it ends in false as well.
    private mutating func object(_ member: (inout StoredItems, String) -> Bool) -> Bool {
        guard take("{") else { return false }
        if take("}") { return true }
        repeat {
            guard let name = string(), take(":"), member(&self, name) else { return false }
        } while take(",")
        return take("}")
    }

    private mutating func list<Element>(
        _ element: (inout StoredItems) -> Element?
    ) -> [Element]? {
        guard take("[") else { return nil }
        var elements: [Element] = []
        if take("]") { return elements }
        repeat {
            guard let element = element(&self) else { return nil }
            elements.append(element)
        } while take(",")
        return take("]") ? elements : nil
    }

    /// A text without escapes.
    private mutating func string() -> String? {
        guard take("\"") else { return nil }
        let start = position
        while position < bytes.count {
            let byte = bytes[position]
            if byte == UInt8(ascii: "\\") { return nil }
            if byte == UInt8(ascii: "\"") {
                position += 1
                return String(
                    decoding: UnsafeRawBufferPointer(rebasing: bytes[start..<(position - 1)]),
                    as: UTF8.self)
            }
            position += 1
        }
        return nil
    }

    /// An integer of at most 18 digits.
    private mutating func number() -> Int64? {
        skipBlanks()
        let isNegative = position < bytes.count && bytes[position] == UInt8(ascii: "-")
        if isNegative { position += 1 }
        let start = position
        var value: Int64 = 0
        while position < bytes.count, position - start < 18,
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[position])
        {
            value = value * 10 + Int64(bytes[position] - UInt8(ascii: "0"))
            position += 1
        }
        guard position > start else { return nil }
        return isNegative ? -value : value
    }

    private mutating func flag() -> Bool? {
        if takeWord("true") { return true }
        return takeWord("false") ? false : nil
    }

    private mutating func takeWord(_ word: StaticString) -> Bool {
        skipBlanks()
        let count = word.utf8CodeUnitCount
        guard position + count <= bytes.count else { return false }
        for index in 0..<count where bytes[position + index] != word.utf8Start[index] {
            return false
        }
        position += count
        return true
    }

    private mutating func take(_ mark: Unicode.Scalar) -> Bool {
        skipBlanks()
        guard position < bytes.count, bytes[position] == UInt8(ascii: mark) else { return false }
        position += 1
        return true
    }

    private mutating func skipBlanks() {
        while position < bytes.count, bytes[position] == 0x20 { position += 1 }
    }
}
