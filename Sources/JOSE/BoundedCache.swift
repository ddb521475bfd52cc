/// A dictionary that holds at most `limit` values. The least recently used one leaves first.
struct BoundedCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry {
        var value: Value
        var usedAt: UInt64
    }

    private let limit: Int
    private var entries: [Key: Entry] = [:]
    private var clock: UInt64 = 0

    init(limit: Int) {
        self.limit = limit
    }

    var count: Int { entries.count }
    var values: [Value] { entries.values.map(\.value) }

    mutating func value(for key: Key) -> Value? {
        guard let index = entries.index(forKey: key) else { return nil }
        clock &+= 1
        entries.values[index].usedAt = clock
        return entries.values[index].value
    }

    mutating func insert(_ value: Value, for key: Key) {
        guard limit > 0 else { return }
        clock &+= 1
        entries[key] = Entry(value: value, usedAt: clock)
        guard entries.count > limit,
            let oldest = entries.min(by: { $0.value.usedAt < $1.value.usedAt })
        else { return }
        entries[oldest.key] = nil
    }

    mutating func removeAll(where isGone: (Value) -> Bool) {
        entries = entries.filter { !isGone($0.value.value) }
    }
}
