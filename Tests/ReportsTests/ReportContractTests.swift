import Postgres
import Reports
import Synchronization
import TestSupport
import Testing

@Suite(.database) struct ReportContractTests {
    private final class Pieces: Sendable {
        let text = Mutex("")
    }

    static func render(
        _ query: ReportQuery, _ format: ReportFormat, conninfo: String
    ) async throws -> String {
        let pool = PostgresPool(conninfo: conninfo, applicationName: "test", size: 1)
        let result: Result<String, any Error>
        do {
            let pieces = Pieces()
            try await writeReport(query, format: format, from: ReportStore(pool: pool)) { piece in
                pieces.text.withLock { $0 += piece }
            }
            result = .success(pieces.text.withLock { $0 })
        } catch {
            result = .failure(error)
        }
        await pool.close()
        return try result.get()
    }

    @Test(arguments: ReportName.allCases)
    func render_whenTablesAreEmpty_worksInEveryFormat(name: ReportName) async throws {
        for format in ReportFormat.allCases {
            let text = try await Self.render(
                ReportQuery(name), format, conninfo: TestDatabase.url)

            #expect(text.utf8.last == UInt8(ascii: "\n"))
        }
    }

    /// The dictionary holds every report and the database's own word for each column.
    @Test func describe_always_hasWordsForAll() async throws {
        let pool = PostgresPool(
            conninfo: TestDatabase.url, applicationName: "test", size: 1)
        let reports = try await ReportStore(pool: pool).describe(ReportName.allCases)
        await pool.close()

        #expect(reports.map(\.name) == ReportName.allCases)
        #expect(reports.allSatisfy { !$0.meaning.isEmpty && !$0.columns.isEmpty })
        #expect(reports.flatMap(\.columns).allSatisfy { !$0.meaning.isEmpty })
    }

    @Test func views_always_haveNamesForEveryReportAndWordsForEveryColumn() async throws {
        let connection = try await TestDatabase.connect()
        let views = try await connection.query(
            """
            SELECT c.relname::text AS name, obj_description(c.oid) IS NOT NULL AS has_word
            FROM pg_class c WHERE c.relnamespace = 'report'::regnamespace AND c.relkind = 'v'
            """)
        let silent = try await connection.query(
            """
            SELECT a.attname::text AS name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
            WHERE c.relnamespace = 'report'::regnamespace AND a.attnum > 0
                AND col_description(c.oid, a.attnum) IS NULL
            """)

        #expect(
            Set(try views.map { try $0.text("name") }) == Set(ReportName.allCases.map(\.rawValue)))
        #expect(try views.allSatisfy { try $0.bool("has_word") })
        #expect(silent.isEmpty)
        await connection.close()
    }

    @Test func columns_whenMoneyOrInstant_haveTheTypesOfTheContract() async throws {
        let connection = try await TestDatabase.connect()
        let wrong = try await connection.query(
            """
            SELECT table_name || '.' || column_name AS name FROM information_schema.columns c
            WHERE table_schema = 'report' AND (
                (column_name LIKE '%\\_milliunits' AND (data_type <> 'bigint' OR NOT EXISTS (
                    SELECT FROM information_schema.columns o WHERE o.table_schema = 'report'
                        AND o.table_name = c.table_name AND o.column_name = 'currency')))
                OR (column_name LIKE '%\\_at') <> (data_type = 'timestamp with time zone')
                OR data_type NOT IN ('bigint', 'text', 'boolean', 'uuid', 'date', 'ARRAY',
                    'timestamp with time zone'))
            """)

        #expect(try wrong.map { try $0.text("name") } == [])
        await connection.close()
    }

    @Test func finance_whenLoggedIn_readsEveryReportAndNothingElse() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(ReportFixture.everyState)
        let relations = try await owner.query(
            """
            SELECT c.relname::text AS name FROM pg_class c
            WHERE c.relnamespace = 'repricer'::regnamespace AND c.relkind IN ('r', 'p', 'v')
            """
        ).map { try $0.text("name") }
        await owner.close()
        let finance = try await TestDatabase.login("fiona", memberOf: ["repricer_finance"])

        for name in ReportName.allCases {
            let text = try await Self.render(ReportQuery(name), .csv, conninfo: finance)
            #expect(text.contains("\r\n"))
        }
        let connection = try await PostgresConnection.connect(finance, applicationName: "test")
        #expect(relations.count > 15)
        for relation in relations {
            let error = await #expect(throws: PostgresError.self) {
                try await connection.query("SELECT 1 FROM repricer.\(unsafe: relation) LIMIT 1")
            }
            #expect(error?.sqlState == .insufficientPrivilege)
        }
        for name in ReportName.allCases {
            let error = await #expect(throws: PostgresError.self) {
                try await connection.query("DELETE FROM report.\(unsafe: name.rawValue)")
            }
            #expect(error != nil)
        }
        await connection.close()
    }

    @Test func render_whenUserMayNotRead_saysHowToMendIt() async throws {
        let stranger = try await TestDatabase.login("stan", memberOf: [])

        await #expect(throws: ReportError.notReadable(.batchSummary)) {
            _ = try await Self.render(ReportQuery(.batchSummary), .csv, conninfo: stranger)
        }
    }

    @Test(arguments: ["", "spring", "00000000-0000-7000-8000-00000000000c", "'; DROP TABLE x; --"])
    func render_whenBatchIsUnknown_throws(batch: String) async throws {
        await #expect(throws: ReportError.unknownBatch(batch)) {
            _ = try await Self.render(
                ReportQuery(.priceChange, batchID: batch), .csv, conninfo: TestDatabase.url)
        }
    }

    @Test func render_whenReportHasNoBatches_refusesOne() async throws {
        await #expect(throws: ReportError.hasNoBatches(.notificationHealth)) {
            _ = try await Self.render(
                ReportQuery(.notificationHealth, batchID: ReportFixture.batch), .csv,
                conninfo: TestDatabase.url)
        }
    }

    @Test func render_whenDatabaseIsAway_isUnavailable() async throws {
        let error = await #expect(throws: ReportError.self) {
            _ = try await Self.render(
                ReportQuery(.batchSummary), .csv, conninfo: "host=/nowhere dbname=x")
        }

        guard case .unavailable? = error else {
            Issue.record("another error: \(String(describing: error))")
            return
        }
    }

    @Test func read_whenThereAreMoreRowsThanAPage_givesEachOnceInOrder() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "large", rows: 2500)
                + ReportFixture.batchSQL(ReportFixture.otherBatch, name: "other", rows: 1)
                    + """
                    INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id,
                        line, sku, direction, currency, storefront, period, current_price_milliunits,
                        new_price_milliunits, forecast_consent, forecast_effective_at, send_by,
                        due_effective_at, state_since, submitted_by)
                    SELECT n::text, repricer.bucket_of(n::text), gen_random_uuid(),
                        CASE WHEN n > 2500 THEN '\(ReportFixture.otherBatch)'
                            ELSE '\(ReportFixture.batch)' END::uuid,
                        n, 'PLAN', 'increase', 'USD', 'USA', 'P1M', 1000, 2000, 'required',
                        '2026-01-01Z', '2026-01-01Z', '2026-01-01Z', '2026-01-01Z', 'alice'
                    FROM generate_series(1, 2501) n;
                    """)
        await connection.close()
        let pool = PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 1)
        let pages = PageLog()

        try await ReportStore(pool: pool).read(
            ReportQuery(.priceChange, batchID: ReportFixture.batch.uppercased()),
            columns: { columns in
                pages.state.withLock { $0.line = columns.firstIndex { $0.name == "line" } ?? -1 }
            },
            page: { rows in
                pages.state.withLock { state in
                    state.sizes.append(rows.count)
                    state.lines += rows.texts.compactMap { $0[state.line] }
                }
            })
        await pool.close()

        #expect(pages.state.withLock { $0.sizes } == [1000, 1000, 500])
        #expect(pages.state.withLock { $0.lines } == (1...2500).map(String.init))
    }
}

private final class PageLog: Sendable {
    let state = Mutex((line: 0, sizes: [Int](), lines: [String]()))
}
