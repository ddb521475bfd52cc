package import ServiceKit

/// Work that only one replica does at a time: the one that holds the lease `name`.
package struct HeldLease: Sendable {
    /// How long a lease lasts; it is renewed four times as often. If the holder dies while calls wait for it to read
    /// the history, they wait this much longer.
    static let holdFor: Duration = .seconds(10)

    package let name: String
    package let owner: String
    let pool: DatabasePool
    /// The database's clock where `realClock` is the machine's, which may be wrong: a replica that is ahead would take
    /// over living leases, and hold its own for others long after it has died.
    private let sharedClock: SharedClock?
    private let realClock: any WallClock

    package init(name: String, pool: DatabasePool, realClock: any WallClock) {
        self.name = name
        self.pool = pool
        sharedClock = realClock is SystemClock ? SharedClock() : nil
        self.realClock = sharedClock ?? realClock
        var random = SystemRandomNumberGenerator()
        owner = UUIDv7.make(nowMilliseconds: realClock.nowMilliseconds(), random: &random)
    }

    /// Takes the lease. Returns false while another process holds it or, with `now`, while the work is not due.
    package func take(dueAt now: Int64?) async throws -> Bool {
        let (realClock, sharedClock) = (realClock, sharedClock)
        return try await pool.withTransaction { connection in
            try sharedClock?.follow(connection)
            let realNow = realClock.nowMilliseconds()
            return try LeaseQueries.take(
                name, owner: owner, until: realNow + Self.holdFor.milliseconds, realNow: realNow,
                now: now, on: connection)
        }
    }

    /// Runs `body` while it renews the lease, and releases the lease afterwards.
    package func whileRenewing<Value: Sendable>(
        log: Log, nextRunAt: @escaping @Sendable () -> Int64?, now: @escaping @Sendable () -> Int64,
        _ body: @Sendable () async throws -> Value
    ) async throws -> Value {
        let renewal = Task { await keep(log) }
        defer { renewal.cancel() }
        let result: Result<Value, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        do {
            try await pool.write(
                LeaseQueries.release(name, owner: owner, ranAt: now(), nextRunAt: nextRunAt()))
        } catch {
            // The lease expires by itself, so the result or the error of the body matters more.
            log.warning("a lease was not given back", ["error": String(describing: error)])
        }
        return try result.get()
    }

    private func keep(_ log: Log) async {
        let outage = Outage(log: log, level: .warning, failure: "a lease was not renewed")
        while !Task.isCancelled {
            do {
                try await Task.sleep(for: Self.holdFor / 4)
                _ = try await pool.withTransaction { connection in
                    try sharedClock?.follow(connection)
                    let until = realClock.nowMilliseconds() + Self.holdFor.milliseconds
                    return try LeaseQueries.renew(name, owner: owner, until: until, on: connection)
                }
                outage.end()
            } catch is CancellationError {
                return
            } catch {
                outage.note(error)
            }
        }
    }
}
