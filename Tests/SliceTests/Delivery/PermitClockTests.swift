import Testing

@testable import Calls

/// Where reserved permits lie on the clock of the process that keeps them.
struct PermitClockTests {
    private let clock = PermitClock()
    private let start = ContinuousClock.now
    /// The database's clock at `start`, in microseconds.
    private let micros: Int64 = 1_800_000_000_000_000

    /// The answer that the database gave `at` after the start, and that took `delay` to arrive; how long after the
    /// start the process holds that it was given.
    private func answer(
        at seconds: Double, delay: Duration, clockIsAheadBy step: Duration = .zero
    ) -> Duration? {
        let told =
            micros + Int64(seconds * 1_000_000) + step.components.seconds * 1_000_000
            + step.components.attoseconds / 1_000_000_000_000
        let instant = clock.instant(
            of: told, answered: start + .seconds(seconds) + delay)
        return instant.map { $0 - start }
    }

    @Test func anAnswer_thatWasHeldUp_putsNoPermitOff() {
        #expect(answer(at: 0, delay: .milliseconds(1)) == .milliseconds(1))
        #expect(answer(at: 0.25, delay: .milliseconds(41)) == .milliseconds(251))
        #expect(answer(at: 0.5, delay: .milliseconds(2)) == .milliseconds(501))
        // The quickest of all tells best.
        #expect(answer(at: 0.75, delay: .zero) == .milliseconds(750))
        #expect(answer(at: 1, delay: .milliseconds(200)) == .milliseconds(1000))
    }

    @Test func everyAnswer_beingSlow_isNone() {
        for quarter in 0..<8 {
            let at = Double(quarter) / 4
            #expect(answer(at: at, delay: .milliseconds(80)) == .seconds(at) + .milliseconds(80))
        }
    }

    @Test func anAnswer_heldUpTooLong_saysNothing() {
        #expect(answer(at: 0, delay: .zero) == .zero)
        #expect(answer(at: 0.25, delay: .milliseconds(400)) == nil)
        #expect(answer(at: 1, delay: .milliseconds(1)) == .milliseconds(1001))
    }

    @Test(arguments: [-3600, 3600]) func aClock_thatWasSet_isFollowed(seconds: Int) {
        #expect(answer(at: 0, delay: .zero) == .zero)
        let step = Duration.seconds(seconds)

        // One set back can't be told from an answer that was held up, until the next.
        let first = answer(at: 0.25, delay: .milliseconds(1), clockIsAheadBy: step)
        #expect(first == (seconds < 0 ? nil : .milliseconds(251)))
        #expect(
            answer(at: 0.5, delay: .milliseconds(1), clockIsAheadBy: step) == .milliseconds(501))
    }

    /// Permits 20 ms apart, of which the first lies so long after the start by the database's clock.
    private func permits(from milliseconds: Int64, count: Int64) -> [Int64] {
        (0..<count).map { micros + (milliseconds + $0 * 20) * 1000 }
    }

    private func inOrder(_ permits: [Int64], clocksDifferBy shift: Duration = .zero) -> [Int64] {
        clock.inOrder(permits, nowMicros: micros, asked: start + shift, gapMicros: 20_000)
    }

    @Test(arguments: [(0, 0), (4, 0), (12, 1), (31, 2), (400, 10)])
    func permits_thatComeBeforeThoseHeld_arePassedOver(earlier: Int, lost: Int) {
        #expect(inOrder(permits(from: 100, count: 10)) == permits(from: 100, count: 10))

        let next = permits(from: 300, count: 10)

        // The clocks turn out to stand otherwise than was thought: these permits are nearer.
        #expect(
            inOrder(next, clocksDifferBy: .milliseconds(-earlier)) == Array(next.dropFirst(lost)))
    }

    @Test func permits_afterAClockWasSetForward_arePassedOverUntilThoseHeldHaveBeen() {
        _ = inOrder(permits(from: 100, count: 10))
        let hour: Int64 = 3_600_000

        // Half of the permits from 90 ms on lie before 280 ms, where the last one of before does.
        let next = permits(from: hour + 90, count: 20)
        #expect(inOrder(next, clocksDifferBy: .seconds(-3600)) == Array(next.dropFirst(11)))
    }

    @Test func permits_givenBackAndLeasedAgain_areUsed() {
        _ = inOrder(permits(from: 100, count: 10))

        #expect(inOrder(permits(from: 200, count: 3)) == permits(from: 200, count: 3))
        #expect(inOrder(permits(from: 260, count: 3)) == permits(from: 260, count: 3))
    }

    @Test func answers_ofLongAgo_areForgotten() {
        #expect(clock.isNew(at: start))
        #expect(answer(at: 0, delay: .zero) == .zero)
        #expect(!clock.isNew(at: start + PermitClock.memorySpan))
        #expect(clock.isNew(at: start + PermitClock.memorySpan + .milliseconds(1)))

        // The clocks drifted apart meanwhile.
        #expect(answer(at: 3600, delay: .milliseconds(60)) == .seconds(3600) + .milliseconds(60))
    }
}
