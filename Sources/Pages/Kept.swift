/// A cache of values that are costly to count and often requested. One task at a time counts a value. It is counted
/// again when it is a few seconds old, but counting takes only a part of the time, however many people ask.
actor Kept<Key: Hashable & Sendable, Value: Sendable> {
    /// How many seconds without a count follow each second of counting.
    private static var rest: Int { 20 }
    /// How long a reader waits for a new count while there is an older one.
    private static var patience: Duration { .milliseconds(200) }
    private static var lookEvery: Duration { .milliseconds(20) }
    /// How long at least a failure is returned, after a count that took longer than a reader waits.
    private static var failureRest: Duration { .seconds(10) }

    private struct Entry {
        var value: Value
        var at: ContinuousClock.Instant
        var took: Duration
    }

    private let keysMax: Int
    private let fresh: Duration
    private let isOld: Duration
    private let patienceWithOld: Duration
    private let patienceWithNone: Duration
    private let count: @Sendable (Key) async throws -> Value
    private var entries: [Key: Entry] = [:]
    private var running: [Key: Task<Value, any Error>] = [:]
    /// First counts that failed when no reader waited any more, and until when their failure is returned.
    private var failures: [Key: (error: any Error, until: ContinuousClock.Instant)] = [:]

    /// `keysMax` limits the number of counts; the oldest is dropped for a new one. A count younger than `fresh` is used
    /// as it is. If a count is older than `isOld`, a reader waits up to `patienceWithOld` for a new one, so that nobody
    /// who comes back after a while reads an outdated page. `patienceWithNone` is how long `soon` waits for the first
    /// count.
    init(
        keysMax: Int, fresh: Duration = .seconds(2), isOld: Duration = .seconds(60),
        patienceWithOld: Duration = .seconds(5),
        patienceWithNone: Duration = .milliseconds(200),
        count: @escaping @Sendable (Key) async throws -> Value
    ) {
        self.keysMax = keysMax
        self.fresh = fresh
        self.isOld = isOld
        self.patienceWithOld = patienceWithOld
        self.patienceWithNone = patienceWithNone
        self.count = count
    }

    /// The newest count, or an older one where a newer one takes longer than a reader waits.
    func value(_ key: Key) async throws -> Value {
        guard let entry = entries[key] else { return try await begin(key).value }
        let age = ContinuousClock.now - entry.at
        guard age > min(isOld, max(fresh, entry.took * Self.rest)) else { return entry.value }
        await wait(key, age > isOld ? patienceWithOld : Self.patience)
        // A count that fails leaves the older one, and the next reader tries again.
        return entries[key]?.value ?? entry.value
    }

    /// The same, but nil where nothing was counted yet and the first count takes longer than a reader waits.
    func soon(_ key: Key) async throws -> Value? {
        if entries[key] != nil { return try await value(key) }
        try tellFailure(of: key)
        await wait(key, patienceWithNone)
        if let entry = entries[key] { return entry.value }
        try tellFailure(of: key)
        // A count that has failed is tried once more, so that the reader learns why.
        return running[key] == nil ? try await begin(key).value : nil
    }

    /// Throws the stored failure of a count, so that the reader learns the cause and the database rests as long as it
    /// counted in vain.
    private func tellFailure(of key: Key) throws {
        if let failure = failures[key], ContinuousClock.now < failure.until { throw failure.error }
    }

    private func wait(_ key: Key, _ patience: Duration) async {
        begin(key)
        let end = ContinuousClock.now + patience
        while running[key] != nil, ContinuousClock.now < end, !Task.isCancelled {
            // It is cancelled when the reader no longer waits.
            try? await Task.sleep(for: Self.lookEvery)
        }
    }

    /// The count is a separate task, because it must continue when the reader who started it no longer waits.
    @discardableResult
    private func begin(_ key: Key) -> Task<Value, any Error> {
        if let task = running[key] { return task }
        // Readers wait from now on, however late the task begins.
        let begun = ContinuousClock.now
        let task = Task { try await self.counted(key, since: begun) }
        running[key] = task
        return task
    }

    private func counted(
        _ key: Key, since start: ContinuousClock.Instant
    ) async throws -> Value {
        defer { running[key] = nil }
        let value: Value
        do {
            value = try await count(key)
        } catch {
            let end = ContinuousClock.now
            failures = failures.filter { $0.value.until > end }
            if end - start > patienceWithNone {
                failures[key] = (error, end + max(end - start, Self.failureRest))
            }
            throw error
        }
        let end = ContinuousClock.now
        failures[key] = nil
        if entries[key] == nil, entries.count >= keysMax,
            let oldest = entries.min(by: { $0.value.at < $1.value.at })
        {
            entries[oldest.key] = nil
        }
        entries[key] = Entry(value: value, at: end, took: end - start)
        return value
    }
}
