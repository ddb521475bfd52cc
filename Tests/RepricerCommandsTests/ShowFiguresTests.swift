import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// `show` counts in the database what `plan` gathered row by row: the same figures of each of two batches, whose rows no
/// sum, list or date may mix up.
@Suite(.database) struct ShowFiguresTests {
    /// Of the stored plan; late rows are of the day.
    private static let keys = [
        "direction", "consent", "reasons", "not_known", "money_a_month", "money", "weeks", "months",
        "largest_increases", "largest_decreases", "first_send_by", "last_effective_at", "rows",
    ]
    private static let warnings = [
        "more_than_threefold", "less_than_a_third", "more_than_two_years_ahead", "ids_end_in_0",
        "stale", "consent_turns_before_send_by",
    ]
    private static let header =
        "original_transaction_id,sku,price,currency,dependent_skus,effective_on_or_after\n"

    private let ana: [String: String]
    private let ben: [String: String]
    private let scratch: ScratchFolder

    /// Sixty subscriptions of one customer, in three storefronts and periods, renewing on a few days, each at an hour of its own.
    init() async throws {
        let team = try await PricingTeam(
            subscriptions: """
                SELECT id, repricer.bucket_of(id), 1, true, (ARRAY['USA', 'DEU', 'AUT'])[i % 3 + 1],
                    (ARRAY['USD', 'EUR', 'EUR'])[i % 3 + 1], (ARRAY['P1M', 'P1Y', 'P1W', 'P3M'])[i % 4 + 1], 'generic',
                    '2024-06-01Z', 'customer', '2024-06-01Z', '2026-01-01Z', at, at,
                    '[{"sku":"PLAN","currentPrice":9990,"renewalPrice":9990,"renews":true},
                      {"sku":"ADD","currentPrice":1990,"renewalPrice":1990,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '2024-06-01Z'
                FROM generate_series(1, 60) AS i, LATERAL (
                    SELECT CASE WHEN i <= 30 THEN (2000000000000000 + i * 10)::text
                        ELSE (1000000000000000 + i)::text END AS id,
                        '2026-02-01Z'::timestamptz + make_interval(days => i / 20, hours => i % 20) AS at) AS t
                """,
            changes: """
                -- Of two nobody has heard since they should have renewed.
                UPDATE repricer.subscriptions SET renewal_at = '2025-12-20Z', expires_at = '2025-12-20Z'
                    WHERE original_transaction_id IN ('\(Self.id(13))', '\(Self.id(19))')
                """)
        try await TestDatabase.shipDefaultLimits()
        (ana, ben, scratch) = (team.ana, team.ben, team.scratch)
    }

    private static func id(_ number: Int) -> String {
        number <= 30
            ? "\(2_000_000_000_000_000 + number * 10)" : "\(1_000_000_000_000_000 + number)"
    }

    private static func row(_ number: Int, _ price: String, _ rest: String = ",") -> String {
        "\(id(number)),PLAN,\(price),\(number % 3 == 0 ? "USD" : "EUR"),\(rest)\n"
    }

    /// Fourteen increases and thirteen decreases, each of another size, the lines not in their order; exactly three
    /// times and a third, and just beyond; dependents here and on another subscription; two years ahead, and more.
    private static var spring: String {
        let prices = [
            "10.49", "29.97", "29.98", "24.99", "14.99", "11.49", "15.99", "12.99", "16.99",
            "13.49",
            "10.99", "11.99", "9.49", "3.33", "3.32", "8.99", "4.99", "7.99", "5.49", "6.49",
            "8.49",
            "7.49", "5.99", "6.99", "4.49", "9.29", "18.99",
        ]
        let rests = [
            3: "\(id(60))/PLAN,", 4: "ADD,", 6: "ADD;\(id(59))/ADD,", 7: ",2027-12-01",
            8: ",2028-06-01", 12: ",2028-06-01",
        ]
        return prices.enumerated().map { place, price in
            row(place + 1, price, rests[place + 1] ?? ",")
        }.joined()
    }

    private static var autumn: String {
        (31...44).map { number in
            row(
                number, "\(number + 11).99",
                number == 34 ? "\(id(57))/PLAN," : number == 35 ? ",2029-01-01" : ",")
        }.joined() + row(50, "1.99") + row(51, "0.99", ",2028-09-01")
    }

    private func object(_ outcome: Outcome) throws -> [String: Any] {
        try #require(
            JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any],
            "\(outcome.messages)")
    }

    private func told(_ figures: [String: Any]) -> [NSObject] {
        (figures["warnings"] as? [[String: Any]] ?? [])
            .filter { Self.warnings.contains($0["warning"] as? String ?? "") }
            .map { $0 as NSDictionary }
    }

    @Test func show_ofEachOfTwoBatches_saysWhatItsPlanSaid() async throws {
        let rows =
            "\(Self.id(1)),PLAN,2025-09-01,8.00,9.99,EUR\n\(Self.id(34)),ADD,2025-10-01,1.00,1.99,EUR\n"
            // It stops counting while its row waits for the last day to send.
            + "\(Self.id(11)),ADD,2025-01-25,1.00,1.99,EUR\n"
        let history = try scratch.file(
            "history.csv",
            "original_transaction_id,sku,increased_on,old_price,new_price,currency\n" + rows)
        #expect(await run("history", "import", history, environment: ana).code == .done)
        let batches = [("spring", Self.spring), ("autumn", Self.autumn)]
        var plans: [[String: Any]] = []
        for (name, rows) in batches {
            let file = try scratch.file("\(name).csv", Self.header + rows)
            let plan = await run("plan", file, "--json", environment: ana)
            #expect(plan.code == .done, "\(plan.messages)")
            plans.append(try object(plan))
            let submitted = await run("submit", file, "--name", name, environment: ana)
            #expect(submitted.code == .done, "\(submitted.messages)")
        }
        // More than a doubling needs two approvers: this is the first.
        _ = await run("approve", "autumn", "--yes", environment: ben)

        for ((name, _), plan) in zip(batches, plans) {
            let shown = try object(await run("show", name, "--json", environment: ana))
            for key in Self.keys {
                #expect(plan[key] as? NSObject == shown[key] as? NSObject, "\(name) \(key)")
            }
            #expect(told(plan) == told(shown), "\(name)")
            let policy = try #require(shown["policy"] as? [String: Any])
            let approvers = policy["first_approvals"] as? [String] ?? []
            #expect(approvers.map { String($0.prefix(3)) } == (name == "autumn" ? ["ben"] : []))
            #expect(policy["submitted_by_you"] as? Bool == true)
        }
        let other = try object(await run("show", "spring", "--json", environment: ben))
        #expect((other["policy"] as? [String: Any])?["submitted_by_you"] as? Bool == false)
        // The batches hold what the sums must keep apart.
        #expect(told(plans[0]).count == 6 && told(plans[1]).count == 3, "\(plans.map(told))")
        #expect((plans[0]["consent"] as? [String: Int])?.count == 4)
    }
}
