package import Facts
import ServiceKit
import Synchronization

/// The instants at which one process may call: the permits of one lease, handed out in their order.
///
/// A permit's instant is counted by the monotonic clock from the moment of the lease, so a step of this machine's clock
/// moves none. A permit that is missed by more than the tolerance is forfeited, because a delayed call must not be sent
/// beside the call whose turn it is. If it was missed by little, the next lease gives its place in the rate window to
/// another call.
package final class CallPermits: Sendable {
    /// How late after its permit a call may be sent. This is the process's part of the margin between permits; the
    /// network gets the rest.
    package static let tolerance: Duration = .milliseconds(10)

    private struct Run {
        /// How many permits were handed out or forfeited.
        var used = 0
        /// How many permits this process still has. Another process may have been given those that it released.
        var kept: Int
    }

    package let lease: RateQueries.Lease
    /// The instant of each permit of the lease.
    private let instants: [ContinuousClock.Instant]
    /// The earliest instant of a permit beyond this lease. No further permit is free before it.
    let end: ContinuousClock.Instant
    /// How late a call may be sent; nil where permits are never missed, because a rehearsal's clock runs faster than
    /// any process can follow.
    private let tolerance: Duration?
    private let missed: MissedPermits
    private let wait: CallPermitSource.Wait
    private let run: Mutex<Run>
    private let silence = Mutex<SilenceReason?>(nil)

    /// `asked` is when the lease's clock showed the instant of the lease; `real` turns its time into real time.
    package init(
        _ lease: RateQueries.Lease, asked: ContinuousClock.Instant, tolerance: Duration?,
        missed: MissedPermits = MissedPermits(), real: (Duration) -> Duration = { $0 },
        wait: @escaping CallPermitSource.Wait
    ) {
        func instant(_ micros: Int64) -> ContinuousClock.Instant {
            asked + real(.microseconds(micros &- lease.nowMicros))
        }
        self.lease = lease
        instants = lease.permits.map { instant($0) }
        end = instant(lease.nextMicros)
        self.tolerance = tolerance
        self.missed = missed
        self.wait = wait
        run = Mutex(Run(kept: lease.permits.count))
    }

    package var granted: Int { lease.permits.count }

    /// Waits for the next permit whose instant has not passed; returns false when none is left.
    package func take() async throws -> Bool {
        while let permit = reserve() {
            let early = instants[permit] - ContinuousClock.now
            do {
                if early > .zero { try await wait(early) }
            } catch {
                missed.add(lease.permits[permit])
                throw error
            }
            guard noteIfMissed(permit, at: .now) else { return true }
        }
        return false
    }

    private func reserve() -> Int? {
        let now = ContinuousClock.now
        return run.withLock { run in
            while run.used < run.kept {
                let permit = run.used
                run.used += 1
                if !noteIfMissed(permit, at: now) { return permit }
            }
            return nil
        }
    }

    /// The next lease learns of a missed permit only if it was missed by at most this many tolerances. A process that
    /// is delayed for longer also sends its calls late. So the places of its missed permits stay empty, because in a
    /// full window each of them would crowd other calls.
    private static let tellsWithin = 3

    private func noteIfMissed(_ permit: Int, at now: ContinuousClock.Instant) -> Bool {
        guard let tolerance else { return false }
        let late = now - instants[permit]
        guard late > tolerance else { return false }
        if late <= tolerance * Self.tellsWithin { missed.add(lease.permits[permit]) }
        return true
    }

    /// Whether the App Store asked for silence after a call of this lease. The rest of the lease is not used then.
    /// Otherwise a change that was put back could be claimed again, and sent with an earlier permit.
    package var isSilenced: Bool { silenced != nil }

    /// Why the lease is silenced; the first reason stands.
    package var silenced: SilenceReason? { silence.withLock { $0 } }

    package func silence(for reason: SilenceReason) { silence.withLock { $0 = $0 ?? reason } }

    /// Keeps the first `wanted` permits and those already handed out or forfeited, and returns how many those are.
    /// None of the others is handed out any more, even where one of the first is missed.
    func keep(_ wanted: Int) -> Int {
        run.withLock { run in
            run.kept = min(run.kept, max(run.used, wanted))
            return run.kept
        }
    }
}

/// Permits of one endpoint that this process had and did not use. Its next lease tells the database of them.
package final class MissedPermits: Sendable {
    private let permits = Mutex<[Int64]>([])

    package init() {}

    package func add(_ more: Int64...) { add(more) }

    package func add(_ more: [Int64]) { permits.withLock { $0 += more } }

    /// All missed permits so far. They are told once.
    func takeAll() -> [Int64] {
        permits.withLock { permits in
            defer { permits = [] }
            return permits
        }
    }
}
