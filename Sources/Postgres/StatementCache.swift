/// Which statements this connection has prepared, oldest use evicted first.
struct StatementCache {
    struct Key: Hashable {
        let text: String
        let types: [TypeID]
    }

    static let limit = 256

    private var entries: [Key: (name: String, lastUse: UInt64)] = [:]
    private var clock: UInt64 = 0
    private var nameCount: UInt64 = 0
    /// Names that are evicted but still known to the server; freed when a transaction allows it.
    private(set) var evicted: [String] = []

    var count: Int { entries.count }

    mutating func name(for key: Key) -> String? {
        guard let entry = entries[key] else { return nil }
        clock += 1
        entries[key] = (entry.name, clock)
        return entry.name
    }

    /// A name that was never used on this connection.
    mutating func makeName() -> String {
        nameCount += 1
        return "s\(nameCount)"
    }

    mutating func insert(_ key: Key, name: String) {
        clock += 1
        entries[key] = (name, clock)
        while entries.count > Self.limit,
            let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse })
        {
            entries[oldest.key] = nil
            evicted.append(oldest.value.name)
        }
    }

    /// Drops a statement that the server no longer accepts.
    mutating func remove(_ key: Key) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        evicted.append(entry.name)
    }

    /// Drops the statement when `error` says that its plan is out of date.
    mutating func forget(_ key: Key, ifStaleBy error: PostgresError) {
        if error.isStalePlan { remove(key) }
    }

    mutating func takeEvicted() -> [String] {
        defer { evicted = [] }
        return evicted
    }
}
