import Foundation
import Testing

@testable import Pricing

/// The dates of a plan against a slow reading of the rules that shares no code with them: Foundation's
/// calendar steps from the start of the subscription, and every renewal is tried in turn.
@Suite struct SlowDatesTests {
    private static let day: Int64 = 86_400_000
    private static let calendar: Calendar = {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(secondsFromGMT: 0) ?? .gmt
        return calendar
    }()

    private struct Case {
        let facts: SubscriptionFacts
        let row: BatchRow
        let consent: Consent
        let now: Instant
        let renewals: [Instant]
    }

    private static func renewals(
        from start: Date, period: String, first: Int, count: Int
    ) -> [Instant] {
        let (unit, size): (Calendar.Component, Int) =
            switch period {
            case "P1W": (.day, 7)
            case "P1M": (.month, 1)
            case "P2M": (.month, 2)
            case "P3M": (.month, 3)
            case "P6M": (.month, 6)
            default: (.year, 1)
            }
        return (first..<first + count).compactMap { index in
            calendar.date(byAdding: unit, value: size * index, to: start).map {
                Instant(milliseconds: Int64($0.timeIntervalSince1970.rounded()) * 1000)
            }
        }
    }

    private static func make(seed: UInt64) -> Case {
        var random = SeededGenerator(seed: seed)
        // 2020 to 2032, so that the renewals tried stay before 2050 even for annual plans.
        let start = Date(
            timeIntervalSince1970: Double(
                Int64.random(in: 1_577_836_800...1_956_528_000, using: &random)))
        let period = ["P1W", "P1M", "P2M", "P3M", "P6M", "P1Y"][
            Int.random(in: 0...5, using: &random)]
        let first = Int.random(in: 1...12, using: &random)
        let renewals = renewals(from: start, period: period, first: first, count: 60)
        let consent = [Consent.required, .notKnown, .notRequired, .none][
            Int.random(in: 0...3, using: &random)]
        let price: Int64 =
            switch consent {
            case .required: 200_000
            case .notKnown, .notRequired: 81_000
            case .none: 60_000
            }
        // From two months before the last known renewal to three months after it: late facts, too.
        let now = renewals[0].advanced(by: Int64.random(in: -60 * day...90 * day, using: &random))
        let onOrAfter =
            Bool.random(using: &random)
            ? now.advanced(by: Int64.random(in: 0...300 * day, using: &random)).text.prefix(10)
            : nil
        return Case(
            facts: .make(
                period: period, renewalAt: renewals[0].text,
                startedAt: Instant(milliseconds: Int64(start.timeIntervalSince1970) * 1000).text,
                price: 80_000
            ) {
                if consent == .notKnown { $0.knownSince = nil }
            },
            row: .make(price, onOrAfter: onOrAfter.map { String($0) }), consent: consent, now: now,
            renewals: renewals)
    }

    /// The index of the renewal that must be met and of the one that charges, tried one by one.
    private static func slowly(_ item: Case, lead: Int64) -> (met: Int, charged: Int)? {
        let isFourth = item.consent == .notRequired && item.facts.period == "P1W"
        let margin = isFourth ? day : max(lead, day)
        for index in item.renewals.indices {
            let charged = isFourth ? index + 3 : index
            guard item.renewals.indices.contains(charged) else { return nil }
            let isInTime = item.now.milliseconds <= item.renewals[index].milliseconds - margin
            let isLateEnough =
                item.row.effectiveOnOrAfter.map { item.renewals[charged] >= $0.startAt } ?? true
            if isInTime && isLateEnough { return (index, charged) }
        }
        return nil
    }

    private static func leadDays(_ item: Case) -> Int64 {
        switch (item.consent, item.facts.period) {
        case (.none, _): 0
        case (.notRequired, _): 27
        case (.required, "P1W"), (.notKnown, "P1W"): 7
        case (.required, "P1M"), (.notKnown, "P1M"): 27
        case (.required, _), (.notKnown, _): 60
        }
    }

    @Test(arguments: 1...400 as ClosedRange<UInt64>)
    func dates_onRandomSubscriptions_agreeWithASlowCalculation(seed: UInt64) throws {
        let item = Self.make(seed: seed)
        let lead = Self.leadDays(item) * Self.day
        let expected = try #require(Self.slowly(item, lead: lead))

        let plan = Judge.make(now: item.now).one(item.row, item.facts)

        let effectiveAt = item.renewals[expected.charged]
        let margin =
            item.consent == .notRequired && item.facts.period == "P1W"
            ? Self.day : max(lead, Self.day)
        #expect(plan.consent == item.consent, "seed \(seed)")
        #expect(plan.renewalAt == item.renewals.first { $0 >= item.now }, "seed \(seed)")
        #expect(plan.effectiveAt == effectiveAt, "seed \(seed)")
        #expect(plan.sendBy == item.renewals[expected.met].advanced(by: -margin), "seed \(seed)")
        let notice = max(item.now, effectiveAt.advanced(by: -lead))
        #expect(plan.noticeAt == (item.consent == Consent.none ? nil : notice), "seed \(seed)")
    }
}
