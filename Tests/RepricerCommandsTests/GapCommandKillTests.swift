import Foundation
import Glibc
import JOSE
import Postgres
import SandboxStore
import Synchronization
import TestSupport
import Testing

/// Real `repricer sync` and `repricer reconcile`, killed again and again half-way: nothing is lost, and nothing is
/// read again that was written down.
@Suite(.database) struct GapCommandKillTests {
    @Test func sync_killedHalfWay_readsEachIDOnceAndOnlyTheOpenOnesAgain() async throws {
        let scratch = try ScratchFolder()
        let store = try GapStore(messages: 0)
        let ids = (0..<500).map { String(2_000_000_000 + $0) }
        let file = try scratch.file("ids.txt", ids.joined(separator: "\n") + "\n")
        var asked: [String: Int] = [:]
        var done: Set<String> = []

        for callsUntilDeath in [3, 90, 200, Int.max] {
            let calls = try await life(["sync", file, "--json"], callsUntilDeath, store, scratch)
            // What was written down before this run was not read again.
            #expect(Set(calls).intersection(done) == [])
            #expect(Set(calls).count == calls.count)
            for id in calls { asked[id, default: 0] += 1 }
            done = try await Set(
                texts(
                    """
                    SELECT original_transaction_id AS text FROM repricer.status_checks
                    WHERE done_at IS NOT NULL
                    """))
        }

        // Each death costs what was on its way: 64 calls at most.
        #expect(Set(asked.keys) == Set(ids))
        #expect(asked.values.reduce(0, +) <= ids.count + 3 * 64)
        #expect(
            try await texts(
                """
                SELECT original_transaction_id AS text FROM repricer.subscription_events
                """
            ).count >= ids.count)
        #expect(
            try await Set(
                texts(
                    """
                    SELECT original_transaction_id AS text FROM repricer.subscriptions
                    WHERE status = 1 AND auto_renews
                    """)) == Set(ids))
        #expect(try await texts("SELECT reason AS text FROM repricer.status_checks") == [])
    }

    @Test func reconcile_killedHalfWay_losesNoNotificationAndReadsNoPageTwiceButTheLast()
        async throws
    {
        let scratch = try ScratchFolder()
        let store = try GapStore(messages: 400)
        let since = Date.now.addingTimeInterval(-2 * 86_400).formatted(.iso8601)
        var asked: [String: Int] = [:]

        for callsUntilDeath in [2, 6, 9, Int.max] {
            // The lease of one that died ends by itself; here at once.
            try await run("DELETE FROM repricer.service_leases")
            let pages = try await life(
                ["reconcile", "--since", since, "--json"], callsUntilDeath, store, scratch)
            for page in pages { asked[page, default: 0] += 1 }
        }

        // One page a death: the one that was on its way.
        #expect(asked.values.filter { $0 > 1 }.reduce(0) { $0 + $1 - 1 } <= 3, "\(asked)")
        #expect(asked.count >= 400 / 20)
        #expect(
            try await Set(
                texts("SELECT notification_uuid AS text FROM repricer.notifications")) == store.ids)
        #expect(
            try await texts(
                "SELECT evidence_id AS text FROM repricer.subscription_events"
            ).sorted() == store.ids.sorted())
        #expect(try await texts("SELECT notification_uuid AS text FROM repricer.inbox") == [])
        #expect(
            try await texts(
                """
                SELECT page_token AS text FROM repricer.history_reading
                WHERE window_start IS NOT NULL OR page_token IS NOT NULL
                """) == [])
    }

    /// One run of the program, killed at one of its calls; returns what it asked. Over when nothing of it is left: no
    /// call that the store still answers, and no session that still writes.
    private func life(
        _ arguments: [String], _ callsUntilDeath: Int, _ store: GapStore, _ scratch: ScratchFolder
    ) async throws -> [String] {
        let fate = Fate()
        store.watch { if $0 == callsUntilDeath { fate.strike() } }
        try await store.serving { url in
            let child = try Program(
                Program.built("repricer"), arguments,
                environment: try Self.settings(url, store, scratch))
            fate.meet(child)
            let end = try await child.end()
            #expect(end.code == (callsUntilDeath == .max ? 0 : nil), "\(end)")
        }
        let session: SQL = """
            SELECT pid::text AS text FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            """
        try await eventually("the end of its sessions") { try await texts(session).isEmpty }
        return store.watch { _ in }
    }

    static func settings(
        _ url: String, _ store: GapStore, _ scratch: ScratchFolder
    ) throws -> [String: String] {
        [
            "REPRICER_DATABASE_URL": TestDatabase.url, "REPRICER_BUNDLE_ID": "com.example.app",
            "REPRICER_ENVIRONMENT": "Sandbox", "REPRICER_API_BASE_URL": url,
            "REPRICER_ROOT_CERTIFICATES": try scratch.file("root.pem", store.roots),
            "REPRICER_ISSUER_ID": "57246542-96fe-1a63-e053-0824d011072a",
            "REPRICER_KEY_ID": "ABC123DEFG",
            "REPRICER_KEY_FILE": try scratch.secret("key.p8", try ES256PrivateKey.newPEM()),
            "REPRICER_STATUS_RATE": "1000",
        ]
    }

    private func texts(_ sql: SQL) async throws -> [String] {
        let connection = try await TestDatabase.connect()
        let texts = try await connection.query(sql).map { try $0.textOrNil("text") ?? "" }
        await connection.close()
        return texts
    }

    private func run(_ sql: SQL) async throws {
        let connection = try await TestDatabase.connect()
        _ = try await connection.execute(sql)
        await connection.close()
    }
}

/// Kills a child at a moment that may come before the test knows the child.
private final class Fate: Sendable {
    private let state = Mutex((child: Program?.none, isDue: false))

    func strike() {
        let child = state.withLock { state in
            state.isDue = true
            return state.child
        }
        child?.kill()
    }

    func meet(_ child: Program) {
        let isDue = state.withLock { state in
            state.child = child
            return state.isDue
        }
        if isDue { child.kill() }
    }
}
