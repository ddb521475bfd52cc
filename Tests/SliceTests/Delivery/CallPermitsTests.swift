import Facts
import ServiceKit
import Synchronization
import Testing

@testable import Calls

/// How a process keeps the permits that it reserved.
struct CallPermitsTests {
    private static func permits(
        first: Duration, granted: Int, tolerance: Duration?,
        missed: MissedPermits = MissedPermits(),
        wait: @escaping CallPermitSource.Wait
    ) -> CallPermits {
        CallPermits(
            RateQueries.Lease(permits: (0..<Int64(granted)).map { $0 * 10_000_000 }),
            asked: ContinuousClock.now + first, tolerance: tolerance, missed: missed, wait: wait)
    }

    @Test func take_beforeItsPermit_waitsForIt() async throws {
        let waits = Mutex<[Duration]>([])
        let permits = Self.permits(first: .seconds(100), granted: 2, tolerance: .seconds(5)) {
            wait in
            waits.withLock { $0.append(wait) }
        }

        let taken = [try await permits.take(), try await permits.take(), try await permits.take()]

        #expect(taken == [true, true, false])
        let waited = waits.withLock { $0 }
        #expect(waited.count == 2)
        #expect(waited.allSatisfy { $0 > .seconds(60) && $0 <= .seconds(110) })
    }

    @Test func take_afterItsPermit_forfeitsIt() async throws {
        let waits = Mutex(0)
        let permits = Self.permits(first: .seconds(-25), granted: 3, tolerance: .seconds(8)) { _ in
            waits.withLock { $0 += 1 }
        }

        let taken = [try await permits.take(), try await permits.take()]

        #expect(taken == [true, false], "two of three permits were missed by more than 8 s")
        #expect(waits.withLock { $0 } == 0)
    }

    /// Somebody else may call at what was given back: a call that missed its permit asks for another one.
    @Test func take_ofWhatWasGivenBack_isNone() async throws {
        let permits = Self.permits(first: .seconds(-15), granted: 3, tolerance: .seconds(8)) { _ in
        }

        #expect(permits.keep(1) == 1)

        #expect(try await permits.take() == false, "the first was missed, the others are not ours")
    }

    @Test func keep_afterPermitsWereHandedOut_keepsThose() async throws {
        let permits = Self.permits(first: .seconds(-15), granted: 4, tolerance: .seconds(8)) { _ in
        }

        #expect(try await permits.take(), "the first was missed, this is the second")

        #expect(permits.keep(1) == 2)
        #expect(permits.keep(4) == 2, "what was given back is gone")
        #expect(try await permits.take() == false)
    }

    /// The next lease tells of them, once. One that was missed by long is lost.
    @Test func missedPermits_areKeptForTheNextLease() async throws {
        let missed = MissedPermits()
        let permits = Self.permits(
            first: .seconds(-25), granted: 4, tolerance: .seconds(8), missed: missed
        ) { _ in throw CancellationError() }

        #expect(try await permits.take(), "of the first three, two were missed by more than 8 s")
        await #expect(throws: CancellationError.self) { try await permits.take() }

        #expect(missed.takeAll() == [10_000_000, 30_000_000])
        #expect(missed.takeAll() == [])
    }

    @Test func take_whenARehearsalRuns_missesNoPermit() async throws {
        let permits = Self.permits(first: .seconds(-100), granted: 2, tolerance: nil) { _ in }

        let taken = [try await permits.take(), try await permits.take(), try await permits.take()]

        #expect(taken == [true, true, false])
    }
}
