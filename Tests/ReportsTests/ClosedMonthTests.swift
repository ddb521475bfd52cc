import Postgres
import Reports
import ServiceKit
import TestSupport
import Testing

/// A month that finance has closed keeps its figures, and what comes later stands beside them.
@Suite(.database) struct ClosedMonthTests {
    private static let ledger = """
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
            number, correction, amount_milliunits, currency, evidence_id)
        SELECT original_transaction_id, bucket, transaction_id, sku, 'charge', purchased_at, 0, 0, price_milliunits, currency,
            'e' || transaction_id FROM repricer.charges ON CONFLICT DO NOTHING;
        """
    /// 2026-04-02T00:00:00Z.
    private static let april: Int64 = 1_775_088_000_000

    private static func close(_ month: String, as conninfo: String) async throws -> Int64 {
        let connection = try await PostgresConnection.connect(conninfo, applicationName: "test")
        let result: Result<Int64, any Error>
        do {
            result = .success(
                try await connection.transaction {
                    try ClosedMonthQueries.close(month, at: april, on: $0)
                })
        } catch {
            result = .failure(error)
        }
        await connection.close()
        return try result.get()
    }

    private static func told() async throws -> [String] {
        let owner = try await TestDatabase.connect()
        let lines = try await owner.query(
            """
            SELECT concat_ws(' ', month, currency, coalesce(batch_name, '-'), kind, closed_milliunits, restated_milliunits,
                known_milliunits) AS line
            FROM report.closed_period ORDER BY month, currency, batch_name, kind
            """
        ).map { try $0.text("line") }
        await owner.close()
        return lines
    }

    @Test func closedMonth_keepsItsFigures_andLaterStatementsAreRestatements() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            ReportFixture.everyState + ReportFixture.charge("9", "2026-03-02Z", 700) + Self.ledger)
        let lead = try await TestDatabase.login("lea", memberOf: ["repricer_finance_lead"])

        let figures = try await Self.close("2026-03", as: lead)

        // 12.990, 5.990 and twice 1.990; the uplift is 3.000 and 1.000 less twice 1.000.
        let closed = [
            "2026-03-01 USD spring charge 22960 0 22960",
            "2026-03-01 USD spring uplift 2000 0 2000",
            "2026-03-01 USD - charge 700 0 700",
        ]
        #expect(figures == 3)
        #expect(try await Self.told() == closed)

        try await owner.script(
            """
            UPDATE repricer.charges SET refunded_milliunits = 12990 WHERE transaction_id = '1-2026-03-01Z';
            INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
                number, correction, amount_milliunits, currency, evidence_id)
            VALUES ('1', repricer.bucket_of('1'), '1-2026-03-01Z', 'PLAN', 'refund', '2026-03-31T23:59:59Z', 0, 0, -12990,
                'USD', 'r');
            """ + ReportFixture.charge("2", "2026-03-31Z", 5990)
                + ReportFixture.charge("2", "2026-04-01Z", 5990) + Self.ledger)

        #expect(
            try await Self.told() == [
                "2026-03-01 USD spring charge 22960 5990 28950",
                "2026-03-01 USD spring refund 0 -12990 -12990",
                "2026-03-01 USD spring uplift 2000 -2000 0", "2026-03-01 USD - charge 700 0 700",
            ])
        let audited = try await owner.query(
            "SELECT object || ' ' || actor AS line FROM repricer.audit_trail WHERE action = 'close_month'"
        ).map { try $0.text("line") }
        #expect(audited == ["month:2026-03 \(TestDatabase.loginName("lea"))"])
        await owner.close()
    }

    /// More than 64 bits hold: nothing is closed, printed or kept that is wrong, and who asks reads which sum it is.
    /// In a rehearsal the checks that `close-month` names are those that `report reconciliation` names: what is late is late by
    /// the virtual clock.
    @Test func failedChecks_areJudgedByTheVirtualClock() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1)
                + ReportFixture.Change(
                    subscription: "1", line: 1, old: 9990, new: 12990, consent: "required",
                    state: "scheduled"
                ).sql)
        func isSilent(at day: String) async throws -> Bool {
            let judgedAt = try #require(RFC3339.parse("\(day)T00:00:00Z"))
            return try await owner.transaction {
                try ClosedMonthQueries.failedChecks(
                    judgedAt: judgedAt, on: $0
                ).map(\.name).contains("silent_past_renewal")
            }
        }

        #expect(try await !isSilent(at: "2020-01-01"))
        #expect(try await isSilent(at: "2030-01-01"))
        await owner.close()
    }

    @Test func sums_beyond64Bits_areRefusedByName_andStopNothingElse() async throws {
        let owner = try await TestDatabase.connect()
        let most = 1_000_000_000_000_000
        let lives = ["1", "2"].map { id in
            ReportFixture.Change(
                subscription: id, line: Int(id) ?? 0, old: 9990, new: most, consent: "required",
                state: "effective", effective: "2026-03-01Z"
            ).sql + ReportFixture.charge(id, "2026-03-01Z", most)
        }
        try await owner.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 2) + lives.joined()
                + ReportFixture.charge("3", "2026-02-01Z", most) + Self.ledger
                // Older databases have charges of more money than is believed today.
                + "UPDATE repricer.charges SET quantity = 9000;"
                + "UPDATE repricer.money_entries SET amount_milliunits = 9000 * amount_milliunits;"
                + "INSERT INTO repricer.stale_figures SELECT original_transaction_id, bucket FROM repricer.price_changes;"
        )

        #expect(try await Self.close("2026-02", as: TestDatabase.url) == 1)
        let error = await #expect(throws: PostgresError.self) {
            try await Self.close("2026-03", as: TestDatabase.url)
        }
        #expect(error?.sqlState?.code == "22003")
        let sums = [
            "charge add up to 18000000000000000000", "uplift add up to 17999999999820180000",
        ]
        #expect(
            sums.map {
                "month 2026-03 cannot be closed: its lines of USD, \($0) milliunits, which is more than a figure can hold"
            }.contains(error?.message ?? ""))
        try await owner.script(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT repricer.summarise_figures(100); COMMIT;"
        )
        let kept = try await owner.query(
            "SELECT max(new_total)::text AS line FROM repricer.figure_tallies"
        ).map { try $0.text("line") }
        #expect(kept == ["18000000000000000000"])
        let refused = await #expect(throws: ReportError.self) {
            try await ReportContractTests.render(
                ReportQuery(.revenueImpact), .csv, conninfo: TestDatabase.url)
        }
        #expect(
            "\(refused, default: "")".hasPrefix(
                "report revenue_impact has a sum of more than 2^63"))
        // The lines themselves are told, and their sum is exact.
        let table = try await ReportContractTests.render(
            ReportQuery(.money), .table, conninfo: TestDatabase.url)
        #expect(table.contains("27,000,000,000,000,000.00"))
        await owner.close()
    }

    @Test(arguments: [
        ("2026-04", "55000", "month 2026-04 is not over: it ends at 2026-05-01T00:00:00Z"),
        ("2026-05", "55000", "month 2026-05 has not begun"),
        ("2026-13", "22023", "2026-13 is no month"), ("2026-3", "22023", "2026-3 is no month"),
        ("0000-01", "22023", "0000-01 is no month"),
        ("2026-02", "55000", "month 2026-02 was closed at 2026-04-02T00:00:00Z by postgres"),
    ])
    func month_thatCannotBeClosed_isRefused(month: String, state: String, why: String) async throws
    {
        _ = try await Self.close("2026-02", as: TestDatabase.url)

        let error = await #expect(throws: PostgresError.self) {
            try await Self.close(month, as: TestDatabase.url)
        }

        #expect(error?.sqlState?.code == state)
        #expect(error?.message?.hasPrefix(why) == true)
    }

    /// Lines of the App Store of March, as if told a moment ago.
    private static func line(_ id: String, _ amount: Int) -> String {
        """
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at, number,
            correction, amount_milliunits, currency, evidence_id)
        VALUES ('1', repricer.bucket_of('1'), '\(id)', 'PLAN', 'charge', '2026-03-03Z', 0, 0, \(amount), 'USD', '\(id)');
        """
    }

    /// The month is counted between what was recorded before and what is recorded later.
    @Test func closedMonth_isWhatWasKnownAtItsInstant_thoughMoneyIsBeingRecorded() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.service_controls SET is_rehearsal = true, clock_rate = 1, clock_origin = clock_timestamp(),
                clock_start = '2026-04-02Z'
            """)
        let recorder = try await TestDatabase.connect()
        try await recorder.script("BEGIN;" + Self.line("a", 1))

        async let closing = Self.close("2026-03", as: TestDatabase.url)
        try await eventually("the closing waits for the one who records") {
            try await owner.query(
                "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'ShareLock') AS waits"
            ).one().bool("waits")
        }
        try await recorder.script("COMMIT")
        #expect(try await closing == 1)
        try await recorder.script(Self.line("b", 2))

        #expect(try await Self.told() == ["2026-03-01 USD - charge 1 2 3"])
        let asOf = try await owner.query(
            """
            SELECT sum(amount_milliunits)::bigint AS sum
            FROM report.money_as_of((SELECT closed_at FROM repricer.closed_months))
            """
        ).one().int64("sum")
        #expect(asOf == 1)
        for connection in [owner, recorder] { await connection.close() }
    }

    @Test func closing_whileARecordingStaysOpen_isRefused_andInAnOlderSnapshotToo() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "ALTER FUNCTION report.close_month(text, timestamptz) SET lock_timeout = '20ms'")
        let recorder = try await TestDatabase.connect()
        try await recorder.script("BEGIN;" + Self.line("a", 1))

        let open = await #expect(throws: PostgresError.self) {
            try await Self.close("2026-03", as: TestDatabase.url)
        }
        let old = await #expect(throws: PostgresError.self) {
            try await owner.script(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT report.close_month('2026-03', now())"
            )
        }
        try await owner.script("ROLLBACK")
        try await recorder.script("COMMIT")

        #expect(
            open?.message?.hasPrefix("month 2026-03 is not closed: a transaction that records")
                == true)
        #expect(old?.message?.hasPrefix("a month is closed in a transaction of its own") == true)
        #expect(try await Self.close("2026-03", as: TestDatabase.url) == 1)
        await owner.close()
        await recorder.close()
    }

    /// While the transaction of a closing is open nobody records: the server ends one that somebody leaves open.
    @Test func closing_thatIsLeftOpen_isEndedByTheServer() async throws {
        let owner = try await TestDatabase.connect()
        func limit() async throws -> String? {
            try await owner.query(
                "SELECT current_setting('idle_in_transaction_session_timeout') AS text"
            ).one().textOrNil("text")
        }
        let before = try await limit()
        try await owner.script("BEGIN; SELECT report.close_month('2026-03', now())")
        let meanwhile = try await limit()
        try await owner.script("ROLLBACK; SET idle_in_transaction_session_timeout = '1s'")
        try await owner.script("BEGIN; SELECT report.close_month('2026-03', now())")

        #expect(before == "0" && meanwhile == "5s")
        #expect(try await limit() == "1s")
        await owner.close()
    }

    @Test(arguments: ["repricer_finance", "repricer_pricing", "repricer_service"])
    func whoDoesNotLeadFinance_closesNothing(role: String) async throws {
        let user = try await TestDatabase.login("fin", memberOf: [role])

        let error = await #expect(throws: PostgresError.self) {
            try await Self.close("2026-02", as: user)
        }

        #expect(error?.sqlState == .insufficientPrivilege)
        #expect(error?.message?.contains("members of repricer_finance_lead") == true)
    }
}
