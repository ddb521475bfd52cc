import Batches
import Postgres
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import PriceChanges
@testable import Pricing

/// Changes that are due while another session holds their buckets are told of, and no others.
@Suite(.database) struct UnclaimedTests {
    private typealias Harness = DeliveryHarness

    private final class Lines: Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }
        func add(_ line: String) { lines.withLock { $0.append(line) } }
    }

    private static let metric = "repricer_changes_due_unclaimed_seconds"

    @Test func dueChange_ofABucketThatIsHeld_isTold_untilItIsClaimed() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let metrics = Metrics()
        let scheduler = Scheduler(
            harness.engine(metrics: metrics), store: harness.store, wait: { _ in })
        let holder = try await TestDatabase.connect()
        try await holder.script("BEGIN; SELECT 1 FROM repricer.bucket_turns FOR UPDATE")

        for _ in 0..<2 { _ = try await scheduler.round() }
        #expect(harness.store.calls.isEmpty)
        #expect(!metrics.render().contains("\n\(Self.metric) 0\n"))

        try await holder.script("ROLLBACK")
        try await harness.deliver(scheduler)
        #expect(harness.store.calls.count == 1)
        #expect(metrics.render().contains("\n\(Self.metric) 0\n"))
        await holder.close()
        await harness.close()
    }

    /// Whoever holds them is named, so that they can be asked, or ended.
    @Test func dueChange_heldByAPerson_namesTheSession() async throws {
        let harness = try await Harness.make()
        let lines = Lines()
        let watch = UnclaimedWatch(
            pool: harness.service, realClock: harness.realClock,
            log: Log(component: "test", sink: lines.add),
            metrics: Metrics())
        let holder = try await TestDatabase.connect()
        try await holder.script("BEGIN; SELECT 1 FROM repricer.bucket_turns FOR UPDATE")
        let pid = try await holder.query("SELECT pg_backend_pid() AS pid").one().int("pid")

        let start = ContinuousClock.now
        try await watch.note(isStuck: true, now: start)
        try await watch.note(isStuck: true, now: start + .seconds(61))

        #expect(lines.all.count == 1)
        #expect(lines.all.first?.contains("pid \(pid) of ") == true)
        try await holder.script("ROLLBACK")
        await holder.close()
        await harness.close()
    }

    /// Until then its batch waits, and nobody else does: others are delivered, folded and counted.
    @Test func decision_inATransactionThatStaysOpen_holdsUpItsBatchAlone() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        let guards = BatchTerms(guards: try GuardRail.list("errors>5%/1"))
        let held = try await harness.submit([Harness.row("1")], content: "held", terms: guards)
        let other = try await harness.submit([Harness.row("2")], content: "other", terms: guards)
        for batchID in [held, other] { try await harness.approve(batchID) }
        let holder = try await PostgresConnection.connect(
            try await TestDatabase.login("holder", memberOf: ["repricer_pricing"]),
            applicationName: "psql")
        try await holder.script("BEGIN")
        _ = try await holder.query(
            "SELECT repricer.withdraw_batch(\(uuid: held), now(), 'aborted', NULL)")
        let watch = BatchWatch(
            pool: harness.service, clock: harness.clock, realClock: harness.realClock,
            log: .silent, metrics: Metrics())

        let isDone = Mutex(false)
        let work = Task {
            try await watch.round()
            try await harness.deliver(harness.scheduler())
            try await harness.tell(Harness.scheduled("2", status: "PENDING"))
            isDone.withLock { $0 = true }
        }
        // The server ends the holder after a minute: what needs that long has waited for it.
        try await eventually("the work of others", within: .seconds(30)) {
            isDone.withLock { $0 }
        }
        try await work.value

        #expect(harness.store.calls.map(\.transactionID) == ["2"])
        #expect(try await harness.changes().sorted() == ["A pending_consent", "A queued"])
        try await holder.script("ROLLBACK")
        await holder.close()
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.map(\.transactionID) == ["2", "1"])
        await harness.close()
    }

    /// A person who decides and then leaves the transaction open is ended by the server after a minute.
    @Test func decision_inATransactionThatStaysOpen_isBoundToAMinute() async throws {
        let harness = try await Harness.make()
        let setting = "SELECT current_setting('idle_in_transaction_session_timeout') AS text"
        func decided(_ session: String) async throws -> [String] {
            try await harness.approver.withConnection { connection in
                try await connection.script(session)
                try await connection.script("BEGIN")
                let before = try await connection.query(SQL(unsafe: setting)).one().text("text")
                _ = try await connection.query(
                    "SELECT repricer.set_pause(NULL, now(), true, NULL)")
                let inside = try await connection.query(SQL(unsafe: setting)).one().text("text")
                try await connection.script("COMMIT")
                let after = try await connection.query(SQL(unsafe: setting)).one().text("text")
                return [before, inside, after]
            }
        }

        let unlimited = try await decided("SET idle_in_transaction_session_timeout = 0")
        let longer = try await decided("SET idle_in_transaction_session_timeout = '1h'")
        let shorter = try await decided("SET idle_in_transaction_session_timeout = '5s'")

        #expect(unlimited == ["0", "1min", "0"])
        #expect(longer == ["1h", "1min", "1h"])
        #expect(shorter == ["5s", "5s", "5s"])
        await harness.close()
    }
}
