/// The statements that this connection has prepared. The least recently used one is evicted first.
struct StatementCache {
    /// Identifies a statement: its static pieces, and the types of the values between them.
    ///
    /// It is looked up at each call, so the text is not built and its bytes are not hashed. The pieces are literals of
    /// the program: equal ones are nearly always the same bytes in memory, which a comparison sees at once. The hash
    /// covers the pieces' lengths and the values' types; the comparison tells apart statements that agree in these.
    struct Key: Hashable {
        let pieces: [String]
        let types: [TypeID]

        init(_ sql: SQL) {
            pieces = sql.pieces
            types = sql.bindings.map(\.type)
        }

        static func == (one: Key, other: Key) -> Bool {
            one.types == other.types
                && one.pieces.elementsEqual(other.pieces) {
                    // Equal strings may differ in bytes (Unicode's composed letters), and then they hardly ever have
                    // the same length.
                    $0.utf8.count == $1.utf8.count && $0 == $1
                }
        }

        func hash(into hasher: inout Hasher) {
            var shape = UInt(bitPattern: pieces.count)
            for piece in pieces { shape = shape &* 31 &+ UInt(bitPattern: piece.utf8.count) }
            for type in types { shape = shape &* 31 &+ UInt(type.rawValue) }
            hasher.combine(shape)
        }

        /// The text as it is sent to the server.
        var text: String { SQL.text(of: pieces) }

        /// The name, safe to log.
        var name: String { SQL.name(startingWith: pieces.first ?? "") }
    }

    /// A statement that the server knows by a name. Confined to its connection.
    final class Entry {
        let name: String
        /// The columns of its last result with rows. The next result has the same.
        var columns: ResultColumns?
        fileprivate var lastUse: UInt64 = 0

        fileprivate init(name: String) {
            self.name = name
        }
    }

    static let limit = 256

    private var entries: [Key: Entry] = [:]
    private var clock: UInt64 = 0
    private var nameCount: UInt64 = 0
    /// Names that are evicted but still known to the server; freed when a transaction allows it.
    private(set) var evicted: [String] = []

    var count: Int { entries.count }

    mutating func entry(for key: Key) -> Entry? {
        guard let entry = entries[key] else { return nil }
        clock += 1
        entry.lastUse = clock
        return entry
    }

    /// A new entry, with a name that was never used on this connection. It is inserted once the server knows it.
    mutating func makeEntry() -> Entry {
        nameCount += 1
        return Entry(name: "s\(nameCount)")
    }

    mutating func insert(_ key: Key, _ entry: Entry) {
        clock += 1
        entry.lastUse = clock
        entries[key] = entry
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
