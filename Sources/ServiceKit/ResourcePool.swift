import Synchronization

/// Why a pool refused a user.
package enum PoolRefusal: Error {
    case closed, timedOut, cancelled
    /// Too many users already wait.
    case full
}

/// A bounded set of resources, each lent to one user at a time. The one returned last is lent first, so that only as
/// many as needed stay in use. Users beyond the bound wait in order.
package final class ResourcePool<Resource: AnyObject & Sendable>: Sendable {
    /// What a user gets.
    package enum Grant: Sendable {
        /// A resource that was idle.
        case idle(Resource)
        /// The right to make a resource.
        case slot
    }

    private typealias Outcome = Result<Grant, PoolRefusal>
    private typealias Waiter = CheckedContinuation<Outcome, Never>

    private struct State {
        let size: Int
        /// The places in use: resources that are idle, lent, or being made.
        var openCount = 0
        var idle: [Resource] = []
        var queue: [(ticket: UInt64, waiter: Waiter)] = []
        /// Users that have drawn a ticket and do not wait yet, with the reason where they were refused meanwhile.
        var announced: [UInt64: PoolRefusal?] = [:]
        var lastTicket: UInt64 = 0
        var isClosed = false

        mutating func grant() -> Grant? {
            guard queue.isEmpty else { return nil }
            if let resource = idle.popLast() { return .idle(resource) }
            guard openCount < size else { return nil }
            openCount += 1
            return .slot
        }

        /// Puts a user into the queue. Returns the outcome where there already is one; nil where the user waits from
        /// now on.
        mutating func enlist(_ ticket: UInt64, _ waiter: Waiter) -> Outcome? {
            if let refusal = announced.removeValue(forKey: ticket) ?? nil {
                return .failure(refusal)
            }
            if isClosed { return .failure(.closed) }
            // Something may have become free since the ticket was drawn.
            if let grant = grant() { return .success(grant) }
            queue.append((ticket, waiter))
            return nil
        }

        /// Takes a waiter out of the queue. Returns nil where it was already served, or does not wait yet: it is then
        /// refused by `enlist`.
        mutating func abandon(_ ticket: UInt64, _ refusal: PoolRefusal) -> Waiter? {
            if announced.keys.contains(ticket) { announced[ticket] = .some(refusal) }
            guard let index = queue.firstIndex(where: { $0.ticket == ticket }) else { return nil }
            return queue.remove(at: index).waiter
        }
    }

    private let waitersMax: Int
    private let state: Mutex<State>

    package init(size: Int, waitersMax: Int = .max) {
        self.waitersMax = waitersMax
        state = Mutex(State(size: size))
    }

    package var openCount: Int { state.withLock { $0.openCount } }

    /// The number of resources, of idle ones, and of users who wait.
    package var counts: (open: Int, idle: Int, waiting: Int) {
        state.withLock { ($0.openCount, $0.idle.count, $0.queue.count) }
    }

    /// Lends a resource, or the place for one, which the user returns with `release`. Waits until the deadline at most.
    package func acquire(
        until deadline: ContinuousClock.Instant
    ) async throws(PoolRefusal) -> Grant {
        let first = state.withLock { state -> (outcome: Outcome?, ticket: UInt64) in
            if state.isClosed { return (.failure(.closed), 0) }
            if let grant = state.grant() { return (.success(grant), 0) }
            guard state.queue.count + state.announced.count < waitersMax else {
                return (.failure(.full), 0)
            }
            state.lastTicket += 1
            state.announced.updateValue(nil, forKey: state.lastTicket)
            return (nil, state.lastTicket)
        }
        if let outcome = first.outcome { return try outcome.get() }
        return try await wait(first.ticket, until: deadline).get()
    }

    /// Lends a resource or a place without waiting; nil where none is free.
    package func acquireFree() -> Grant? {
        state.withLock { $0.isClosed || !$0.announced.isEmpty ? nil : $0.grant() }
    }

    private func wait(_ ticket: UInt64, until deadline: ContinuousClock.Instant) async -> Outcome {
        let timer = Task {
            // A cancelled sleep means that the waiter was served.
            guard (try? await Task.sleep(until: deadline, clock: .continuous)) != nil else {
                return
            }
            abandon(ticket, .timedOut)
        }
        defer { timer.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                if let outcome = state.withLock({ $0.enlist(ticket, waiter) }) {
                    waiter.resume(returning: outcome)
                }
            }
        } onCancel: {
            abandon(ticket, .cancelled)
        }
    }

    private func abandon(_ ticket: UInt64, _ refusal: PoolRefusal) {
        state.withLock { $0.abandon(ticket, refusal) }?.resume(returning: .failure(refusal))
    }

    /// Takes a resource back, or with nil the place of a lost one, and gives it to the user who has waited longest.
    /// Returns false once the pool is closed: the caller then disposes of the resource.
    @discardableResult
    package func release(_ resource: Resource?) -> Bool {
        let (waiter, isOpen) = state.withLock { state -> (Waiter?, Bool) in
            guard !state.isClosed else {
                state.openCount -= 1
                return (nil, false)
            }
            if !state.queue.isEmpty { return (state.queue.removeFirst().waiter, true) }
            if let resource { state.idle.append(resource) } else { state.openCount -= 1 }
            return (nil, true)
        }
        waiter?.resume(returning: .success(resource.map { .idle($0) } ?? .slot))
        return isOpen
    }

    /// Refuses users from now on, including waiting ones. Returns the idle resources; lent ones are still released.
    @discardableResult
    package func close() -> [Resource] {
        let (idle, queue) = state.withLock { state in
            defer {
                state.openCount -= state.idle.count
                state.idle = []
                state.queue = []
            }
            state.isClosed = true
            return (state.idle, state.queue)
        }
        for (_, waiter) in queue { waiter.resume(returning: .failure(.closed)) }
        return idle
    }
}
