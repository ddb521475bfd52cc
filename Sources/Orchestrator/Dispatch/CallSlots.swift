package import Ledger
import ServiceKit
import Synchronization

/// The instants at which one process may call: a run of slots of one lease, handed out in their order.
///
/// A slot's instant is counted by the monotonic clock from the moment of the lease, so a step of this machine's
/// clock moves none. One that is missed by more than the tolerance is forfeited: calls that were held up must not
/// leave beside those whose turn it is.
package final class CallSlots: Sendable {
    /// How late a call may leave. Of the margin between slots this is the process's part; the rest is left to the
    /// network.
    package static let tolerance: Duration = .milliseconds(10)

    private struct Run {
        /// Slots handed out or forfeited.
        var used = 0
        /// Slots that are ours: what was given back may be somebody else's by now.
        var kept: Int
    }

    package let lease: RateQueries.Lease
    private let first: ContinuousClock.Instant
    private let spacing: Duration
    /// nil: slots are never missed, since a rehearsal's clock runs faster than any process can follow.
    private let tolerance: Duration?
    private let wait: CallBudget.Wait
    private let run: Mutex<Run>
    private let silenced = Mutex(false)

    package init(
        _ lease: RateQueries.Lease, first: ContinuousClock.Instant, spacing: Duration,
        tolerance: Duration?, wait: @escaping CallBudget.Wait
    ) {
        self.lease = lease
        self.first = first
        self.spacing = spacing
        self.tolerance = tolerance
        self.wait = wait
        run = Mutex(Run(kept: lease.granted))
    }

    package var granted: Int { lease.granted }

    /// The first instant that the lease does not hold.
    var end: ContinuousClock.Instant { first + spacing * granted }

    /// Waits for the next slot that can still be met; false when none is left.
    package func take() async throws -> Bool {
        while let slot = reserve() {
            let early = slot - ContinuousClock.now
            if early > .zero { try await wait(early) }
            guard let tolerance, ContinuousClock.now - slot > tolerance else { return true }
        }
        return false
    }

    private func reserve() -> ContinuousClock.Instant? {
        let now = ContinuousClock.now
        return run.withLock { run in
            while run.used < run.kept {
                let slot = first + spacing * run.used
                run.used += 1
                if tolerance.map({ now - slot <= $0 }) ?? true { return slot }
            }
            return nil
        }
    }

    /// The App Store asked for silence on a call of this lease: what is left of it is not used. A change that was put back
    /// could otherwise be claimed again, and sent, by the slots of before.
    package var isSilenced: Bool { silenced.withLock { $0 } }

    package func silence() { silenced.withLock { $0 = true } }

    /// Keeps the first `wanted` slots, and those already handed out or forfeited; returns how many that are. None of the
    /// others is handed out any more, even where one of the first is missed.
    func keep(_ wanted: Int) -> Int {
        run.withLock { run in
            run.kept = min(run.kept, max(run.used, wanted))
            return run.kept
        }
    }
}
