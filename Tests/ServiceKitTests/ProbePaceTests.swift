import ServiceKit
import Testing

@Suite struct ProbePaceTests {
    @Test func probes_comeAMinuteApartAtLeast_andNoMoreThanASpreadLater() {
        let pace = ProbePace(every: .seconds(60), spread: .seconds(15))
        for _ in 0..<200 { #expect((60_000...75_000).contains(pace.next().milliseconds)) }
    }

    /// An App Store that refuses for ten seconds and answers for ten is met in both states.
    @Test(arguments: [Int64(0), 5_000, 10_000, 19_999])
    func storeThatFailsInABeat_isMetWell(start: Int64) {
        let pace = ProbePace()
        var (now, refused, answered) = (start, 0, 0)
        for _ in 0..<60 {
            now += pace.next().milliseconds
            if now % 20_000 < 10_000 { refused += 1 } else { answered += 1 }
        }
        #expect(refused > 0)
        #expect(answered > 0)
    }

    @Test func withoutASpread_probesAreExact() {
        #expect(ProbePace(spread: .zero).next() == .seconds(60))
        #expect(ProbePace(spread: .seconds(-1)).next() == .seconds(60))
    }
}
