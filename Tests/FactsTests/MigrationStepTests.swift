import Postgres
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import Facts

/// What a release after the first one brings: files behind the real baseline, in a database that is in use.
@Suite(.database)
struct MigrationStepTests {
    private static let instant: Int64 = 1_767_571_200_123

    private func state() async throws -> (SchemaState, isHeld: Bool) {
        let connection = try await TestDatabase.connect()
        let state = try await schemaState(connection)
        let isHeld = try await connection.read {
            try ServiceControlQueries.everything(on: $0).isHeld
        }
        await connection.close()
        return (state, isHeld)
    }

    private func number(_ sql: SQL) async throws -> Int {
        let connection = try await TestDatabase.connect()
        let number = try await connection.query(sql).one().int("n")
        await connection.close()
        return number
    }

    // MARK: Older programs

    @Test func migrate_ofAFileThatIsNotBreaking_leavesOlderProgramsAtWork() async throws {
        let before = try await state()

        let applied = try await migrate("-- breaking: no\nCREATE TABLE repricer.more (n int);")

        let after = try await state()
        #expect(applied == 1)
        #expect(before.0.misfit() == nil && !before.isHeld)
        #expect(after.0 == SchemaState(version: expectedSchemaVersion + 1))
        #expect(after.0.misfit() == nil)
        #expect(!after.isHeld)
    }

    @Test func migrate_ofABreakingFile_stopsOlderProgramsForGood() async throws {
        try await migrate("-- breaking: yes\nCREATE TABLE repricer.more (n int);")

        let after = try await state()
        #expect(after.0.misfit() == .isPastUs)
        #expect(after.0.misfit(of: expectedSchemaVersion + 1) == nil)
        #expect(after.isHeld)
    }

    @Test func migrate_ofABreakingFile_appliesNothingWhileATransactionOfTheServiceIsOpen()
        async throws
    {
        let service = try await PostgresConnection.connect(
            TestDatabase.login("slow", memberOf: ["repricer_service"]), applicationName: "test")
        try await service.script("BEGIN; SELECT 1 FROM repricer.service_controls")

        let error = await #expect(throws: MigrationError.self) {
            try await migrate("-- breaking: yes\nCREATE TABLE repricer.more (n int);") {
                $0.limits.programsWait = .milliseconds(1)
            }
        }

        let after = try await state()
        await service.close()
        guard case .programsRun(_, let holders) = error else {
            Issue.record("unexpected: \(String(describing: error))")
            return
        }
        #expect(holders.contains { $0.contains(TestDatabase.loginName("slow")) })
        #expect(after.0 == SchemaState(version: expectedSchemaVersion))
        #expect(!after.isHeld, "older programs may go on")
    }

    @Test func migrate_ofABreakingFile_announcesItBeforeItWaits() async throws {
        let service = try await PostgresConnection.connect(
            TestDatabase.login("slow", memberOf: ["repricer_service"]), applicationName: "test")
        try await service.script("BEGIN; SELECT 1 FROM repricer.service_controls")
        let (waits, waiting) = AsyncStream.makeStream(of: Void.self)

        async let applied = migrate("-- breaking: yes\nCREATE TABLE repricer.more (n int);") {
            $0.limits.programsPoll = .milliseconds(5)
            $0.report = { if case .waitsForPrograms = $0 { waiting.yield() } }
        }
        for await _ in waits { break }
        let meanwhile = try await state()
        await service.close()

        #expect(try await applied == 1)
        #expect(meanwhile.0.misfit() == .isPastUs)
        #expect(meanwhile.0.version == expectedSchemaVersion)
        #expect(meanwhile.isHeld)
    }

    /// A command of the service, or a replica whose address of the database names its sessions otherwise.
    @Test func migrate_ofABreakingFile_waitsForIdleSessionsOfTheService_whateverTheirNames()
        async throws
    {
        let service = try await PostgresConnection.connect(
            TestDatabase.login("idle", memberOf: ["repricer_service"]), applicationName: "other")
        let finance = try await PostgresConnection.connect(
            TestDatabase.login("fin", memberOf: ["repricer_finance"]), applicationName: "other")
        let passed = Mutex<[Int]>([])

        try await migrate("-- breaking: yes\nCREATE TABLE repricer.more (n int);") {
            $0.limits.programsWait = .milliseconds(1)
            $0.report = {
                if case .passedOver(_, let sessions) = $0 {
                    passed.withLock { $0.append(sessions) }
                }
            }
        }

        #expect(passed.withLock(\.self) == [1])
        await service.close()
        await finance.close()
    }

    @Test func migrate_ofABreakingFileThatFails_givesOlderProgramsTheirCallsBack() async throws {
        await #expect(throws: MigrationError.self) {
            try await migrate("-- breaking: yes\nSELECT 1/0;")
        }

        let after = try await state()
        #expect(after.0.misfit() == nil)
        #expect(!after.isHeld)
    }

    // MARK: Steps

    private static let filling = """
        -- breaking: no
        -- analyze: repricer.more
        CREATE TABLE repricer.more (n int PRIMARY KEY, bucket smallint, times int NOT NULL DEFAULT 0);
        INSERT INTO repricer.more SELECT i, i % 64, 0 FROM generate_series(1, 1000) i;
        -- step: filling (batches)
        UPDATE repricer.more SET times = times + 1 WHERE n IN (
            SELECT n FROM repricer.more WHERE bucket = :bucket AND times = 0 LIMIT 10);
        -- step: the rule (transaction)
        ALTER TABLE repricer.more ADD CHECK (times = 1);
        """

    @Test func batches_thatWereStopped_goOnWhereTheyWere() async throws {
        let asked = Atomic(0)

        let error = await #expect(throws: MigrationError.self) {
            try await migrate(Self.filling) {
                // The first step, and twenty batches.
                $0.isStopped = { asked.add(1, ordering: .relaxed).newValue > 60 }
            }
        }
        let between = try await number("SELECT sum(times)::int AS n FROM repricer.more")
        let version = try await state().0.version
        let applied = try await migrate(Self.filling)

        guard case .stopped(_, "filling") = error else {
            Issue.record("unexpected: \(String(describing: error))")
            return
        }
        #expect((1..<1000).contains(between))
        #expect(version == expectedSchemaVersion, "half a migration is none")
        #expect(applied == 1)
        #expect(try await state().0.version == expectedSchemaVersion + 1)
        #expect(
            try await number("SELECT count(*) AS n FROM repricer.more WHERE times = 1") == 1000)
        #expect(
            try await number(
                """
                SELECT sum(changed_rows)::int AS n FROM repricer.migration_steps
                WHERE version > \(expectedSchemaVersion) AND step = 1 AND is_done
                """) == 1000)
        #expect(
            try await number(
                "SELECT reltuples::int AS n FROM pg_class WHERE oid = 'repricer.more'::regclass")
                == 1000, "analysed")
        #expect(try await migrate(Self.filling) == 0)
    }

    /// Runs the file until its second step, and returns a connection to what is there then.
    private func stoppedBeforeItsIndex(_ file: String) async throws -> PostgresConnection {
        let asked = Atomic(0)
        await #expect(throws: MigrationError.self) {
            try await migrate(file) {
                $0.isStopped = { asked.add(1, ordering: .relaxed).newValue > 1 }
            }
        }
        return try await TestDatabase.connect()
    }

    @Test func indexStep_thatWasInterrupted_isBuiltAnew() async throws {
        let file = """
            -- breaking: no
            CREATE TABLE repricer.more (n int);
            -- step: an index (alone)
            CREATE INDEX CONCURRENTLY more_n ON repricer.more (n);
            """
        let connection = try await stoppedBeforeItsIndex(file)
        try await connection.script(
            """
            CREATE INDEX more_n ON repricer.more (n);
            UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'repricer.more_n'::regclass
            """)
        await connection.close()

        let applied = try await migrate(file)

        #expect(applied == 1)
        #expect(
            try await number(
                """
                SELECT count(*) AS n FROM pg_index
                WHERE indexrelid = 'repricer.more_n'::regclass AND indisvalid
                """) == 1)
    }

    /// The server's process built on when its migrator was killed, and came to the end that nobody recorded.
    @Test(arguments: ["more_n", "unlike"])
    func indexStep_whoseBuildEndedUnrecorded_isDone(_ name: String) async throws {
        let file = """
            -- breaking: no
            CREATE TABLE repricer.more (n int);
            CREATE TABLE repricer.other (n int);
            -- step: an index (alone)
            create unique index concurrently \(name) ON repricer.more (n);
            """
        let connection = try await stoppedBeforeItsIndex(file)
        try await connection.script(
            """
            CREATE UNIQUE INDEX more_n ON repricer.more (n);
            CREATE INDEX unlike ON repricer.other (n)
            """)
        await connection.close()

        if name == "more_n" {
            #expect(try await migrate(file) == 1)
        } else {
            // An index of that name on another table is none of ours, and it is said what stays.
            let error = await #expect(throws: MigrationError.self) { try await migrate(file) }
            #expect(error?.description.contains("in the step 'an index'; what was done") == true)
        }
        #expect(
            try await number(
                "SELECT count(*) AS n FROM pg_index WHERE indrelid = 'repricer.more'::regclass")
                == 1)
    }

    // MARK: Locks

    private static let column = "-- breaking: no\nALTER TABLE repricer.batches ADD COLUMN more int;"

    @Test func migrate_behindALongReport_triesAgainAndNamesIt() async throws {
        let reader = try await TestDatabase.connect()
        try await reader.script("BEGIN; SELECT count(*) FROM repricer.batches")
        let pid = await reader.backendProcessID
        let (waits, waiting) = AsyncStream.makeStream(of: [String].self)

        async let applied = migrate(Self.column) {
            $0.limits.lockTimeout = .milliseconds(20)
            $0.limits.wait = Backoff(first: .milliseconds(5), max: .milliseconds(5))
            $0.report = { if case .waitsForLock(_, let holders) = $0 { waiting.yield(holders) } }
        }
        var named: [String] = []
        for await holders in waits {
            named = holders
            break
        }
        await reader.close()

        #expect(try await applied == 1)
        #expect(named.contains { $0.hasPrefix("pid \(pid) (postgres") }, "\(named)")
    }

    @Test func migrate_behindAReportThatLastsTooLong_leavesNothing() async throws {
        let reader = try await TestDatabase.connect()
        try await reader.script("BEGIN; SELECT count(*) FROM repricer.batches")

        let error = await #expect(throws: MigrationError.self) {
            try await migrate(Self.column) {
                $0.limits.lockTimeout = .milliseconds(5)
                $0.limits.patience = .milliseconds(1)
            }
        }
        await reader.close()

        guard case .locked = error else {
            Issue.record("unexpected: \(String(describing: error))")
            return
        }
        #expect(
            try await number(
                "SELECT count(*) AS n FROM repricer.schema_migrations WHERE version > \(expectedSchemaVersion)"
            ) == 0)
    }

    /// Whoever may connect may read the record, and take any advisory lock.
    @Test func migrate_besideStrangersWithEveryLockTheyCanTake_passes() async throws {
        let stranger = try await PostgresConnection.connect(
            TestDatabase.login("ana", memberOf: ["repricer_pricing"]), applicationName: "test")
        let refused = await #expect(throws: PostgresError.self) {
            try await stranger.script(
                "BEGIN; LOCK TABLE repricer.schema_migrations IN ROW EXCLUSIVE MODE")
        }
        try await stranger.script(
            """
            ROLLBACK;
            BEGIN;
            SELECT pg_advisory_lock(7265707269636572);
            LOCK TABLE repricer.schema_migrations IN ACCESS SHARE MODE
            """)

        let applied = try await migrate(Self.column) { $0.limits.patience = .milliseconds(1) }

        await stranger.close()
        #expect(refused?.sqlState == .insufficientPrivilege)
        #expect(applied == 1)
    }

    // MARK: The folder

    /// Applies the baseline and one more file; returns how many were applied.
    @discardableResult
    private func migrate(
        _ text: String, _ change: @Sendable (inout Migrator) -> Void = { _ in }
    ) async throws -> Int {
        let folder = try ScratchFolder()
        let baseline = RepositoryFiles.path("Migrations")
        for file in try Migration.read(directory: baseline) {
            _ = try folder.file(file.file, file.text)
        }
        let number = String(format: "%04d", expectedSchemaVersion + 1)
        _ = try folder.file("\(number)_more.sql", text + "\n")
        defer { withExtendedLifetime(folder) {} }
        var migrator = try Migrator(directory: folder.path)
        change(&migrator)
        let connection = try await TestDatabase.connect()
        do {
            let applied = try await migrator.migrate(connection, at: Self.instant)
            await connection.close()
            return applied.count
        } catch {
            await connection.close()
            throw error
        }
    }
}

@Suite
struct MigrationHeadTests {
    private func fault(_ text: String) -> MigrationError? {
        do throws(MigrationError) {
            _ = try Migration(version: 1, name: "a", file: "0001_a.sql", text: text)
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: [
        "SELECT 1;", "-- breaking: perhaps\nSELECT 1;", "-- breaking:\nSELECT 1;",
        "-- breaking: no\n-- breaking: yes\nSELECT 1;", "SELECT 1;\n-- breaking: no", "",
    ])
    func file_withoutItsMark_isRefused(_ text: String) {
        #expect(fault(text) == .unmarked(file: "0001_a.sql"))
    }

    @Test(arguments: [
        ("-- breaking: no\nSELECT 1;\n-- step: more (later)\nSELECT 1;", "is no step"),
        ("-- breaking: no\nSELECT 1;\n-- step: more\nSELECT 1;", "is no step"),
        ("-- breaking: no\n-- analyze: pg_class\nSELECT 1;", "no table to analyse"),
        ("-- breaking: no\n-- analyze: repricer.a; DROP\nSELECT 1;", "no table to analyse"),
        (
            "-- breaking: no\n-- step: more (batches)\nUPDATE repricer.a SET b = 1;",
            "names no table to analyse"
        ),
        (
            "-- breaking: no\n-- step: more (alone)\nSELECT 1;\nSELECT 2;",
            "must hold exactly one statement"
        ),
        ("-- breaking: no\n-- step: more (alone)\n-- nothing", "must hold exactly one statement"),
    ])
    func head_thatCannotBeFollowed_isRefusedWithTheReason(_ text: String, _ reason: String) {
        guard case .badHead("0001_a.sql", let what) = fault(text) else {
            Issue.record("unexpected: \(String(describing: fault(text)))")
            return
        }
        #expect(what.contains(reason))
    }

    @Test func head_isRead() throws {
        let migration = try Migration(
            version: 1, name: "a", file: "0001_a.sql",
            text: """
                -- Why.
                -- breaking: yes
                -- analyze: repricer.a, report.b

                SELECT 1;
                -- step: all rows (batches)
                UPDATE repricer.a SET b = 1 WHERE bucket = :bucket AND b = 0;
                """)

        #expect(migration.isBreaking)
        #expect(migration.analyzed == ["repricer.a", "report.b"])
        #expect(migration.steps.map(\.kind) == [.transaction, .batches])
        #expect(migration.steps.map(\.what) == ["the schema", "all rows"])
        #expect(migration.steps.map(\.spreadsByBucket) == [false, true])
    }
}
