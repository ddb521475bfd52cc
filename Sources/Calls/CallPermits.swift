package import Facts
import ServiceKit
import Synchronization

/// The instants at which one process may call: a run of slots of one lease, handed out in their order.
///
/// A slot's instant is counted by the monotonic clock from the moment of the lease, so a step of this machine's
/// clock moves none. One that is missed by more than the tolerance is forfeited: calls that were held up must not
/// leave beside those whose turn it is. What it leaves of its window the next lease gives to others, if it was missed by
/// little.
package final class CallPermits: Sendable {
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
    /// One for each slot of the lease.
    private let instants: [ContinuousClock.Instant]
    /// No slot is free before: the first instant that the lease does not hold.
    let end: ContinuousClock.Instant
    /// nil: slots are never missed, since a rehearsal's clock runs faster than any process can follow.
    private let tolerance: Duration?
    private let missed: MissedPermits
    private let wait: CallPermitSource.Wait
    private let run: Mutex<Run>
    private let silence = Mutex<SilenceReason?>(nil)

    /// `asked` is when the lease's clock said what the lease says; `real` turns its time into ours.
    package init(
        _ lease: RateQueries.Lease, asked: ContinuousClock.Instant, tolerance: Duration?,
        missed: MissedPermits = MissedPermits(), real: (Duration) -> Duration = { $0 },
        wait: @escaping CallPermitSource.Wait
    ) {
        func instant(_ micros: Int64) -> ContinuousClock.Instant {
            asked + real(.microseconds(micros &- lease.nowMicros))
        }
        self.lease = lease
        instants = lease.slots.map { instant($0) }
        end = instant(lease.nextMicros)
        self.tolerance = tolerance
        self.missed = missed
        self.wait = wait
        run = Mutex(Run(kept: lease.slots.count))
    }

    package var granted: Int { lease.slots.count }

    /// Waits for the next slot that can still be met; false when none is left.
    package func take() async throws -> Bool {
        while let slot = reserve() {
            let early = instants[slot] - ContinuousClock.now
            do {
                if early > .zero { try await wait(early) }
            } catch {
                missed.add(lease.slots[slot])
                throw error
            }
            guard noteIfMissed(slot, at: .now) else { return true }
        }
        return false
    }

    private func reserve() -> Int? {
        let now = ContinuousClock.now
        return run.withLock { run in
            while run.used < run.kept {
                let slot = run.used
                run.used += 1
                if !noteIfMissed(slot, at: now) { return slot }
            }
            return nil
        }
    }

    /// Where a process is held up for longer, its calls are late on their way too. The room of those slots stays empty:
    /// in windows that are always full each of them would crowd others.
    private static let tellsWithin = 3

    private func noteIfMissed(_ slot: Int, at now: ContinuousClock.Instant) -> Bool {
        guard let tolerance else { return false }
        let late = now - instants[slot]
        guard late > tolerance else { return false }
        if late <= tolerance * Self.tellsWithin { missed.add(lease.slots[slot]) }
        return true
    }

    /// The App Store asked for silence on a call of this lease: what is left of it is not used. A change that was put back
    /// could otherwise be claimed again, and sent, by the slots of before.
    package var isSilenced: Bool { silenced != nil }

    /// Why; the first reason stands.
    package var silenced: SilenceReason? { silence.withLock { $0 } }

    package func silence(for reason: SilenceReason) { silence.withLock { $0 = $0 ?? reason } }

    /// Keeps the first `wanted` slots, and those already handed out or forfeited; returns how many that are. None of the
    /// others is handed out any more, even where one of the first is missed.
    func keep(_ wanted: Int) -> Int {
        run.withLock { run in
            run.kept = min(run.kept, max(run.used, wanted))
            return run.kept
        }
    }
}

/// Slots of one endpoint that this process had and did not use, until its next lease tells of them.
package final class MissedPermits: Sendable {
    private let slots = Mutex<[Int64]>([])

    package init() {}

    package func add(_ more: Int64...) { add(more) }

    package func add(_ more: [Int64]) { slots.withLock { $0 += more } }

    /// All so far; they are told once.
    func takeAll() -> [Int64] {
        slots.withLock { slots in
            defer { slots = [] }
            return slots
        }
    }
}
