import Synchronization
import TestSupport
import Testing

@testable import Pages

struct KeptTests {
    private struct Failed: Error {}

    /// Holds a count up until it is let go.
    private final class Gate: Sendable {
        private let open = Mutex<[CheckedContinuation<Void, Never>]?>([])

        func pass() async {
            await withCheckedContinuation { waiter in
                let isOpen = open.withLock { waiters in
                    waiters?.append(waiter)
                    return waiters == nil
                }
                if isOpen { waiter.resume() }
            }
        }

        func letGo() {
            let waiters = open.withLock { waiters in
                defer { waiters = nil }
                return waiters
            }
            for waiter in waiters ?? [] { waiter.resume() }
        }
    }

    @Test func firstCount_thatTakesLong_keepsNobodyWaiting() async throws {
        let gate = Gate()
        let kept = Kept<String, Int>(keysMax: 2) { _ in
            await gate.pass()
            return 7
        }

        let early = try await kept.soon("a")
        gate.letGo()
        let late = try await kept.value("a")

        #expect(early == nil)
        #expect(late == 7)
        #expect(try await kept.soon("a") == 7)
    }

    /// Nobody was there when it failed. Who asks next learns why, and it is not counted again at once.
    @Test func firstCount_thatFailsAfterItsReaderLeft_isTold() async throws {
        let gate = Gate()
        let counts = Mutex(0)
        let kept = Kept<String, Int>(keysMax: 2, patienceWithNone: .milliseconds(20)) { _ in
            counts.withLock { $0 += 1 }
            await gate.pass()
            throw Failed()
        }

        let early = try await kept.soon("a")
        gate.letGo()

        #expect(early == nil)
        for _ in 0..<3 {
            await #expect(throws: Failed.self) { _ = try await kept.soon("a") }
        }
        #expect(counts.withLock { $0 } == 1)
    }

    /// Who comes back after a while waits for the new count, and does not read what was true then.
    @Test func oldCount_isWaitedFor() async throws {
        let gate = Gate()
        let counts = Mutex(0)
        let kept = Kept<String, Int>(keysMax: 2, fresh: .zero, isOld: .zero) { _ in
            let number = counts.withLock { count in
                count += 1
                return count
            }
            if number == 2 { await gate.pass() }
            return number
        }
        let first = try await kept.value("a")
        let begun = ContinuousClock.now

        async let second = kept.value("a")
        // Longer than a reader waits who has a count of a moment ago.
        try await eventually { ContinuousClock.now > begun + .milliseconds(400) }
        gate.letGo()

        #expect(first == 1)
        #expect(try await second == 2)
    }

    @Test func firstCount_thatFails_tellsWhy() async {
        let kept = Kept<String, Int>(keysMax: 2) { _ in throw Failed() }

        await #expect(throws: Failed.self) { try await kept.soon("a") }
    }
}
