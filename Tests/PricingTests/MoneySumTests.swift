import Testing

@testable import Pricing

/// A sum of prices is exact, however absurd they are, or says that it is too large to be shown.
struct MoneySumTests {
    @Test func sum_beyondAnyNumber_comesBackToOne() {
        let sum = MoneySum(.max) + MoneySum(.max) - MoneySum(.max)

        #expect((MoneySum(.max) + 1).milliunits == nil)
        #expect((MoneySum(.min) - 1).isTooLarge)
        #expect(sum.milliunits == .max)
    }

    @Test func sum_multipliedBeyondReason_neitherTrapsNorTurnsItsSign() {
        var sum = MoneySum(.max)
        for _ in 0..<10 { sum = sum.times(.max) }
        let negative = (MoneySum.zero - sum).times(.max)

        #expect(sum.isTooLarge && !sum.isNegative)
        #expect(negative.isTooLarge && negative.isNegative)
        #expect(sum.basisPoints(of: sum) == 10_000)
    }

    @Test(
        arguments: [
            (7, 1, 2, 3, 4), (-7, 1, 2, -3, -4), (10, 1, 3, 3, 3), (-10, 1, 3, -3, -3),
            (11, 1, 3, 3, 4),
            (
                9_223_372_036_854_775_807, 364, 364, 9_223_372_036_854_775_807,
                9_223_372_036_854_775_807
            ),
        ] as [(Int64, Int64, Int64, Int64, Int64)])
    func part_isCutOrRounded(sum: Int64, factor: Int64, divisor: Int64, cut: Int64, rounded: Int64)
    {
        #expect(MoneySum(sum).times(factor, over: divisor).milliunits == cut)
        #expect(MoneySum(sum).rounded(times: factor, over: divisor).milliunits == rounded)
    }

    @Test func text_ofAnyLength_isRead() {
        #expect(MoneySum("-12")?.milliunits == -12)
        #expect(MoneySum("184467440737095516150").map(\.isTooLarge) == true)
        #expect(MoneySum("1.5") == nil)
        #expect(MoneySum("") == nil)
    }

    @Test func share_ofASum_isNoneWhereItIsMoreOrLess() {
        #expect(MoneySum(1).basisPoints(of: 3) == 3333)
        #expect(MoneySum(4).basisPoints(of: 3) == nil)
        #expect(MoneySum(-1).basisPoints(of: 3) == nil)
        #expect(MoneySum(0).basisPoints(of: 0) == nil)
    }
}
