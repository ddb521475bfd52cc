import Testing

@testable import Pricing

/// The increase in hundredths of a per cent, as reports round it, and the rule of half the price, which rounds nothing.
@Suite struct IncreaseShareTests {
    private func question(_ current: Int64, _ new: Int64) -> ConsentQuestion {
        ConsentQuestion(
            storefront: "USA", currency: "USD", period: .month, currentPrice: current,
            newPrice: new, now: Instant(milliseconds: 0))
    }

    @Test(
        arguments: [
            (10_000, 10_000, 0), (10_000, 15_000, 5000), (30_000, 40_000, 3333),
            (30_000, 50_000, 6667), (80_000, 80_004, 1), (80_000, 80_003, 0), (1, 2, 10_000),
            (1, 3, 20_000), (3, 4, 3333), (2, 3, 5000), (16_000, 16_001, 1), (16_000, 16_003, 2),
        ] as [(Int64, Int64, Int64)])
    func basisPoints_areRoundedHalfUp(current: Int64, new: Int64, expected: Int64) {
        #expect(question(current, new).basisPoints == expected)
    }

    @Test(
        arguments: [
            (0, 1), (0, 0), (5000, .max), (4999, .max), (10_000, 9999), (1, .max),
        ] as [(Int64, Int64)])
    func basisPoints_ofNoShareThatFits_areNone(current: Int64, new: Int64) {
        let points = question(current, new).basisPoints

        // A price of 5000 milliunits or more leaves room for any increase.
        #expect(points == nil || (current == 5000 && new == .max))
    }

    @Test(
        arguments: [
            (10_000, 15_000, false), (10_000, 15_001, true), (10_000, 20_000, true),
            (10_001, 15_001, false), (10_001, 15_002, true), (1, .max, true), (0, 1, true),
            (.max - 1, .max, false),
        ] as [(Int64, Int64, Bool)])
    func half_ofThePrice_isNotOver(current: Int64, new: Int64, isOver: Bool) {
        #expect(question(current, new).isPercentOver == isOver)
    }
}
