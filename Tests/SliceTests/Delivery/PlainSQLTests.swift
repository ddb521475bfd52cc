import Batches
import Facts
import Postgres
import Pricing
import TestSupport
import Testing

/// What a member of `repricer_pricing` can do with psql alone: decide, and leave a line of it; nothing else.
@Suite(.database) struct PlainSQLTests {
    private typealias Harness = DeliveryHarness
    private static let batchID = "0190a0a0-0000-7000-8000-000000000001"

    private static func script(_ statements: String, by pool: DatabasePool) async throws {
        try await pool.withConnection { try await $0.script(statements) }
    }

    private static func own<T: Sendable>(
        _ body: @Sendable (PostgresConnection) async throws -> T
    ) async throws -> T {
        let owner = try await TestDatabase.connect()
        do {
            let result = try await body(owner)
            await owner.close()
            return result
        } catch {
            await owner.close()
            throw error
        }
    }

    private static func begin(
        at: String = "clock_timestamp()", waves: String = "[]", guards: String = "[]"
    ) -> String {
        "SELECT repricer.begin_submission('\(batchID)', 'spring', 'c', 'announced', '\(waves)', '\(guards)', \(at));"
    }

    private static func store(
        _ id: String = "1", of batch: String = batchID, rules: String = "'[]'::jsonb",
        sendBy: String = "'2030-01-01Z'", from: String = "NULL", price: String = "10990"
    ) -> String {
        """
        SELECT repricer.store_changes('\(batch)', ARRAY['\(id)'], ARRAY[gen_random_uuid()], ARRAY[2], ARRAY[0],
            ARRAY['A'], ARRAY['{B}'], ARRAY['increase'], ARRAY['USD'], ARRAY['USA'], ARRAY['P1M'], ARRAY[9990],
            ARRAY[\(price)], ARRAY[NULL::bigint], ARRAY[\(from)], ARRAY['not_required'], ARRAY['{}'], ARRAY[NULL],
            ARRAY[\(rules)], ARRAY['2030-01-01Z'::timestamptz], ARRAY['2030-01-01Z'::timestamptz],
            ARRAY['2030-01-01Z'::timestamptz], ARRAY[NULL::timestamptz], ARRAY[\(sendBy)::timestamptz]);
        """
    }

    private static func finish(rows: Int = 1) -> String {
        "SELECT repricer.finish_submission('\(batchID)', 'p', \(rows), 0);"
    }

    @Test(arguments: ["repricer_pricing", "repricer_finance"])
    func person_onEveryTable_mayWriteNone(_ role: String) async throws {
        let writable = try await Self.own { owner in
            try await owner.query(
                """
                SELECT c.oid::regclass::text AS name, right_to
                FROM pg_class c, unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) AS right_to
                WHERE c.relnamespace IN ('repricer'::regnamespace, 'report'::regnamespace)
                    AND c.relkind IN ('r', 'p', 'v')
                    AND (has_table_privilege(\(role), c.oid, right_to) OR right_to IN ('INSERT', 'UPDATE')
                        AND has_any_column_privilege(\(role), c.oid,
                            CASE right_to WHEN 'INSERT' THEN 'INSERT' ELSE 'UPDATE' END))
                """
            ).map { "\(try $0.text("right_to")) \(try $0.text("name"))" }
        }

        #expect(writable == [])
    }

    @Test(arguments: [
        "INSERT INTO repricer.rule_imports (revision, imported_at, file) VALUES (99, '2020-01-01Z', 'x')",
        """
        INSERT INTO repricer.always_consent_storefronts (storefront, valid_from, revision, is_required, source)
        VALUES ('CHL', '2020-01-01Z', 1, false, 'apple')
        """,
        """
        INSERT INTO repricer.batches (batch_id, name, content_sha256, plan_hash, planned_as_of, row_count,
            submitted_at)
        VALUES (gen_random_uuid(), 'mine', 'x', 'x', '2020-01-01Z', 1, '2020-01-01Z')
        """,
        """
        INSERT INTO repricer.dependency_roles (original_transaction_id, bucket, sku, role, change_id)
        SELECT original_transaction_id, bucket, 'Z', 'parent', change_id FROM repricer.price_changes
        """,
        "INSERT INTO repricer.dependent_claims VALUES ('1', repricer.bucket_of('1'), 'A', '2', gen_random_uuid())",
        "INSERT INTO repricer.batch_rejects SELECT batch_id, 9, '1', 'A', 'x', 'x' FROM repricer.batches",
        "DELETE FROM repricer.store_calls", "UPDATE repricer.bucket_turns SET bucket = bucket",
        "UPDATE repricer.service_leases SET leased_until = 'infinity'",
        "UPDATE repricer.rate_limits SET blocked_until = 'infinity'",
        "UPDATE repricer.service_controls SET is_rehearsal = true",
        "SELECT repricer.begin_rehearsal('2020-01-01Z')",
        "SELECT repricer.record_dependent_claims(batch_id) FROM repricer.batches",
    ])
    func statement_pastTheFunctions_isDenied(_ statement: String) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        for pool in [harness.submitter, harness.approver] {
            let error = await #expect(throws: PostgresError.self, "\(statement)") {
                try await Self.script(statement, by: pool)
            }
            #expect(error?.sqlState == .insufficientPrivilege)
        }
        await harness.close()
    }

    /// It would wait for ever: nothing of it can be judged.
    @Test func rowOfASubscriptionThatNobodyKnows_isRefused() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")

        let error = await #expect(throws: PostgresError.self) {
            try await Self.script(
                "BEGIN;" + Self.begin(at: "'2026-03-01Z'") + Self.store("2") + Self.finish()
                    + "COMMIT", by: harness.submitter)
        }

        #expect(error?.message?.contains("of which nothing is known") == true)
        await harness.close()
    }

    /// Every plan reads the rules, and every claim the imported history: an instant that no program can read would stop
    /// all of them.
    @Test(arguments: [
        "import_rules('g', 'y', now(), '{threshold}', '{USA}', '{USD}', '{nonannual}', '{infinity}', '{5000}', '{apple}')",
        "import_rules('g', 'y', now(), '{currency}', '{NULL}', '{USD}', '{NULL}', '{4000-01-01 00:00:00Z BC}', '{2}', '{apple}')",
        "import_rules('g', 'y', now(), '{threshold}', '{USA}', '{USD}', '{nonannual}', '{NULL}', '{9223372036854775807}', '{apple}')",
        "import_history('h', 'q', now(), '{1}', '{A}', '{-infinity}', '{1}', '{2}', '{USD}')",
        "import_history('h', 'q', now(), '{1}', '{A}', '{0044-03-15 BC}', '{1}', '{2}', '{USD}')",
    ])
    func importThatNoProgramCanRead_isRefused(_ call: String) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")

        let error = await #expect(throws: PostgresError.self) {
            try await Self.script("SELECT repricer.\(call)", by: harness.submitter)
        }

        #expect(error?.sqlState == .checkViolation, "\(String(describing: error))")
        await harness.close()
    }

    /// A wave goes at its approved time, by the server's clock, whatever instant a replica, or its login, gives.
    @Test func wave_isNotReleasedBeforeItsTime_byAnInstantThatIsGiven() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        let batchID = try await harness.submit(
            [Harness.row("1"), Harness.row("2", line: 3)],
            terms: BatchTerms(waves: try WavePlan("50%,rest@2999-06-01T00:00:00Z")))
        try await harness.approve(batchID)
        try await Self.own {
            try await $0.script("UPDATE repricer.service_controls SET is_rehearsal = false")
        }

        try await Self.script(
            "SELECT repricer.release_due_waves('2999-12-31Z')", by: harness.service)

        let released = try await harness.service.withConnection { connection in
            try await connection.query("SELECT released_wave AS n FROM repricer.batches").one()
                .int("n")
        }
        #expect(released == 1)
        let error = await #expect(throws: PostgresError.self) {
            try await Self.script(
                "SELECT repricer.throttle_kind('price_change', now(), 'infinity', '500')",
                by: harness.service)
        }
        #expect(error?.message?.contains("at an instant") == true)
        await harness.close(isTamperedWith: true)
    }

    @Test func rows_ofAFinishedSubmission_takeNoOther() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let submission = Self.begin(at: "'2026-03-01Z'") + Self.store() + Self.finish()
        let more = Self.store("2")

        let inOne = await #expect(throws: PostgresError.self) {
            try await Self.script("BEGIN;" + submission + more + "COMMIT", by: harness.submitter)
        }
        try await Self.script("ROLLBACK;BEGIN;" + submission + "COMMIT", by: harness.submitter)
        for pool in [harness.submitter, harness.approver] {
            let later = await #expect(throws: PostgresError.self) {
                try await Self.script(more, by: pool)
            }
            #expect(later?.sqlState?.code == "55000")
            await #expect(throws: PostgresError.self) {
                try await Self.script(Self.begin(), by: pool)
            }
        }

        #expect(inOne?.sqlState?.code == "55000")
        #expect(try await harness.changes() == ["A awaiting_approval"])
        await harness.close()
    }

    @Test(arguments: ["", "SET CONSTRAINTS ALL IMMEDIATE;"])
    func submission_thatIsNotFinished_isNotStored(_ before: String) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")

        let error = await #expect(throws: PostgresError.self) {
            try await Self.script(
                "BEGIN;" + before + Self.begin(at: "'2026-03-01Z'") + Self.store() + "COMMIT",
                by: harness.submitter)
        }

        #expect(error?.message?.hasSuffix("was not finished") == true)
        try await Self.script("ROLLBACK", by: harness.submitter)
        #expect(try await harness.changes() == [])
        await harness.close()
    }

    /// What no program can read would stop, for all batches, whatever reads it: guards, waves and claims.
    @Test(arguments: [
        begin(at: "'2026-03-01Z'", guards: #"[{"guard":"nonsense","over":1,"least":1}]"#),
        begin(at: "'2026-03-01Z'", guards: #"[{"nonsense":1}]"#),
        begin(at: "'2026-03-01Z'", guards: #"[[{"guard":"errors","over":1,"least":1}]]"#),
        begin(at: "'2026-03-01Z'", guards: #"[{"guard":"errors","over":"1","least":1}]"#),
        begin(at: "'2026-03-01Z'", guards: #"[{"guard":"errors","over":1.5,"least":1}]"#),
        begin(at: "'2026-03-01Z'", guards: #"[{"guard":"errors","over":null,"least":1}]"#),
        begin(at: "'2026-03-01Z'", guards: #"[{"guard":"errors","over":1,"least":0}]"#),
        begin(at: "'2026-03-01Z'", guards: #"[{"guard":"errors","over":1}]"#),
        begin(at: "'2026-03-01Z'", waves: #"[1]"#),
        begin(at: "'2026-03-01Z'", waves: #"[{"label":"a"}]"#),
        begin(at: "'2026-03-01Z'", waves: #"[{"label":1,"release":"hand"}]"#),
        begin(at: "'2026-03-01Z'", waves: #"[{"label":"a","release":"never"}]"#),
        begin(at: "'2026-03-01Z'", waves: #"[{"label":"a","release":"at"}]"#),
        begin(at: "'2026-03-01Z'", waves: #"[{"label":"a","release":"at","at":"infinity"}]"#),
        begin(at: "'2026-03-01Z'", waves: #"[{"label":"a","release":"at","at":"x"}]"#),
        begin(at: "'2026-03-01Z'", waves: #"[{"label":"a","release":"after","after_ms":"x"}]"#),
        begin(at: "'2026-03-01Z'", waves: #"[{"label":"a","release":"after","after_ms":1e30}]"#),
        begin(at: "'2026-03-01Z'") + store(sendBy: "'infinity'"),
        begin(at: "'2026-03-01Z'") + store(sendBy: "'-infinity'"),
        begin(at: "'2026-03-01Z'") + store(sendBy: "'20000-01-01Z'"),
        begin(at: "'2026-03-01Z'") + store(from: "'infinity'"),
        begin(at: "'2026-03-01Z'") + store(rules: #"'{"a":1}'::jsonb"#),
        """
        SELECT repricer.request_mass_extension(gen_random_uuid(), 'P', NULL, 5, 0, NULL, -4, '{}', '2026-03-01Z')
        """,
        """
        SELECT repricer.request_mass_extension(gen_random_uuid(), 'P', NULL, 5, 0, NULL, 4, '"x"', '2026-03-01Z')
        """,
        """
        SELECT repricer.request_mass_extension(gen_random_uuid(), 'P', NULL, 5, 0, NULL, 4, '{"a":"b"}', '2026-03-01Z')
        """,
    ])
    func submission_thatProgramsCannotRead_isRefused(_ statements: String) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")

        let error = await #expect(throws: PostgresError.self) {
            try await Self.script("BEGIN;" + statements, by: harness.submitter)
        }

        #expect(
            ["22", "23"].contains(error?.sqlState?.code.prefix(2)),
            "\(String(describing: error))")
        await harness.close()
    }

    @Test func submission_withWavesAndGuardsOfEveryForm_isTaken() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let waves = """
            [{"label":"1%","release":"approval"},{"label":"10%","release":"at","at":"2026-12-01T00:00:00.000Z"},
            {"label":"20%","release":"after","after_ms":8640000000000},{"label":"rest","release":"hand"}]
            """
        let guards = GuardRail.Figure.allCases
            .map { #"{"guard":"\#($0.rawValue)","over":10000,"least":1000000000}"# }
            .joined(separator: ",")

        try await Self.script(
            "BEGIN;" + Self.begin(at: "'2026-03-01Z'", waves: waves, guards: "[\(guards)]")
                + Self.store() + Self.finish() + "COMMIT", by: harness.submitter)

        #expect(try await harness.changes() == ["A awaiting_approval"])
        await harness.close()
    }

    /// A price with some zeros too many, that nobody has approved yet, fails no report of others, of the past neither: the
    /// harness asks for each of them when it closes.
    @Test func price_thatIsTooLargeForAnySum_isRefused_andTheLargestFailsNoReport() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let largest = PriceText.milliunitsMax

        for price in [largest + 1, Int64.max] {
            let error = await #expect(throws: PostgresError.self) {
                try await Self.script(
                    "BEGIN;" + Self.begin(at: "'2026-03-01Z'") + Self.store(price: "\(price)"),
                    by: harness.submitter)
            }
            #expect(error?.message?.contains("price_changes_price") == true)
        }
        try await Self.script(
            "BEGIN;" + Self.begin(at: "'2026-03-01Z'") + Self.store(price: "\(largest)")
                + Self.finish() + "COMMIT", by: harness.submitter)
        let points = try await Self.own { owner in
            try await owner.query("SELECT difference_basis_points FROM report.price_change").one()
                .int64("difference_basis_points")
        }

        #expect(points == 1_001_001_000_991_001)
        await harness.close()
    }

    @Test func submission_whoseCountIsWrong_isRefused() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")

        let error = await #expect(throws: PostgresError.self) {
            try await Self.script(
                "BEGIN;" + Self.begin(at: "'2026-03-01Z'") + Self.store() + Self.finish(rows: 2),
                by: harness.submitter)
        }

        #expect(error?.message?.hasPrefix("batch \(Self.batchID) holds 1 rows") == true)
        await harness.close()
    }

    @Test func decisions_datedByTheirCallers_bearTheServersInstant() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await Self.own {
            try await $0.script("UPDATE repricer.service_controls SET is_rehearsal = false")
        }

        let early = await #expect(throws: PostgresError.self) {
            try await Self.script(Self.begin(at: "'2020-01-01Z'"), by: harness.submitter)
        }
        try await Self.script(
            "BEGIN;" + Self.begin() + Self.store() + Self.finish() + "COMMIT", by: harness.submitter
        )
        let at = "'2020-01-01Z'"
        try await Self.script(
            """
            SELECT repricer.approve_batch('\(Self.batchID)', \(at));
            SELECT repricer.set_pause('\(Self.batchID)', \(at), true, 'why');
            SELECT repricer.withdraw_batch('\(Self.batchID)', \(at), 'aborted', 'why');
            SELECT repricer.import_rules('f', 'c', \(at), ARRAY['always_consent'], ARRAY['CHL'], ARRAY[NULL],
                ARRAY[NULL], ARRAY['2020-01-01Z'::timestamptz], ARRAY[1], ARRAY['apple']);
            """, by: harness.approver)
        try await TestDatabase.shipDefaultLimits()
        let (instants, old, chain) = try await Self.own { owner in
            let row = try await owner.query(
                """
                WITH instants (at) AS (
                    SELECT unnest(ARRAY[submitted_at, decided_at, paused_at]) FROM repricer.batches
                    UNION ALL SELECT occurred_at FROM repricer.audit_trail
                    UNION ALL SELECT occurred_at FROM repricer.price_change_history
                    UNION ALL SELECT state_since FROM repricer.price_changes
                    UNION ALL SELECT imported_at FROM repricer.rule_imports WHERE revision > 1)
                SELECT count(*) AS instants,
                    count(*) FILTER (WHERE at < clock_timestamp() - interval '1 hour') AS old FROM instants
                """
            ).one()
            return (
                try row.int("instants"), try row.int("old"),
                try await owner.read { try AuditQueries.verify(kept: nil, on: $0) }
            )
        }

        #expect(early?.message?.hasPrefix("planned as of") == true)
        #expect(instants == 12)
        #expect(old == 0)
        #expect(chain.findings == [])
        #expect(chain.lineCount == 5)
        await harness.close()
    }

    @Test(arguments: [
        (
            """
            INSERT INTO repricer.batches (batch_id, name, content_sha256, plan_hash, planned_as_of, row_count,
                submitted_at)
            VALUES ('\(batchID)', 'mine', 'x', 'x', '2020-01-01Z', 1, '2020-01-01Z')
            """, "batch:\(batchID): no line says that it was submitted"
        ),
        (
            "DELETE FROM repricer.price_changes", "holds 0 rows and says 1, 1 were submitted"
        ),
        ("UPDATE repricer.batches SET row_count = 2", "holds 1 rows and says 2, 1 were submitted"),
        (
            "INSERT INTO repricer.batch_rejects SELECT batch_id, 9, '1', 'A', 'x', 'x' FROM repricer.batches",
            "holds 1 refused rows and says 0, 0 were submitted"
        ),
        (
            "UPDATE repricer.batches SET submitted_at = '2020-01-01Z'",
            "says otherwise than its line who submitted it, when or what"
        ),
        (
            "UPDATE repricer.batches SET decided_at = '2020-01-01Z'",
            "is approved, and no line says so of that person and instant"
        ),
        (
            "UPDATE repricer.batches SET state = 'aborted'",
            "is aborted, and no line says so of that person and instant"
        ),
        (
            "UPDATE repricer.price_changes SET new_price_milliunits = new_price_milliunits + 700",
            "asks for something else than was submitted"
        ),
        (
            "UPDATE repricer.price_changes SET sku = 'B'",
            "asks for something else than was submitted"
        ),
        (
            "UPDATE repricer.price_changes SET currency = 'EUR'",
            "asks for something else than was submitted"
        ),
        (
            "UPDATE repricer.price_changes SET dependent_skus = '{C}'",
            "asks for something else than was submitted"
        ),
        (
            "UPDATE repricer.price_changes SET effective_on_or_after = '2027-01-01'",
            "asks for something else than was submitted"
        ),
        (
            "UPDATE repricer.price_changes SET is_held_out = true",
            "asks for something else than was submitted"
        ),
        (
            "UPDATE repricer.price_changes SET wave = 1",
            "asks for something else than was submitted"
        ),
        (
            "UPDATE repricer.batches SET name = 'other'",
            "asks for something else than was submitted"
        ),
        (
            #"UPDATE repricer.batches SET guards = '[{"guard":"errors","over":5000,"least":50}]'"#,
            "asks for something else than was submitted"
        ),
        (
            "UPDATE repricer.batches SET holdout_basis_points = 9",
            "asks for something else than was submitted"
        ),
        (
            """
            INSERT INTO repricer.first_approvals (batch_id, approver, approved_at, exceeded)
            SELECT batch_id, 'eve', '2020-01-01Z', '{}' FROM repricer.batches
            """, "no line says that eve approved it first"
        ),
        (
            "INSERT INTO repricer.rule_imports (revision, imported_at, file) VALUES (3, '2020-01-01Z', 'x')",
            "rules:3: no line says that they were imported"
        ),
        (
            """
            INSERT INTO repricer.currency_decimals (currency, valid_from, revision, recorded_at, decimals, source)
            VALUES ('XXX', '2020-01-01Z', 2, '2020-01-01Z', 3, 'apple')
            """, "rules:2: hold 2 rules, 1 were imported"
        ),
        (
            "UPDATE repricer.rule_imports SET imported_by = 'eve' WHERE revision = 2",
            "rules:2: say otherwise than their line who imported them, or when"
        ),
        (
            """
            INSERT INTO repricer.history_imports (number, imported_at, file, content_sha256)
            VALUES (2, '2020-01-01Z', 'x', 'x')
            """, "history:2: no line says that it was imported"
        ),
        (
            "UPDATE repricer.currency_decimals SET decimals = 3 WHERE revision = 2",
            "rules:2: hold something else than was imported"
        ),
        (
            "UPDATE repricer.currency_decimals SET valid_from = '2030-01-01Z' WHERE revision = 2",
            "rules:2: hold something else than was imported"
        ),
        (
            "UPDATE repricer.imported_increases SET new_price_milliunits = 3",
            "history:1: holds something else than was imported"
        ),
        (
            "UPDATE repricer.imported_increases SET increased_on = '2025-01-02'",
            "history:1: holds something else than was imported"
        ),
        (
            "INSERT INTO repricer.closed_figures VALUES ('2026-01-01', NULL, 'USD', 'charge', 1)",
            "month:2026-01: has other figures than when it was closed"
        ),
        (
            "UPDATE repricer.closed_months SET closed_by = 'eve'",
            "month:2026-01: no line says that it was closed by that person, at that instant"
        ),
        (
            "DELETE FROM repricer.closed_months",
            "month:2026-01: a line tells of it, and it is not stored any more"
        ),
        (
            "DELETE FROM repricer.currency_decimals WHERE revision = 2; DELETE FROM repricer.rule_imports WHERE revision = 2",
            "rules:2: a line tells of it, and it is not stored any more"
        ),
        (
            "DELETE FROM repricer.imported_increases; DELETE FROM repricer.history_imports",
            "history:1: a line tells of it, and it is not stored any more"
        ),
        (
            "DELETE FROM repricer.price_changes; DELETE FROM repricer.batches",
            ": a line tells of it, and it is not stored any more"
        ),
        (
            """
            INSERT INTO repricer.mass_extensions (extension_id, product_id, extend_by_days, reason_code,
                eligible_count, ineligible, submitted_by, submitted_at)
            VALUES ('\(batchID)', 'P', 1, 1, 1, '{}', 'eve', '2020-01-01Z')
            """, "extension:\(batchID): no line says that it was submitted"
        ),
    ])
    func verify_ofWhatWasPlanted_namesIt(_ planted: String, _ said: String) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await Self.script(
            """
            SELECT repricer.import_rules('f', 'c', '2026-03-01Z', ARRAY['currency'], ARRAY[NULL], ARRAY['USD'],
                ARRAY[NULL], ARRAY[NULL::timestamptz], ARRAY[2], ARRAY['apple']);
            SELECT repricer.import_history('f', 'c', '2026-03-01Z', ARRAY['1'], ARRAY['A'], ARRAY['2025-01-01'::date], ARRAY[1],
                ARRAY[2], ARRAY['USD'])
            """, by: harness.submitter)

        try await TestDatabase.shipDefaultLimits()
        let (sound, planted) = try await Self.own { owner in
            try await owner.script("SELECT report.close_month('2026-01', now())")
            let sound = try await owner.read { try AuditQueries.verify(kept: nil, on: $0) }
            try await owner.script("SET session_replication_role = replica; \(planted)")
            return (sound, try await owner.read { try AuditQueries.verify(kept: nil, on: $0) })
        }

        #expect(sound.findings == [])
        #expect(planted.findings.map(\.kind) == [.untraced])
        #expect(planted.findings.first?.message.hasSuffix(said) == true, "\(planted.findings)")
        await harness.close(isTamperedWith: true)
    }

    /// The line of the approval names whoever stands there as the first one, true or not.
    @Test func verify_ofAFirstApprovalThatWasPlantedBeforeTheApproval_namesIt() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let batchID = try await harness.submit([Harness.row("1")])
        try await Self.own { owner in
            try await owner.script(
                """
                INSERT INTO repricer.first_approvals (batch_id, approver, approved_at, exceeded)
                VALUES ('\(batchID)', 'eve', '2020-01-01Z', '{}')
                """)
        }
        try await harness.approve(batchID)

        try await TestDatabase.shipDefaultLimits()
        let chain = try await Self.own { owner in
            try await owner.read { try AuditQueries.verify(kept: nil, on: $0) }
        }

        #expect(
            chain.findings.map(\.message) == [
                "batch:\(batchID): no line says that eve approved it first"
            ])
        await harness.close(isTamperedWith: true)
    }
}
