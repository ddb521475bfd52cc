import Postgres
import TestSupport
import Testing

/// Statements that travel with `COMMIT`.
@Suite(.database)
struct SendLaterTests {
    struct Refusal: Error, Equatable {}

    private func makeTable(_ definition: String = "n int CONSTRAINT t_pkey PRIMARY KEY")
        async throws -> PostgresConnection
    {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (\(definition))")
        return connection
    }

    private func stored() async throws -> [Int] {
        let other = try await TestDatabase.connect()
        let numbers = try await other.query("SELECT n FROM t ORDER BY n").map { try $0.int("n") }
        await other.close()
        return numbers
    }

    @Test func statementForLater_whenItFails_isAStatementsErrorAndNothingIsStored() async throws {
        let connection = try await makeTable()

        for readsFirst in [false, true] {
            let error = await #expect(throws: PostgresError.self) {
                try await connection.transaction { connection in
                    if readsFirst { try connection.execute("INSERT INTO t VALUES (\(9))") }
                    try connection.sendLater([
                        "INSERT INTO t VALUES (\(1))",
                        """
                        -- name: insertAgain
                        INSERT INTO t VALUES (\(1))
                        """,
                        "SELECT 1 / \(0)",
                    ])
                }
            }

            #expect(error?.constraint == "t_pkey")
            #expect(error?.statement == "insertAgain")
            #expect(error?.phase == nil)
            #expect(await connection.isReusable)
            #expect(try await stored().isEmpty)
        }
    }

    @Test func statementForLater_whenTheBodyThrows_isForgotten() async throws {
        let connection = try await makeTable()

        await #expect(throws: Refusal()) {
            try await connection.transaction { connection in
                try connection.sendLater(["INSERT INTO t VALUES (\(1))"])
                throw Refusal()
            }
        }
        try await connection.transaction { _ = try $0.query("SELECT 1") }
        try await connection.execute("INSERT INTO t VALUES (\(2))")

        #expect(try await stored() == [2])
    }

    @Test func statementForLater_whenFlushedAndSwallowed_abortsTheTransaction() async throws {
        let connection = try await makeTable()

        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { connection in
                try connection.execute("INSERT INTO t VALUES (\(1))")
                try connection.sendLater(["INSERT INTO t VALUES (\(1))"])
                let flushed = #expect(throws: PostgresError.self) {
                    try connection.query("SELECT \(5)::int AS n")
                }
                #expect(flushed?.constraint == "t_pkey")
                try connection.sendLater(["INSERT INTO t VALUES (\(3))"])
            }
        }

        #expect(error?.code == .transactionAborted)
        #expect(try await stored().isEmpty)
        #expect(await connection.isReusable)
    }

    @Test func statementForLater_whoseValueIsRefused_isRefusedAtOnce() async throws {
        let connection = try await makeTable()

        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { connection in
                try connection.sendLater(["SELECT \("\0")::text"])
                Issue.record("a value that can't be sent was taken")
            }
        }

        #expect(error?.code == .nulInText)
    }

    @Test func statementForLater_outsideATransaction_isMisuse() async throws {
        let connection = try await makeTable()

        let error = await #expect(throws: PostgresError.self) {
            try await connection.sendLater(["INSERT INTO t VALUES (1)"])
        }

        #expect(error?.code == .transactionMisused)
        #expect(try await stored().isEmpty)
    }

    /// Where it ends the transaction what follows is stored by itself: it must not go unnoticed.
    @Test func statementForLater_thatEndsTheTransaction_isMisuse() async throws {
        let connection = try await makeTable()

        for text in ["COMMIT", "ROLLBACK"] {
            let error = await #expect(throws: PostgresError.self) {
                try await connection.transaction { connection in
                    _ = try connection.query("SELECT 1")
                    try connection.sendLater([SQL(unsafe: text)])
                }
            }

            #expect(error?.code == .transactionMisused)
            #expect(await connection.isReusable)
        }
    }

    @Test func commitWithStatements_whenADeferredConstraintFails_isAnErrorOfTheCommit() async throws
    {
        let connection = try await makeTable(
            "n int CONSTRAINT later UNIQUE DEFERRABLE INITIALLY DEFERRED")

        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { connection in
                try connection.execute("INSERT INTO t VALUES (\(1))")
                try connection.sendLater(["INSERT INTO t VALUES (\(1))"])
            }
        }

        #expect(error?.constraint == "later")
        #expect(error?.phase == .commit)
        #expect(error?.code == .server)
        #expect(await connection.isReusable)
        #expect(try await stored().isEmpty)
    }

    @Test func commitWithStatements_whenTheBackendWasEndedBefore_isUnknown() async throws {
        let connection = try await makeTable()
        let killer = try await TestDatabase.connect()

        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { connection in
                try connection.execute("INSERT INTO t VALUES (\(1))")
                try connection.sendLater(["INSERT INTO t VALUES (\(2))"])
                let victim = connection.backendProcessID
                let ended = try await killer.query(
                    "SELECT pg_terminate_backend(\(victim), 60000) AS ended"
                ).one().bool("ended")
                #expect(ended)
            }
        }

        #expect(error?.code == .commitOutcomeUnknown)
        #expect(error?.phase == .commit)
        #expect(await !connection.isReusable)
        #expect(try await stored().isEmpty)
        await killer.close()
    }

    /// The server is at COMMIT, or has not come to it yet, when its session ends: nobody can tell from here.
    @Test(arguments: ["INITIALLY DEFERRED", "INITIALLY IMMEDIATE"])
    func commitWithStatements_whenTheBackendEndsMeanwhile_isUnknown(_ when: String) async throws {
        let connection = try await makeTable()
        let killer = try await TestDatabase.connect()
        try await connection.script(
            """
            CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON t DEFERRABLE \(when)
            FOR EACH ROW EXECUTE FUNCTION wait();
            """)
        try await killer.script("SELECT pg_advisory_lock(1)")
        let victim = await connection.backendProcessID

        let task = Task {
            try await connection.transaction { try $0.sendLater(["INSERT INTO t VALUES (\(1))"]) }
        }
        try await eventually("a blocked statement") {
            try await !killer.query(
                "SELECT 1 FROM pg_locks WHERE pid = \(victim) AND NOT granted"
            ).isEmpty
        }
        try await killer.execute("SELECT pg_terminate_backend(\(victim))")
        let error = await #expect(throws: PostgresError.self) { try await task.value }

        #expect(error?.code == .commitOutcomeUnknown)
        #expect(error?.phase == .commit)
        #expect(await !connection.isReusable)
        await killer.close()
    }

    @Test func statementsForLater_whenLarge_neverDeadlock() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (n bigint PRIMARY KEY, payload text)")
        let payload = String(repeating: "p", count: 20_000)

        try await connection.transaction { connection in
            try connection.sendLater(
                (0..<1000).map { "INSERT INTO t VALUES (\($0), \(payload)) RETURNING n, payload" })
        }

        #expect(try await stored().count == 1000)
        #expect(await connection.preparedStatementCount == 1)
        #expect(await connection.isReusable)
    }

    /// Told apart by their text, however alike they look.
    @Test func statements_ofOneShape_areNotMixedUp() async throws {
        let connection = try await TestDatabase.connect()

        for _ in 0..<2 {
            let rows = try await connection.pipeline([
                "SELECT \(1) + 1 AS n", "SELECT \(1) + 2 AS n", "SELECT \(1) - 1 AS n",
            ])
            #expect(try rows.map { try $0.one().int("n") } == [2, 3, 0])
        }
        #expect(await connection.preparedStatementCount == 3)
        #expect(try await connection.query("SELECT \(1) + 2 AS n").one().int("n") == 3)
        #expect(try await connection.query("SELECT \("1")::int + 2 AS n").one().int("n") == 3)
    }
}
