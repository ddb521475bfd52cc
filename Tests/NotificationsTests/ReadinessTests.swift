import Glibc
import HTTP
import Notifications
import Postgres
import TestSupport
import Testing

/// `/readyz` beside a real PostgreSQL in bad states.
@Suite(.database)
struct ReadinessTests {
    private static func readiness(_ routes: HealthRoutes) async throws -> (Int, String) {
        let probe = HTTPRequest(method: "GET", target: "/readyz")
        let answer = try #require(await routes.answer(probe))
        return (answer.1.status, String(decoding: answer.1.body, as: UTF8.self))
    }

    private static func withRoutes(
        _ body: (HealthRoutes, PostgresPool) async throws -> Void
    ) async throws {
        let pool = PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 1)
        let store = NotificationStore(pool: pool)
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(HealthRoutes { await store.obstacle() }, pool))
        } catch {
            result = .failure(error)
        }
        await pool.close()
        try result.get()
    }

    /// As a machine that stands still: the connection is open, and nobody answers.
    @Test func readyz_whilePostgreSQLIsFrozen_says503WithinItsLimit() async throws {
        try await Self.withRoutes { routes, pool in
            let before = try await Self.readiness(routes)
            let server = try await pool.withConnection { await $0.backendProcessID }
            #expect(Glibc.kill(server, SIGSTOP) == 0)
            defer { _ = Glibc.kill(server, SIGCONT) }

            let began = ContinuousClock.now
            let frozen = try await Self.readiness(routes)
            let took = ContinuousClock.now - began

            #expect(before == (200, "ready\n"))
            #expect(frozen.0 == 503)
            #expect(frozen.1.hasPrefix("the database has not answered within 2"), "\(frozen.1)")
            // The limit, and what a busy machine adds.
            #expect(took < HealthRoutes.answersWithin + .seconds(30))
            #expect(Glibc.kill(server, SIGCONT) == 0)
            try await eventually { try await Self.readiness(routes).0 == 200 }
        }
    }

    @Test func readyz_onASchemaThatIsNewer_says200UntilAMigrationIsBreaking() async throws {
        let admin = try await TestDatabase.connect()
        try await Self.withRoutes { routes, _ in
            try await admin.script(
                """
                INSERT INTO repricer.schema_migrations (version, name, checksum, is_breaking, applied_at, finished_at)
                VALUES (98, 'more', '', false, now(), now())
                """)
            let newer = try await Self.readiness(routes)
            // Announced, and not applied yet.
            try await admin.script(
                """
                INSERT INTO repricer.schema_migrations (version, name, checksum, is_breaking, applied_at)
                VALUES (99, 'breaks', '', true, now())
                """)
            let breaking = try await Self.readiness(routes)

            #expect(newer == (200, "ready\n"))
            #expect(breaking.0 == 503)
            #expect(breaking.1.contains("programs of schema version 99 or newer"), "\(breaking.1)")
        }
        await admin.close()
    }
}
