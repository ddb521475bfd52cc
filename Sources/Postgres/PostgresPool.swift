import ServiceKit
import Synchronization

/// A bounded set of connections, opened when needed, lent to one user at a time.
///
/// A connection that broke, or that came back in the middle of a transaction, is thrown away; one
/// that the server closed while it lay idle is noticed before it is lent. Waiters are served in
/// order and wait at most `waitMax`.
package final class PostgresPool: Sendable {
    private let conninfo: String
    private let applicationName: String
    private let options: ConnectionOptions
    private let waitMax: Duration
    private let state: Mutex<PoolState>

    /// - Parameters:
    ///   - size: connections at most, at least 1.
    ///   - waitMax: how long a user waits for a connection before `poolTimedOut`.
    package init(
        conninfo: String, applicationName: String, size: Int, options: ConnectionOptions = .init(),
        waitMax: Duration = .seconds(30)
    ) {
        self.conninfo = conninfo
        self.applicationName = applicationName
        self.options = options
        self.waitMax = waitMax
        state = Mutex(PoolState(size: max(1, size)))
    }

    /// Lends a connection to `body`. Throws `poolTimedOut`, `poolClosed`, what connecting throws,
    /// `CancellationError` while waiting, and what `body` throws.
    package func withConnection<T: Sendable>(
        _ body: @Sendable (PostgresConnection) async throws -> T
    ) async throws -> T {
        let connection = try await lease()
        do {
            let value = try await body(connection)
            await giveBack(connection)
            return value
        } catch {
            await giveBack(connection)
            throw error
        }
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

    /// As `withConnection`, on the connection's thread from the first look to the last: two switches of threads in all.
    private func run<T: Sendable>(
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
        await giveBack(connection, isReusable: used.isClean)
        return try used.result.get()
    }

    /// Refuses new users and closes the connections, lent ones as they come back.
    package func close() async {
        let (idle, waiters) = state.withLock { $0.close() }
        for waiter in waiters {
            waiter.resume(throwing: PostgresError(.poolClosed, "the pool was closed"))
        }
        for connection in idle { await connection.close() }
    }

    /// Open connections, lent and idle.
    package var openCount: Int { state.withLock { $0.openCount } }

    // MARK: Lending

    private func grant() async throws -> PoolState.Grant {
        switch state.withLock({ $0.request() }) {
        case .granted(let granted): granted
        case .closed: throw PostgresError(.poolClosed, "the pool was closed")
        case .wait(let ticket): try await wait(ticket)
        }
    }

    private func lease() async throws -> PostgresConnection {
        switch try await grant() {
        case .slot:
            return try await fill()
        case .idle(let connection):
            if await connection.isReusable { return connection }
            await connection.close()
            return try await fill()
        }
    }

    /// Connects for a slot that is ours; on failure the slot goes to the next waiter.
    private func fill() async throws -> PostgresConnection {
        do throws(PostgresError) {
            return try await PostgresConnection.connect(
                conninfo, applicationName: applicationName, options: options)
        } catch {
            resume(state.withLock { $0.release(nil) })
            throw error
        }
    }

    private func giveBack(_ connection: PostgresConnection) async {
        await giveBack(connection, isReusable: await connection.isReusable)
    }

    private func giveBack(_ connection: PostgresConnection, isReusable: Bool) async {
        let handover = state.withLock { $0.release(isReusable ? connection : nil) }
        let isKept = handover?.isKept ?? isReusable
        resume(handover)
        if !isReusable || !isKept { await connection.close() }
    }

    private func resume(_ handover: PoolState.Handover?) {
        guard let handover else { return }
        handover.waiter?.resume(returning: handover.grant)
    }

    private func wait(_ ticket: UInt64) async throws -> PoolState.Grant {
        try await withThrowingTaskGroup(of: PoolState.Grant?.self) { group in
            group.addTask { try await self.enqueue(ticket) }
            group.addTask { [waitMax] in
                // Cancelled as soon as the connection comes: that is no failure.
                try? await Task.sleep(for: waitMax)
                return nil
            }
            guard let first = try await group.next(), let grant = first else {
                // Time is up, or we were cancelled. A grant that raced with it is still ours.
                let late = try await settle(ticket, &group)
                return late
            }
            group.cancelAll()
            return grant
        }
    }

    private func settle(
        _ ticket: UInt64, _ group: inout ThrowingTaskGroup<PoolState.Grant?, any Error>
    ) async throws -> PoolState.Grant {
        let waiter = state.withLock { $0.abandon(ticket) }
        if Task.isCancelled {
            waiter?.resume(throwing: CancellationError())
        } else {
            waiter?.resume(
                throwing: PostgresError(.poolTimedOut, "no connection became free in time"))
        }
        guard let second = try await group.next(), let grant = second else {
            throw CancellationError()
        }
        return grant
    }

    private func enqueue(_ ticket: UInt64) async throws -> PoolState.Grant {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                switch state.withLock({ $0.enlist(ticket, continuation) }) {
                case .granted(let grant): continuation.resume(returning: grant)
                case .closed:
                    continuation.resume(throwing: PostgresError(.poolClosed, "the pool was closed"))
                case .cancelled: continuation.resume(throwing: CancellationError())
                case .listed: break
                }
            }
        } onCancel: {
            state.withLock { $0.abandon(ticket) }?.resume(throwing: CancellationError())
        }
    }
}
