import Foundation
import Postgres
import Reports
import TestSupport
import Testing

/// What `report --format csv` writes is what a table like its view reads: the same rows, to the microsecond.
@Suite(.database) struct CSVImportTests {
    /// Facts beside the fixture that a careless format would lose: microseconds, lists with odd texts, empty texts.
    private static let odd = """
        UPDATE repricer.price_changes SET dependent_skus = ARRAY['A;B', 'C,D', 'E"F', 'NULL', ''],
            forecast_reasons = ARRAY['threshold', 'always_consent_storefront'], scheduled_at = '2026-01-03 01:02:03.456789Z'
        WHERE line = 4;
        UPDATE repricer.price_changes SET reason = '' WHERE line = 9;
        UPDATE repricer.batches SET paused_reason = E'two\\nlines, and a "quote"', is_paused = true;
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
            number, correction, amount_milliunits, currency, evidence_id, recorded_at)
        SELECT original_transaction_id, bucket, transaction_id, sku, 'charge', purchased_at, 0, 0, price_milliunits, currency,
            'e' || transaction_id, '2026-03-01 10:20:30.000001Z' FROM repricer.charges;
        INSERT INTO repricer.notifications (notification_uuid, received_at, signed_at, type, understood, unknown,
            signed_payload)
        VALUES ('n', '2026-05-31 00:00:00.123456Z', '2026-05-30Z', 'NEW', false, ARRAY['type:NEW', 'field:a b'], 'p');
        INSERT INTO repricer.extension_summaries (notification_uuid, received_at, signed_at, product_id, storefronts, succeeded,
            failed, folded_at)
        VALUES ('x', '2026-05-31Z', '2026-05-31 00:00:00.5Z', 'P', ARRAY['USA', 'DEU'], 1, 0, '2026-05-31Z');
        INSERT INTO repricer.subscriptions (original_transaction_id, bucket) SELECT n::text, repricer.bucket_of(n::text)
        FROM generate_series(1, 9) AS n;
        INSERT INTO repricer.rule_imports (revision, imported_at, imported_by, file) VALUES (2, '2026-01-01Z', 'r', 'f');
        INSERT INTO repricer.exchange_rates (currency, valid_from, revision, imported_by, recorded_at, withdrawn,
            billionths_per_euro, source)
        VALUES ('USD', '2026-01-01Z', 2, 'r', '2026-01-01Z', false, 1250000000, 'ecb');
        UPDATE repricer.batches SET holdout_basis_points = 500;
        SELECT report.close_month('2026-03', now());
        """

    @Test func everyReport_loadedWithCopy_isTheViewAgain() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(ReportFixture.everyState + Self.odd)
        let folder = try ScratchFolder()
        // Late is late by the same instant on both sides.
        try await owner.script("SET repricer.as_of = '2026-06-01Z'; SET timezone = 'Asia/Tokyo';")
        var empty: [String] = []

        for name in ReportName.allCases {
            let csv = try await ReportContractTests.render(
                ReportQuery(name, judgedAt: ReportFixture.asOf), .csv, conninfo: TestDatabase.url)
            let path = try folder.file("\(name.rawValue).csv", csv)
            try await owner.script("CREATE TABLE public.loaded (LIKE report.\(name.rawValue));")
            let loading = try await Program.run(
                URL(fileURLWithPath: "/usr/bin/psql"),
                ["-X", "-q", "-c", "\\copy loaded FROM '\(path)' CSV HEADER", TestDatabase.url])
            #expect(loading.code == 0, "\(name): \(loading.messages)")
            let differences = try await owner.query(
                """
                SELECT 'lost ' || t::text AS line
                FROM (SELECT * FROM report.\(unsafe: name.rawValue) EXCEPT ALL SELECT * FROM public.loaded) t
                UNION ALL
                SELECT 'read ' || t::text
                FROM (SELECT * FROM public.loaded EXCEPT ALL SELECT * FROM report.\(unsafe: name.rawValue)) t
                """
            ).map { try $0.text("line") }
            #expect(differences == [], "\(name)")
            if try await owner.query("SELECT FROM public.loaded LIMIT 1").isEmpty {
                empty.append(name.rawValue)
            }
            try await owner.script("DROP TABLE public.loaded;")
        }

        #expect(empty == [])
        await owner.close()
    }

    /// The one exception: a text that a spreadsheet would run. Without the apostrophe it is what it was.
    @Test func aTextThatWouldRun_isReadBack_withoutItsApostrophe() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "=1+1", rows: 1))
        await owner.close()

        let csv = try await ReportContractTests.render(
            ReportQuery(.batchSummary), .csv, conninfo: TestDatabase.url)

        #expect(csv.contains(",'=1+1,"))
    }
}
