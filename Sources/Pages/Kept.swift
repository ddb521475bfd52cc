/// What is dear to count and is asked for again and again: counted by one at a time, and kept. It is counted anew when it
/// is a few seconds old, and never for more than a part of the time, however many people look.
actor Kept<Key: Hashable & Sendable, Value: Sendable> {
    /// Younger is as good as new.
    private static var fresh: Duration { .seconds(2) }
    /// After a count that took a second come so many seconds without one.
    private static var rest: Int { 20 }
    /// How long a reader waits for a new count while there is an older one.
    private static var patience: Duration { .milliseconds(200) }
    private static var looks: Int { 10 }

    private struct Entry {
        var value: Value
        var at: ContinuousClock.Instant
        var took: Duration
    }

    private let keysMax: Int
    private let count: @Sendable (Key) async throws -> Value
    private var entries: [Key: Entry] = [:]
    private var running: [Key: Task<Value, any Error>] = [:]

    /// `keysMax`: the one that was counted longest ago is forgotten for a new one.
    init(keysMax: Int, count: @escaping @Sendable (Key) async throws -> Value) {
        self.keysMax = keysMax
        self.count = count
    }

    /// The newest count; an older one where a newer takes longer than a reader waits.
    func value(_ key: Key) async throws -> Value {
        guard let entry = entries[key] else { return try await begin(key).value }
        let age = ContinuousClock.now - entry.at
        guard age > max(Self.fresh, entry.took * Self.rest) else { return entry.value }
        await wait(key)
        // A count that fails leaves the older one, and the next reader tries again.
        return entries[key]?.value ?? entry.value
    }

    /// As `value`; nil where nothing was counted yet and the first count takes longer than a reader waits.
    func soon(_ key: Key) async throws -> Value? {
        if entries[key] != nil { return try await value(key) }
        await wait(key)
        if let entry = entries[key] { return entry.value }
        // A count that has failed is tried once more, so that the reader learns why.
        return running[key] == nil ? try await begin(key).value : nil
    }

    private func wait(_ key: Key) async {
        begin(key)
        for _ in 0..<Self.looks where running[key] != nil {
            // Cancelled: nobody reads the answer any more.
            try? await Task.sleep(for: Self.patience / Self.looks)
        }
    }

    /// A task of its own, since it goes on when the reader who began it waits no longer.
    @discardableResult
    private func begin(_ key: Key) -> Task<Value, any Error> {
        if let task = running[key] { return task }
        let task = Task { try await self.counted(key) }
        running[key] = task
        return task
    }

    private func counted(_ key: Key) async throws -> Value {
        defer { running[key] = nil }
        let start = ContinuousClock.now
        let value = try await count(key)
        let end = ContinuousClock.now
        if entries[key] == nil, entries.count >= keysMax,
            let oldest = entries.min(by: { $0.value.at < $1.value.at })
        {
            entries[oldest.key] = nil
        }
        entries[key] = Entry(value: value, at: end, took: end - start)
        return value
    }
}
