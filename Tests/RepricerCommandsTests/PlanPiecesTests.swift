import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// A file is judged in pieces of some thousand rows. What a row is told doesn't depend on where the others stand.
@Suite(.database) struct PlanPiecesTests {
    /// Subscriptions 1 and 2 are one customer's, due on one day.
    private static let subscriptions = """
        INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
            storefront, currency, period, app_account_token, original_purchase_at, recent_subscription_start_at,
            purchased_at, expires_at, renewal_at, items, signed_at, folded_signed_at,
            folded_evidence_id, known_since)
        SELECT i::text, repricer.bucket_of(i::text), 1, true, 'USA', 'USD', 'P1M',
            '7c80bb86-f892-4b21-a919-1357811d6c4f', '2025-06-01Z', '2025-06-01Z',
            '2026-02-01Z', '2026-03-01Z', '2026-03-01Z', items::jsonb, '2026-02-01Z', '2026-02-01Z', 'n-1', '2025-06-01Z'
        FROM (VALUES
            (1, '[{"sku":"A","currentPrice":9990,"renewalPrice":9990,"renews":true},
                  {"sku":"B","currentPrice":4990,"renewalPrice":4990,"renews":true}]'),
            (2, '[{"sku":"FAR","currentPrice":2990,"renewalPrice":2990,"renews":true}]')) s (i, items)
        """

    /// The row of B takes effect first, if its dependent on the customer's other subscription is found. Then the one of A,
    /// which is held back, needs consent.
    @Test(arguments: [0, 5000])
    func row_whoseSiblingHasADependentElsewhere_countsItWhereverItStands(between: Int) async throws
    {
        let connection = try await TestDatabase.connect()
        _ = try await connection.execute("\(unsafe: Self.subscriptions)")
        await connection.close()
        let scratch = try ScratchFolder()
        let rows =
            ["1,A,10.99,USD,,2026-06-01"]
            + (0..<between).map { "\(100 + $0),A,10.99,USD,," } + ["1,B,5.99,USD,FAR,"]
        let header =
            "original_transaction_id,sku,price,currency,dependent_skus,effective_on_or_after\n"
        let batch = try scratch.file("batch.csv", header + rows.joined(separator: "\n") + "\n")
        let url = try await TestDatabase.login("ana", memberOf: ["repricer_pricing"])

        let outcome = await run(
            "plan", batch, "--rows", "-", "--as-of", "2026-02-02T00:00:00Z", "--quiet",
            environment: ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"])

        let planned = outcome.output.split(separator: "\n")
        let first = try #require(planned.first)
        let last = try #require(planned.last)
        #expect(planned.count == rows.count)
        #expect(last.contains(#""sku":"B","code":null,"#))
        #expect(first.contains(#""sku":"A","code":null,"#))
        #expect(first.contains(#""consent":"required","reasons":["increase_within_12_months"]"#))
        #expect(first.contains(#""because":"line \#(rows.count + 1)""#))
    }
}
