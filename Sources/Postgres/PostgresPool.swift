import ServiceKit

/// A bounded set of connections, opened when needed, and lent to one user at a time.
///
/// A connection that broke, or that came back in the middle of a transaction, is discarded. One that the server closed
/// while it was idle is detected before it is lent. Waiters are served in order and wait at most `waitMax`.
package final class PostgresPool: Sendable {
    private let conninfo: String
    private let applicationName: String
    private let options: ConnectionOptions
    private let waitMax: Duration
    private let watch: PoolWatch?
    private let pool: ResourcePool<PostgresConnection>

    /// - Parameters:
    ///   - size: The most connections, at least 1.
    ///   - waitMax: How long a user waits for a connection before `poolTimedOut`.
    ///   - watch: Records the waits and the outages of the database.
    package init(
        conninfo: String, applicationName: String, size: Int, options: ConnectionOptions = .init(),
        waitMax: Duration = .seconds(30), watch: PoolWatch? = nil
    ) {
        self.conninfo = conninfo
        self.applicationName = applicationName
        self.options = options
        self.waitMax = waitMax
        self.watch = watch
        pool = ResourcePool(size: max(1, size))
        watch?.follow(pool, size: max(1, size))
    }

    /// Lends a connection to `body`. Throws `poolTimedOut`, `poolClosed`, what connecting throws,
    /// `CancellationError` while waiting, and what `body` throws.
    package func withConnection<T: Sendable>(
        _ body: @Sendable (PostgresConnection) async throws -> T
    ) async throws -> T {
        try await run { try await body($0) }
    }

    /// Lends a connection for one transaction; see `PostgresConnection.transaction`.
    package func withTransaction<T: Sendable>(
        _ isolation: Isolation = .readCommitted,
        _ body: @Sendable (isolated PostgresConnection) async throws -> T
    ) async throws -> T {
        try await run { try await $0.transaction(isolation, body) }
    }

    /// Lends a connection for several queries that follow one another, outside a transaction.
    package func read<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> T
    ) async throws -> T {
        try await run { try body($0) }
    }

    /// Runs one statement outside a transaction, whose rows nobody needs.
    package func write(_ statement: SQL) async throws {
        _ = try await run { try $0.pipeline([statement]) }
    }

    /// Lends a connection. All of its use runs on its thread, which costs two thread switches.
    private func run<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) async throws -> T
    ) async throws -> T {
        do {
            let result = try await lend(body)
            watch?.outage.end()
            return result
        } catch let error as PostgresError where error.isOutage {
            throw watch?.told(error) ?? error
        }
    }

    private func lend<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) async throws -> T
    ) async throws -> T {
        var connection: PostgresConnection
        var used: (result: Result<T, any Error>, isClean: Bool)?
        switch try await grant() {
        case .slot:
            connection = try await fill()
        case .idle(let idle):
            connection = idle
            used = await idle.use(afterIdling: true, body)
            if used == nil {
                await idle.close()
                connection = try await fill()
            }
        }
        if used == nil { used = await connection.use(afterIdling: false, body) }
        guard let used else { throw PostgresError(.closed, "the connection was closed") }
        await returnToPool(connection, isReusable: used.isClean)
        return try used.result.get()
    }

    /// Refuses new users and closes the connections; lent ones are closed as they come back.
    package func close() async {
        for connection in pool.close() { await connection.close() }
    }

    /// Open connections, lent and idle.
    package var openCount: Int { pool.openCount }

    private func grant() async throws -> ResourcePool<PostgresConnection>.Grant {
        let asked = ContinuousClock.now
        defer { watch?.waitTime.observe(seconds: (.now - asked) / .seconds(1)) }
        do throws(PoolRefusal) {
            return try await pool.acquire(until: .now + waitMax)
        } catch {
            switch error {
            case .closed: throw PostgresError(.poolClosed, "the pool was closed")
            case .timedOut, .full:
                throw PostgresError(.poolTimedOut, "no connection became free in time")
            case .cancelled: throw CancellationError()
            }
        }
    }

    /// Connects for a place that the caller holds. On failure the place goes to the next waiter.
    private func fill() async throws -> PostgresConnection {
        do throws(PostgresError) {
            return try await PostgresConnection.connect(
                conninfo, applicationName: applicationName, options: options)
        } catch {
            pool.release(nil)
            throw error
        }
    }

    private func returnToPool(_ connection: PostgresConnection, isReusable: Bool) async {
        let isKept = pool.release(isReusable ? connection : nil) && isReusable
        if !isKept { await connection.close() }
    }
}
