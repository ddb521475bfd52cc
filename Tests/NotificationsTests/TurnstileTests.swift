import Foundation
import Synchronization
import Testing

@testable import Notifications

struct TurnstileTests {
    @Test func turnstile_whenManyThreadsCome_letsNoMoreInThanPlaces() {
        let turnstile = Turnstile(places: 2)
        let inside = Mutex((now: 0, most: 0, passed: 0))
        DispatchQueue.concurrentPerform(iterations: 16) { _ in
            for _ in 0..<200 {
                turnstile.pass {
                    inside.withLock {
                        $0.now += 1
                        $0.most = max($0.most, $0.now)
                    }
                    sched_yield()
                    inside.withLock {
                        $0.now -= 1
                        $0.passed += 1
                    }
                }
            }
        }
        let seen = inside.withLock { $0 }
        #expect(seen.most <= 2)
        #expect(seen.passed == 3200)
    }

    @Test func turnstile_whenTheWorkThrows_freesThePlace() throws {
        struct Refused: Error {}
        let turnstile = Turnstile(places: 1)
        #expect(throws: Refused.self) { try turnstile.pass { throw Refused() } }
        #expect(turnstile.pass { 7 } == 7)
    }
}
