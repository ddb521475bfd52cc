import Foundation
import Postgres
import Reports
import TestSupport
import Testing

/// What ended costs a report next to nothing: it comes from what is kept beside the facts. Most costs are counted in pages that
/// the server reads, which no other load on the machine alters; two are compared in the server's processor time.
@Suite(.database) struct ReportCostTests {
    private static let changes = 4000
    private static let past = [
        "batch_summary", "revenue_impact", "charge_exception", "reconciliation", "revenue_bridge",
    ]
    private static let sums = [
        "batch_summary", "consent_funnel", "revenue_impact", "charge_exception", "revenue_bridge",
        "revenue_bridge_total", "revenue_at_risk", "pending_consent", "upcoming_effective",
        "holdout",
    ]

    /// A batch whose changes took effect and were charged twice since, and what is kept of it.
    /// `more` is done before it is kept.
    private static func fill(_ owner: PostgresConnection, more: String = "") async throws {
        try await owner.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: changes)
                + """
                SET session_replication_role = replica;
                INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku, direction,
                    currency, storefront, period, current_price_milliunits, new_price_milliunits, forecast_consent,
                    forecast_renewal_at, forecast_effective_at, send_by, due_effective_at, state, state_since, sent_at,
                    scheduled_at, accepted_at, acceptance, effective_at, ended_at, submitted_by)
                SELECT n::text, repricer.bucket_of(n::text), gen_random_uuid(), '\(ReportFixture.batch)', n, 'PLAN', 'increase',
                    'USD', 'USA', 'P1M', 9990, 12990, 'not_required', '2026-02-01Z', '2026-03-01Z', '2026-02-01Z', '2026-03-01Z',
                    'effective', '2026-03-01Z', '2026-01-03Z', '2026-01-03Z', '2026-01-20Z', 'informed', '2026-03-01Z',
                    '2026-03-01Z', 'alice'
                FROM generate_series(1, \(changes)) AS n;
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, purchased_at)
                SELECT n::text, repricer.bucket_of(n::text), 1, '2026-04-01Z' FROM generate_series(1, \(changes)) AS n;
                INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                    price_milliunits, currency, storefront)
                SELECT n::text, repricer.bucket_of(n::text), n || '-' || k, 'PLAN', '2026-01-01Z'::timestamptz + k * interval '1 month',
                    '2026-02-01Z'::timestamptz + k * interval '1 month', CASE WHEN k < 2 THEN 9990 ELSE 12990 END, 'USD', 'USA'
                FROM generate_series(1, \(changes)) AS n, generate_series(1, 3) AS k;
                INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at, number,
                    correction, amount_milliunits, currency, storefront, evidence_id)
                SELECT original_transaction_id, bucket, transaction_id, sku, 'charge', purchased_at, 0, 0, price_milliunits, currency,
                    storefront, transaction_id
                FROM repricer.charges;
                INSERT INTO repricer.stale_figures SELECT original_transaction_id, bucket FROM repricer.subscriptions;
                SET repricer.as_of = '2026-04-20Z';
                """ + more)
        try await owner.script("VACUUM ANALYZE")
        for _ in 0..<(changes / FigureKeeper.marks) {
            try await owner.script(
                """
                BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT repricer.summarise_figures(\(FigureKeeper.marks)); COMMIT
                """)
        }
        try await owner.script("VACUUM ANALYZE")
    }

    /// Runs `body` with a copy of the filled database, as of the same instant.
    private static func withFilled(
        _ body: @Sendable (PostgresConnection) async throws -> Void
    ) async throws {
        let filled = try await Filled.shared.name { try await fill($0) }
        try await TestDatabase.withAnother(of: filled) {
            let owner = try await TestDatabase.connect()
            try await owner.script(
                "SET session_replication_role = replica; SET repricer.as_of = '2026-04-20Z'")
            try await body(owner)
            await owner.close()
        }
    }

    /// How many pages the server reads for all rows.
    private static func pages(_ source: String, on owner: PostgresConnection) async throws -> Int {
        let rows = try await owner.query(
            "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT * FROM \(unsafe: source)"
        ).map { try $0.text("QUERY PLAN") }
        let line = try #require(rows.first { $0.contains("Buffers: shared") })
        return line.matches(of: /(?:hit|read)=(\d+)/).compactMap { Int($0.1) }.reduce(0, +)
    }

    @Test func report_ofABatchThatEnded_readsNoFactsOfIt() async throws {
        try await Self.withFilled { owner in
            for name in Self.sums {
                let batch = "WHERE batch_id = '\(ReportFixture.batch)'"
                let read = try await Self.pages("report.\(name) \(batch)", on: owner)
                #expect(read < Self.changes / 2, "\(name) reads \(read) pages")
                let all = try await Self.pages("report.\(name)", on: owner)
                #expect(all < Self.changes / 2, "\(name) of everything reads \(all) pages")
            }
            let closing = try await owner.query(
                "SELECT sum(closing_milliunits)::bigint AS sum FROM report.revenue_bridge"
            ).one().int64("sum")
            #expect(closing == Int64(Self.changes) * (9990 + 9990 + 12990 + 12990))
        }
    }

    /// What the App Store has, and what customers are asked about, is kept for the bridge as what ended is.
    @Test(arguments: ["scheduled", "pending_consent", "accepted"])
    func revenueBridge_ofABatchThatIsUnderWay_readsNoFactsOfIt(state: String) async throws {
        let owner = try await TestDatabase.connect()
        try await Self.fill(
            owner,
            more: """
                UPDATE repricer.price_changes SET state = '\(state)', ended_at = NULL, effective_at = NULL;
                UPDATE repricer.charges SET price_milliunits = 9990;
                """)

        let read = try await Self.pages(
            "report.revenue_bridge WHERE batch_id = '\(ReportFixture.batch)'", on: owner)

        #expect(read < Self.changes / 2, "it reads \(read) pages")
        let kept = try await ReportFixture.moves("bridge_moves", at: "2026-04-20Z", on: owner)
        let facts = try await ReportFixture.moves("revenue_moves", at: "2026-04-20Z", on: owner)
        #expect(kept == facts)
        #expect(kept.contains("2026-04-01"))
        await owner.close()
    }

    /// The processor time, in hundredths of a second, that the server spends for `owner` to count the moves of so many
    /// subscriptions from the facts, so many times over. What other processes of the machine do is not in it; what is read and
    /// compiled at a first time is not either.
    private static func processorTime(
        _ count: Int, times: Int, _ batch: String = "NULL", on owner: PostgresConnection
    ) async throws -> Int {
        let server = try await owner.query("SELECT pg_backend_pid() AS pid").one().int("pid")
        let moves: SQL = """
            SELECT count(*) FROM repricer.moves_of(
                ARRAY(SELECT original_transaction_id FROM repricer.price_changes LIMIT \(count)),
                array_fill('2026-04-20Z'::timestamptz, ARRAY[\(count)::integer]), \(unsafe: batch))
            """
        _ = try await owner.query(moves)
        let start = try spent(by: server)
        for _ in 0..<times { _ = try await owner.query(moves) }
        return try spent(by: server) - start
    }

    /// The user and system time of a process so far: fields 14 and 15 of `proc_pid_stat(5)`. The name before them may hold spaces.
    private static func spent(by process: Int) throws -> Int {
        let line = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        let afterName = try #require(line.lastIndex(of: ")"))
        let fields = line[afterName...].split(separator: " ")
        return try #require(Int(fields[12])) + #require(Int(fields[13]))
    }

    /// What is counted from the facts costs each subscription the same, however many there are: of a batch, too.
    @Test func revenueBridge_ofFacts_isCountedOnceForEachSubscription() async throws {
        try await Self.withFilled { owner in
            let all = try await Self.processorTime(Self.changes, times: 3, on: owner)
            let batch = try await Self.processorTime(
                Self.changes, times: 3, "'\(ReportFixture.batch)'", on: owner)

            #expect(batch < all * 5, "\(batch) of a batch, \(all) of the same without its name")
        }
    }

    /// Ten times as many subscriptions take some ten times as long, and not a hundred times.
    @Test func figures_ofManySubscriptions_areCountedOneByOne() async throws {
        try await Self.withFilled { owner in
            // Some were charged twice for one period, and given one of the two back.
            try await owner.script(
                """
                INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                    price_milliunits, currency, storefront, refunded_milliunits)
                SELECT original_transaction_id, bucket, 'second-' || transaction_id, sku, purchased_at, expires_at,
                    price_milliunits, currency, storefront, price_milliunits
                FROM repricer.charges WHERE transaction_id LIKE '%0-3'
                """)
            let few = try await Self.processorTime(Self.changes / 10, times: 30, on: owner)
            let many = try await Self.processorTime(Self.changes, times: 3, on: owner)

            #expect(many < few * 2, "\(many) of all, \(few) of ten times a tenth")
        }
    }

    /// Neither sorts the changes of a batch again: outcomes of forecasts are summed, and this batch holds nobody out.
    @Test(arguments: ["forecast_accuracy", "holdout"])
    func report_ofABatchThatEnded_readsNoChange(name: String) async throws {
        try await Self.withFilled { owner in
            let read = try await Self.pages(
                "report.\(name) WHERE batch_id = '\(ReportFixture.batch)'", on: owner)

            #expect(read < Self.changes / 40, "\(name) reads \(read) pages")
        }
    }

    /// What other batches wait to be summed costs a search for each mark, and not the facts behind it.
    @Test func report_ofABatch_readsNoFactsOfWhatIsMarkedElsewhere() async throws {
        try await Self.withFilled { owner in
            try await owner.script(
                "INSERT INTO repricer.stale_figures SELECT original_transaction_id, bucket FROM repricer.subscriptions;"
            )
            try await owner.script("ANALYZE repricer.stale_figures")
            let other = "00000000-0000-4000-8000-00000000feed"
            try await owner.script(ReportFixture.batchSQL(other, name: "autumn", rows: 1))

            for name in ["revenue_impact", "charge_exception", "money"] {
                let read = try await Self.pages(
                    "report.\(name) WHERE batch_id = '\(other)'", on: owner)
                #expect(read < Self.changes * 8, "\(name) reads \(read) pages")
                let marked = try await Self.pages(
                    "report.\(name) WHERE batch_id = '\(ReportFixture.batch)'", on: owner)
                #expect(
                    marked > Self.changes * 8,
                    "\(name) reads only \(marked) pages of what is marked")
            }
        }
    }

    /// A burst of marks, after statistics found none: rows are found by keys, and not by comparing each with each, which takes hours
    /// for 100,000.
    @Test func report_afterABurstOfMarks_comparesNoRowWithEach() async throws {
        try await Self.withFilled { owner in
            let burst =
                "INSERT INTO repricer.stale_figures SELECT original_transaction_id, bucket FROM repricer.subscriptions;"
            try await owner.script(burst + "DELETE FROM repricer.stale_figures")
            // Its pages stay, as they do where somebody reads meanwhile.
            try await owner.script("VACUUM (ANALYZE, TRUNCATE FALSE) repricer.stale_figures")
            try await owner.script(burst)

            for name in ReportName.allCases {
                let batch = name.hasBatches ? " WHERE batch_id = '\(ReportFixture.batch)'" : ""
                let compared = try await Self.compared("report.\(name.rawValue)\(batch)", on: owner)
                #expect(
                    compared < Self.changes * 20,
                    "\(name.rawValue) compares \(compared) pairs of rows")
            }
        }
    }

    /// The newest batch is one that statistics do not know for some time. It would be taken for one row.
    @Test func batch_thatStatisticsDoNotKnow_isTakenForOneOfTwoHundred() async throws {
        try await Self.withFilled { owner in
            let tables = try await owner.query(
                """
                SELECT c.relname::text AS name, (c.reltuples / 200)::bigint AS share FROM pg_class c
                JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'batch_id'
                JOIN pg_attribute b ON b.attrelid = c.oid AND b.attname = 'bucket'
                WHERE c.relnamespace = 'repricer'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
                """)

            #expect(tables.count >= 7)
            for table in tables {
                let name = try table.text("name")
                let plan = try await owner.query(
                    "EXPLAIN SELECT FROM repricer.\(unsafe: name) WHERE batch_id = '00000000-0000-4000-8000-00000000feed'"
                ).map { try $0.text("QUERY PLAN") }
                let rows = plan.first?.firstMatch(of: /rows=(\d+)/).flatMap { Int64($0.1) }
                #expect(try (rows ?? 0) >= table.int64("share"), "\(name): \(plan)")
            }
        }
    }

    /// How many pairs of rows a plan compares in vain.
    private static func compared(_ source: String, on owner: PostgresConnection) async throws -> Int
    {
        try await owner.query(
            "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM \(unsafe: source)"
        ).map { try $0.text("QUERY PLAN") }
            .compactMap {
                $0.firstMatch(of: /Rows Removed by (?:Join )?Filter: (\d+)/).flatMap { Int($0.1) }
            }
            .reduce(0, +)
    }

    /// Nothing was recorded since: what is kept is what was known. Before it was, all is counted from the facts, which
    /// shows that the bound means something.
    @Test func reportOfThePast_sinceWhichNothingWasRecorded_readsWhatIsKept() async throws {
        try await Self.withFilled { owner in
            let (before, since) = try await Self.instants(owner)

            for name in Self.past {
                let now = try await Self.pages(
                    "report.\(name)_as_of('\(since)', '\(ReportFixture.batch)')", on: owner)
                #expect(now < Self.changes * 12, "\(name) reads \(now) pages")
            }
            let facts = try await Self.pages(
                "report.revenue_impact_as_of('\(before)', '\(ReportFixture.batch)')", on: owner)
            #expect(facts > Self.changes * 20)
        }
    }

    /// A large batch of the past is counted in shares, by as many workers as the server lends. None of it may be left out, or
    /// counted twice, and they must be asked for in a way that lets workers take them.
    @Test func reportOfThePast_ofALargeBatch_isCountedInSharesAndSaysTheSame() async throws {
        try await Self.withFilled { owner in
            // Something is wrong on either side of each bound.
            try await owner.script(
                "UPDATE repricer.charges SET price_milliunits = 11990 WHERE transaction_id LIKE '%-3' AND bucket % 7 IN (0, 6)"
            )
            let at = try await owner.query(
                "SELECT max(recorded_at)::text AS at FROM repricer.charges"
            )
            .one().text("at")
            let names = ["revenue_impact", "charge_exception", "revenue_bridge", "reconciliation"]
            func rows(workers: Int) async throws -> [String] {
                try await owner.script("SET max_parallel_workers_per_gather = \(workers)")
                var found: [String] = []
                for name in names {
                    found += try await owner.query(
                        "SELECT v::text AS row FROM report.\(unsafe: name)_as_of('\(unsafe: at)') v ORDER BY 1"
                    ).map { "\(name) \(try $0.text("row"))" }
                }
                return found
            }
            let atOnce = try await rows(workers: 0)

            #expect(atOnce.count { $0.hasPrefix("charge_exception") } > Self.changes / 7)
            #expect(atOnce.count { $0.hasPrefix("revenue_bridge") } > 1)
            #expect(try await rows(workers: 2) == atOnce)
            for share in [
                "repricer.live_change_figures_share_at('\(at)', NULL, 0, 63)",
                "repricer.live_charge_exceptions_share_at('\(at)', NULL, 0, 63)",
                "repricer.moves_of_at('\(at)', '{1}', '{\(at)}', NULL)",
            ] {
                let plan = try await owner.query(
                    "EXPLAIN SELECT * FROM \(unsafe: share) UNION ALL SELECT * FROM \(unsafe: share)"
                ).map { try $0.text("QUERY PLAN") }.joined(separator: "\n")
                #expect(plan.contains("Parallel Append"), "\(plan)")
            }
            for (function, bound, wrong) in [
                ("live_change_figures_of_batch_at(timestamptz, uuid)", "21, 41", "22, 41"),
                ("live_charge_exceptions_of_batch_at(timestamptz, uuid)", "42, 63", "41, 63"),
                ("bridge_moves_at(timestamptz, uuid)", "v_second + 1:", "v_second + 2:"),
            ] {
                let text = try await owner.query(
                    "SELECT pg_get_functiondef('repricer.\(unsafe: function)'::regprocedure) AS text"
                ).one().text("text")
                try await owner.script("BEGIN; " + text.replacing(bound, with: wrong))
                #expect(try await rows(workers: 2) != atOnce, "\(function)")
                try await owner.script("ROLLBACK")
            }
        }
    }

    /// Before all this was recorded, and now.
    private static func instants(
        _ owner: PostgresConnection
    ) async throws -> (before: String, since: String) {
        let row = try await owner.query(
            """
            SELECT (min(recorded_at) - interval '1 second')::text AS before, clock_timestamp()::text AS since
            FROM repricer.charges
            """
        ).one()
        return (try row.text("before"), try row.text("since"))
    }
}

/// The filled database, which every test gets a copy of: to keep its figures takes seconds.
private actor Filled {
    static let shared = Filled()
    private var template: Task<String, any Error>?

    func name(
        _ fill: @escaping @Sendable (PostgresConnection) async throws -> Void
    ) async throws -> String {
        if let template { return try await template.value }
        let task = Task { try await TestDatabase.makeTemplate(fill) }
        template = task
        return try await task.value
    }
}
