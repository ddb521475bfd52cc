/// Keeps original transaction ids as 8 bytes each, because a batch holds a million of them.
///
/// An id of up to 18 digits is its own number. Any other text gets a number beyond those.
package struct SubscriptionKeys: Sendable {
    package struct Key: Hashable, Comparable, Sendable {
        fileprivate let number: UInt64

        package static func < (left: Key, right: Key) -> Bool { left.number < right.number }
    }

    private static let firstInterned: UInt64 = 1 << 63
    private var others = Interner<String>()

    package init() {}

    /// The key of an id. An id that is not a plain number is remembered.
    package mutating func add(_ id: String) -> Key {
        if let key = Self.plain(id) { return key }
        return Key(number: Self.firstInterned + UInt64(others.number(of: id)))
    }

    /// The key of an id that was added or needs no remembering; nil for others.
    package func key(of id: String) -> Key? {
        if let key = Self.plain(id) { return key }
        return others.knownNumber(of: id).map { Key(number: Self.firstInterned + UInt64($0)) }
    }

    package func id(of key: Key) -> String {
        guard key.number >= Self.firstInterned else { return String(key.number) }
        return others[UInt32(truncatingIfNeeded: key.number)]
    }

    private static func plain(_ id: String) -> Key? {
        let bytes = id.utf8
        guard (1...18).contains(bytes.count), bytes.first != UInt8(ascii: "0") else { return nil }
        var number: UInt64 = 0
        for byte in bytes {
            guard isDigit(byte) else { return nil }
            number = number * 10 + UInt64(byte - UInt8(ascii: "0"))
        }
        return Key(number: number)
    }
}

/// Keeps each of many repeated values once, under a number from 0 on.
package struct Interner<Value: Hashable & Sendable>: Sendable {
    private var values: [Value] = []
    private var numbers: [Value: UInt32] = [:]
    /// The number of the last lookup, because files are often sorted by a column.
    private var latest: UInt32 = 0

    package init() {}

    package var count: Int { values.count }

    package mutating func number(of value: Value) -> UInt32 {
        if latest < values.count, values[Int(latest)] == value { return latest }
        if let number = numbers[value] {
            latest = number
            return number
        }
        latest = UInt32(truncatingIfNeeded: values.count)
        precondition(values.count < UInt32.max, "a batch has fewer than 2^32 rows")
        values.append(value)
        numbers[value] = latest
        return latest
    }

    package func knownNumber(of value: Value) -> UInt32? { numbers[value] }

    package subscript(number: UInt32) -> Value { values[Int(number)] }
}
