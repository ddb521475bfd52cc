import Testing

@testable import Orchestrator

/// Where reserved slots lie on the clock of the process that keeps them.
struct SlotClockTests {
    private let clock = SlotClock()
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

    @Test func anAnswer_thatWasHeldUp_putsNoSlotOff() {
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

    /// What was reserved before the step may still leave: slots are used again once it has, and its window passed.
    @Test func aClock_thatWasSetForward_isDoubtedForAWhile() {
        for quarter in 0..<8 {
            #expect(answer(at: Double(quarter) / 4, delay: .milliseconds(1 + quarter % 3)) != nil)
        }
        let step = Duration.milliseconds(30)

        for quarter in 8..<14 {
            #expect(answer(at: Double(quarter) / 4, delay: .zero, clockIsAheadBy: step) == nil)
        }
        #expect(answer(at: 3.75, delay: .zero, clockIsAheadBy: step) == .milliseconds(3750))
    }

    @Test func answers_quickerByAMoment_areBelieved() {
        for quarter in 0..<8 { _ = answer(at: Double(quarter) / 4, delay: .milliseconds(11)) }

        #expect(answer(at: 2, delay: .milliseconds(2)) == .milliseconds(2002))
    }

    @Test func answers_ofLongAgo_areForgotten() {
        #expect(clock.isNew(at: start))
        #expect(answer(at: 0, delay: .zero) == .zero)
        #expect(!clock.isNew(at: start + SlotClock.memorySpan))
        #expect(clock.isNew(at: start + SlotClock.memorySpan + .milliseconds(1)))

        // The clocks drifted apart meanwhile.
        #expect(answer(at: 3600, delay: .milliseconds(60)) == .seconds(3600) + .milliseconds(60))
    }
}
