import Synchronization
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

    @Test func firstCount_thatFails_tellsWhy() async {
        let kept = Kept<String, Int>(keysMax: 2) { _ in throw Failed() }

        await #expect(throws: Failed.self) { try await kept.soon("a") }
    }
}
