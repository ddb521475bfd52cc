import Postgres
import TestSupport
import Testing

@Suite(.database)
struct ConnectionTests {
    @Test func session_whenConnected_isInUTCAndNamed() async throws {
        let connection = try await PostgresConnection.connect(
            TestDatabase.url, applicationName: "round-trip",
            options: ConnectionOptions(
                statementTimeout: .milliseconds(1500), lockTimeout: .seconds(2), isReadOnly: true))

        let row = try await connection.query(
            """
            SELECT current_setting('TimeZone') AS zone, current_setting('application_name') AS name,
                current_setting('client_encoding') AS encoding,
                current_setting('statement_timeout') AS statement,
                current_setting('lock_timeout') AS lock,
                current_setting('default_transaction_read_only') AS read_only
            """
        ).one()

        #expect(try row.text("zone") == "UTC")
        #expect(try row.text("name") == "round-trip")
        #expect(try row.text("encoding") == "UTF8")
        #expect(try row.text("statement") == "1500ms")
        #expect(try row.text("lock") == "2s")
        #expect(try row.text("read_only") == "on")
    }

    /// PostgreSQL compiles by default; of our small statements that costs more than all their work.
    @Test func session_whereTheServerCompiles_doesNot() async throws {
        let connection = try await PostgresConnection.connect(
            TestDatabase.url + "&options=-c%20jit%3Don", applicationName: "compiled")

        #expect(try await connection.query("SHOW jit").one().text("jit") == "off")
    }

    @Test func connect_whenStringIsMalformed_neverRepeatsIt() async throws {
        for text in ["postgresql://u:secret@[host/x", "host=a password='secret"] {
            let error = await #expect(throws: PostgresError.self) {
                try await PostgresConnection.connect(text, applicationName: "test")
            }

            #expect(error?.code == .badConnectionString)
            #expect(error.map { String(reflecting: $0).contains("secret") } == false)
        }
    }

    @Test func connect_whenNobodyListens_isAConnectionLoss() async throws {
        let error = await #expect(throws: PostgresError.self) {
            try await PostgresConnection.connect(
                "host=/nonexistent password=secret", applicationName: "test")
        }

        #expect(error?.code == .cannotConnect)
        #expect(error?.isConnectionLoss == true)
        #expect(error.map { String(reflecting: $0).contains("secret") } == false)
    }

    /// The person on call reads the cause in the log, and no name of a host, user or database.
    @Test func connect_whenRefused_saysTheKnownCause_andNoNames() async throws {
        let login = try await TestDatabase.login("crowded", memberOf: ["repricer_service"])
        let owner = try await TestDatabase.connect()
        let user = TestDatabase.loginName("crowded")
        try await owner.script("ALTER ROLE \"\(user)\" CONNECTION LIMIT 0")
        let crowded = await #expect(throws: PostgresError.self) {
            try await PostgresConnection.connect(login, applicationName: "test")
        }
        let nobody = await #expect(throws: PostgresError.self) {
            try await PostgresConnection.connect(
                "host=/nonexistent,127.0.0.1 port=5432,1 dbname=secret", applicationName: "test")
        }

        #expect(
            crowded?.description
                == "postgres.cannotConnect: cannot connect to the database: too many connections for role"
        )
        #expect(
            nobody?.description
                == "postgres.cannotConnect: cannot connect to the database: Connection refused, No such file or directory"
        )
        await owner.close()
    }

    @Test func uniqueViolation_whenServerRefuses_namesConstraintAndHidesValues() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (id text CONSTRAINT t_pkey PRIMARY KEY)")
        try await connection.execute("INSERT INTO t VALUES (\("customer-7"))")

        let error = await #expect(throws: PostgresError.self) {
            try await connection.execute(
                """
                -- name: insertTwice
                INSERT INTO t VALUES (\("customer-7"))
                """)
        }

        #expect(error?.code == .server)
        #expect(error?.sqlState == SQLState("23505"))
        #expect(error?.sqlState?.isIntegrityConstraintViolation == true)
        #expect(error?.constraint == "t_pkey")
        #expect(error?.table == "t")
        #expect(error?.statement == "insertTwice")
        #expect(error?.description.contains("customer-7") == false)
        #expect(error?.debugDescription.contains("customer-7") == true)
    }

    @Test(arguments: [
        ("CREATE TEMP TABLE c (n int CHECK (n > 0)); INSERT INTO c VALUES (0)", "23514"),
        ("DO $$ BEGIN RAISE EXCEPTION 'no'; END $$", "P0001"),
        ("SELECT 1/0", "22012"),
        ("SELEC 1", "42601"),
        ("SELECT * FROM absent", "42P01"),
        ("SET ROLE repricer_finance; SELECT * FROM repricer.batches", "42501"),
        ("BEGIN READ ONLY; CREATE TABLE w (n int)", "25006"),
    ])
    func script_whenServerRefuses_carriesSQLState(_ text: String, _ state: String) async throws {
        let connection = try await TestDatabase.connect()

        let error = await #expect(throws: PostgresError.self) { try await connection.script(text) }

        #expect(error?.sqlState == SQLState(state))
        #expect(error?.isConnectionLoss == false)
    }

    @Test func dataException_whenShown_hidesTheValue() async throws {
        let connection = try await TestDatabase.connect()

        let error = await #expect(throws: PostgresError.self) {
            try await connection.query("SELECT \("4111-secret")::text::int")
        }

        #expect(error?.sqlState?.isDataException == true)
        #expect(error?.description.contains("4111-secret") == false)
    }

    @Test func statementTimeout_whenExceeded_isQueryCanceled() async throws {
        let connection = try await inTime {
            try await PostgresConnection.connect(
                TestDatabase.url, applicationName: "test",
                options: ConnectionOptions(statementTimeout: .milliseconds(20)))
        }

        let error = await #expect(throws: PostgresError.self) {
            try await connection.query("SELECT pg_sleep(30)")
        }

        #expect(error?.sqlState == SQLState("57014"))
        let next = try await inTime { try await connection.query("SELECT 1 AS one") }
        #expect(try next.one().int("one") == 1)
    }

    @Test func waitingTask_whenCancelled_leavesTheConnectionUsable() async throws {
        let connection = try await TestDatabase.connect()

        let task = Task { try await connection.query("SELECT pg_sleep(0.05), 41 AS n") }
        task.cancel()
        _ = try? await task.value

        #expect(try await connection.query("SELECT 42 AS n").one().int("n") == 42)
    }

    @Test func backend_whenTerminated_isAConnectionLoss() async throws {
        let connection = try await TestDatabase.connect()
        let killer = try await TestDatabase.connect()
        let victim = await connection.backendProcessID

        try await killer.execute("SELECT pg_terminate_backend(\(victim))")
        let error = await #expect(throws: PostgresError.self) {
            // The farewell and the break may reach us one after the other.
            while true { _ = try await connection.query("SELECT 1") }
        }

        #expect(error?.isConnectionLoss == true)
        #expect(await connection.isReusable == false)
    }

    @Test func call_whenClosed_saysSo() async throws {
        let connection = try await TestDatabase.connect()
        await connection.close()

        let error = await #expect(throws: PostgresError.self) {
            try await connection.query("SELECT 1")
        }

        #expect(error?.code == .closed)
    }

    @Test func preparedStatements_whenMany_stayBounded() async throws {
        let connection = try await TestDatabase.connect()

        for number in 0..<300 {
            let sql: SQL = "SELECT \(1) + \(unsafe: String(number)) AS n"
            #expect(try await connection.query(sql).one().int("n") == number + 1)
        }
        let known = try await connection.query("SELECT count(*) AS n FROM pg_prepared_statements")

        #expect(await connection.preparedStatementCount == 256)
        #expect(try known.one().int("n") <= 257)
    }

    @Test func preparedStatement_whenTableChanges_isPreparedAgain() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE s (a int); INSERT INTO s VALUES (1)")
        _ = try await connection.query("SELECT * FROM s")

        try await connection.script("ALTER TABLE s ADD COLUMN b int DEFAULT 2")

        #expect(try await connection.query("SELECT * FROM s").one().int("b") == 2)
    }

    /// Columns are remembered with the plan: another plan has its own, in a transaction and in a pipeline, too.
    @Test func columns_whenTheTableChanges_areTheNewOnes() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE s (a int, b int); INSERT INTO s VALUES (1, 2)")
        func read() async throws -> [Int] {
            let alone = try await connection.query("SELECT * FROM s").one()
            let piped = try await connection.pipeline(["SELECT * FROM s"])[0].one()
            return try ["a", "b"].map { try alone.int($0) } + ["a", "b"].map { try piped.int($0) }
        }

        let before = try await [read(), read()]
        try await connection.script(
            "ALTER TABLE s RENAME TO old; CREATE TABLE s AS SELECT b, a FROM old")
        let after = try await [read(), read()]
        let empty = try await connection.query("SELECT * FROM s WHERE a = \(9)")
        let full = try await connection.query("SELECT * FROM s WHERE a = \(1)").one()

        #expect(before == [[1, 2, 1, 2], [1, 2, 1, 2]])
        #expect(after == before)
        #expect(empty.isEmpty)
        #expect(try full.int("b") == 2)
    }

    @Test func statement_whenDiscarded_isPreparedAgain() async throws {
        let connection = try await TestDatabase.connect()
        _ = try await connection.query("SELECT \(1) AS n")

        try await connection.script("DEALLOCATE ALL")

        #expect(try await connection.query("SELECT \(2) AS n").one().int("n") == 2)
    }

    @Test func transaction_afterAForgottenStatementIsEvicted_isNotAborted() async throws {
        let connection = try await TestDatabase.connect()
        _ = try await connection.query("SELECT \(1) AS n")
        try await connection.script("DEALLOCATE ALL")

        await #expect(throws: PostgresError.self) {
            try await connection.transaction { _ = try $0.query("SELECT \(1) AS n") }
        }
        let value = try await connection.transaction { connection in
            _ = try connection.query("SELECT \(1) AS n")
            return try connection.query("SELECT \(2) + \(3) AS n").one().int("n")
        }

        #expect(value == 5)
    }

    @Test func oneOrNil_whenRowsDiffer_countsThem() async throws {
        let connection = try await TestDatabase.connect()

        let none = try await connection.query("SELECT 1 WHERE false").oneOrNil()

        #expect(none == nil)
        await #expect {
            try await connection.query("SELECT generate_series(1, 2)").oneOrNil()
        } throws: {
            ($0 as? PostgresError)?.code == .unexpectedRowCount
        }
    }
}
