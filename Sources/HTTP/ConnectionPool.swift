import Synchronization

/// Lends connections, newest first so that few stay warm; callers beyond the cap wait their turn.
final class ConnectionPool: Sendable {
    private typealias Outcome = Result<ClientConnection, HTTPClientError>

    private struct State {
        var idle: [ClientConnection] = []
        var count = 0
        var isClosed = false
        var nextWaiter: UInt64 = 0
        var waiters: [UInt64: Waiter] = [:]
        // Waiters in order; those that gave up are skipped when their turn comes.
        var order: [UInt64] = []
        var orderStart = 0
    }

    /// Between taking a number and waiting, a waiter may already be cancelled or late.
    private enum Waiter {
        case announced
        case gaveUp(HTTPClientError)
        case waiting(CheckedContinuation<Outcome, Never>)
    }

    private let limits: HTTPClientLimits
    private let make: @Sendable () -> ClientConnection
    private let state = Mutex(State())

    init(limits: HTTPClientLimits, make: @escaping @Sendable () -> ClientConnection) {
        self.limits = limits
        self.make = make
    }

    /// A connection for one exchange; waits no longer than the deadline.
    func acquire(until deadline: Deadline) async throws(HTTPClientError) -> ClientConnection {
        let first = state.withLock { state -> (outcome: Outcome?, waiter: UInt64) in
            if state.isClosed { return (.failure(Self.closed), 0) }
            if let connection = state.idle.popLast() { return (.success(connection), 0) }
            if state.count < limits.connectionsMax {
                state.count += 1
                return (.success(make()), 0)
            }
            guard state.waiters.count < limits.waitersMax else {
                let error = HTTPClientError(.overloaded, "too many requests wait to be sent")
                return (.failure(error), 0)
            }
            state.nextWaiter += 1
            state.waiters[state.nextWaiter] = .announced
            return (nil, state.nextWaiter)
        }
        if let outcome = first.outcome { return try outcome.get() }
        return try await wait(as: first.waiter, until: deadline).get()
    }

    /// A connection that nobody uses or waits for; nil when there is none.
    func acquireFree() -> ClientConnection? {
        state.withLock { state in
            guard !state.isClosed, state.waiters.isEmpty else { return nil }
            if let connection = state.idle.popLast() { return connection }
            guard state.count < limits.connectionsMax else { return nil }
            state.count += 1
            return make()
        }
    }

    private func wait(as waiter: UInt64, until deadline: Deadline) async -> Outcome {
        let timer = Task {
            // A cancelled sleep means that the waiter was served.
            guard (try? await Task.sleep(until: deadline, clock: .continuous)) != nil else {
                return
            }
            giveUp(waiter, HTTPClientError(.timedOut, "no connection became free in time"))
        }
        defer { timer.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let outcome = state.withLock { enqueue(waiter, continuation, &$0) }
                if let outcome { continuation.resume(returning: outcome) }
            }
        } onCancel: {
            giveUp(waiter, HTTPClientError(.cancelled, "the request was cancelled"))
        }
    }

    /// Queues the waiter, unless between the two locks a connection came free or it gave up.
    private func enqueue(
        _ waiter: UInt64, _ continuation: CheckedContinuation<Outcome, Never>,
        _ state: inout State
    ) -> Outcome? {
        let announced = state.waiters.removeValue(forKey: waiter)
        if case .gaveUp(let error)? = announced { return .failure(error) }
        if state.isClosed { return .failure(Self.closed) }
        if let connection = state.idle.popLast() { return .success(connection) }
        state.waiters[waiter] = .waiting(continuation)
        state.order.append(waiter)
        return nil
    }

    private func giveUp(_ waiter: UInt64, _ error: HTTPClientError) {
        let continuation = state.withLock { state -> CheckedContinuation<Outcome, Never>? in
            switch state.waiters[waiter] {
            case .waiting(let continuation):
                state.waiters[waiter] = nil
                return continuation
            case .announced:
                state.waiters[waiter] = .gaveUp(error)
                return nil
            case .gaveUp, nil: return nil
            }
        }
        continuation?.resume(returning: .failure(error))
    }

    /// Hands the connection to the next waiter, or keeps it.
    func release(_ connection: ClientConnection) {
        let next = state.withLock { state -> CheckedContinuation<Outcome, Never>? in
            if let waiting = Self.nextWaiting(&state) { return waiting }
            if state.isClosed {
                state.count -= 1
            } else {
                state.idle.append(connection)
            }
            return nil
        }
        next?.resume(returning: .success(connection))
    }

    private static func nextWaiting(
        _ state: inout State
    ) -> CheckedContinuation<Outcome, Never>? {
        while state.orderStart < state.order.count {
            let waiter = state.order[state.orderStart]
            state.orderStart += 1
            if state.orderStart > 1024 {
                state.order.removeFirst(state.orderStart)
                state.orderStart = 0
            }
            if case .waiting(let continuation)? = state.waiters.removeValue(forKey: waiter) {
                return continuation
            }
        }
        return nil
    }

    /// Fails those who wait and drops idle connections; lent ones are dropped when they return.
    func close() {
        let waiting = state.withLock { state -> [CheckedContinuation<Outcome, Never>] in
            state.isClosed = true
            state.count -= state.idle.count
            state.idle = []
            var waiting: [CheckedContinuation<Outcome, Never>] = []
            while let continuation = Self.nextWaiting(&state) { waiting.append(continuation) }
            return waiting
        }
        for continuation in waiting { continuation.resume(returning: .failure(Self.closed)) }
    }

    private static var closed: HTTPClientError {
        HTTPClientError(.closed, "the client has been closed")
    }
}
