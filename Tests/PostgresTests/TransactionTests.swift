import Postgres
import Synchronization
import TestSupport
import Testing

@Suite(.database)
struct TransactionTests {
    struct Refusal: Error, Equatable {}

    private func makeTable() async throws -> PostgresConnection {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (n int PRIMARY KEY)")
        return connection
    }

    private func count(_ connection: PostgresConnection) async throws -> Int {
        try await connection.query("SELECT count(*) AS n FROM t").one().int("n")
    }

    @Test func transaction_whenBodyReturns_isCommitted() async throws {
        let connection = try await makeTable()

        let value = try await connection.transaction(.serializable) { connection in
            try connection.execute("INSERT INTO t VALUES (1)")
            return try connection.query("SHOW transaction_isolation").one()
                .text("transaction_isolation")
        }

        #expect(value == "serializable")
        #expect(try await count(connection) == 1)
        #expect(await connection.isReusable)
    }

    @Test func transaction_whenBodyThrows_isRolledBackAndItsErrorThrown() async throws {
        let connection = try await makeTable()

        await #expect(throws: Refusal()) {
            try await connection.transaction { connection in
                try connection.execute("INSERT INTO t VALUES (1)")
                throw Refusal()
            }
        }

        #expect(try await count(connection) == 0)
        #expect(await connection.isReusable)
    }

    @Test func transaction_whenBodySwallowsAnError_isNotCommitted() async throws {
        let connection = try await makeTable()

        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { connection in
                try connection.execute("INSERT INTO t VALUES (1)")
                _ = try? connection.execute("INSERT INTO t VALUES (1)")
            }
        }

        #expect(error?.code == .transactionAborted)
        #expect(try await count(connection) == 0)
    }

    @Test func transaction_whenNestedOrEndedByItself_isMisuse() async throws {
        let connection = try await makeTable()

        let nested = await #expect(throws: PostgresError.self) {
            try await connection.transaction { connection in
                try await connection.transaction { _ in }
            }
        }
        let ended = await #expect(throws: PostgresError.self) {
            try await connection.transaction { try $0.script("COMMIT") }
        }

        #expect(nested?.code == .transactionMisused)
        #expect(ended?.code == .transactionMisused)
        #expect(try await connection.transaction { _ in 1 } == 1)
    }

    @Test func commit_whenRefused_carriesItsPhase() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            "CREATE TABLE t (n int, CONSTRAINT later UNIQUE (n) DEFERRABLE INITIALLY DEFERRED)")

        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { try $0.script("INSERT INTO t VALUES (1), (1)") }
        }

        #expect(error?.phase == .commit)
        #expect(error?.constraint == "later")
        #expect(error?.code == .server)
        #expect(await connection.isReusable)
    }

    @Test func commit_whenConnectionBreaks_isUnknown() async throws {
        let connection = try await makeTable()
        let killer = try await TestDatabase.connect()
        // The deferred trigger waits at COMMIT for a lock, and the backend is ended meanwhile.
        try await connection.script(
            """
            CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION wait();
            """)
        try await killer.script("SELECT pg_advisory_lock(1)")
        let victim = await connection.backendProcessID

        let task = Task {
            try await connection.transaction { try $0.script("INSERT INTO t VALUES (1)") }
        }
        try await eventually("a blocked statement") {
            try await !killer.query(
                "SELECT 1 FROM pg_locks WHERE pid = \(victim) AND NOT granted"
            ).isEmpty
        }
        try await killer.execute("SELECT pg_terminate_backend(\(victim))")
        let error = await #expect(throws: PostgresError.self) { try await task.value }

        // The farewell says that it was ended, not whether the commit had become durable.
        #expect(error?.code == .commitOutcomeUnknown)
        #expect(error?.phase == .commit)
        #expect(error?.isConnectionLoss == true)
    }

    @Test func transaction_whenConnectionBreaksInTheBody_throwsTheLoss() async throws {
        let connection = try await makeTable()

        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { connection in
                try connection.script("SELECT pg_terminate_backend(pg_backend_pid())")
            }
        }

        #expect(error?.isConnectionLoss == true)
        #expect(error?.phase == nil)
        #expect(await connection.isReusable == false)
    }

    @Test func serializationFailure_whenTwoWritersCross_isRetryable() async throws {
        let first = try await makeTable()
        let second = try await TestDatabase.connect()
        try await first.script("INSERT INTO t VALUES (1)")

        let error = await #expect(throws: PostgresError.self) {
            try await first.transaction(.repeatableRead) { connection in
                _ = try connection.query("SELECT * FROM t")
                try await second.script("UPDATE t SET n = 2")
                try connection.execute("UPDATE t SET n = 3")
            }
        }

        #expect(error?.sqlState == .serializationFailure)
        #expect(error?.sqlState?.isTransactionRetryable == true)
    }
}
