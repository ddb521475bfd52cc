import ServiceKit
import Synchronization

/// The calls of one process that are not settled yet, of all its claims. A claim does not wait for the calls of the
/// previous claim, so a slow answer delays only its own subscription.
package final class CallsOut: Sendable {
    private struct State {
        var count = 0
        var failure: (any Error)?
        var quietUntil: ContinuousClock.Instant?
        var isStopping = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    package init() {}

    /// How many calls are not settled yet.
    package var count: Int { state.withLock { $0.count } }

    /// Whether the service is stopping. A call that was not sent by then is put back.
    package var isStopping: Bool { state.withLock { $0.isStopping } }

    package func stop() { state.withLock { $0.isStopping = true } }

    /// Starts the calls of one claim. They are not cancelled with the service: a call that was sent is settled before
    /// the process ends, if there is time.
    package func launch(_ count: Int, _ work: @escaping @Sendable () async throws -> Void) {
        state.withLock { $0.count += count }
        Task(executorPreference: Alarm.shared) {
            var failure: (any Error)?
            do { try await work() } catch { failure = error }
            let waiter = self.state.withLock { state in
                state.count -= count
                state.failure = state.failure ?? failure
                return state.count == 0 ? state.waiter.take() : nil
            }
            waiter?.resume()
        }
    }

    /// The first failure since the last call of this method.
    package func takeFailure() -> (any Error)? {
        state.withLock { $0.failure.take() }
    }

    /// Starts no new claim for this long, because the App Store is out of reach.
    package func keepQuiet(for time: Duration) {
        let until = ContinuousClock.now + time
        state.withLock { $0.quietUntil = max($0.quietUntil ?? until, until) }
    }

    /// How much longer no new claim may start.
    package var quietFor: Duration {
        let until = state.withLock { $0.quietUntil }
        return until.map { max(.zero, $0 - .now) } ?? .zero
    }

    /// Waits until all calls are settled, for `limit` at most. Returns false when some are still out.
    package func allSettled(within limit: Duration? = nil) async -> Bool {
        let timer = limit.map { limit in
            Task {
                // This wait is cancelled when all calls are settled, because nobody waits any more.
                try? await Task.sleep(for: limit)
                state.withLock { $0.waiter.take() }?.resume()
            }
        }
        defer { timer?.cancel() }
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                if state.count > 0 { state.waiter = continuation }
                return state.count == 0
            }
            if isDone { continuation.resume() }
        }
        return count == 0
    }
}
