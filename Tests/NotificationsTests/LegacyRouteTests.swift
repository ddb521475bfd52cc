import HTTP
import Postgres
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import Notifications

@Suite(.database) struct LegacyRouteTests {
    static let secret = "0123456789abcdef0123456789abcdef"
    static let now: Int64 = 1_780_272_000_000

    static func body(
        password: String = secret, bid: String = "com.example.app", environment: String = "Sandbox",
        type: String = "DID_CHANGE_RENEWAL_STATUS"
    ) -> String {
        """
        {"notification_type":"\(type)","password":"\(password)","environment":"\(environment)",
        "bid":"\(bid)","original_transaction_id":42,"auto_renew_status":"false",
        "auto_renew_status_change_date_ms":"\(now - 5)"}
        """
    }

    /// The elements that Apple's page "Enabling Server-to-Server Notifications" lists, and no other: none tells the
    /// app. A receipt may; `bid` stands there.
    static func bodyOfThePage(password: String = secret, bid: String = "") -> String {
        let receipt = """
            {"original_transaction_id":"42","product_id":"bundle","purchase_date_ms":"\(now - 9)"\(bid)}
            """
        return """
            {"environment":"Sandbox","notification_type":"CANCEL","password":"\(password)",
            "cancellation_date":"2026-05-31 23:59:59 Etc/GMT",
            "cancellation_date_pst":"2026-05-31 16:59:59 America/Los_Angeles",
            "cancellation_date_ms":"\(now - 5)","web_order_line_item_id":"7",
            "latest_receipt":"AAAA","latest_receipt_info":\(receipt),
            "latest_expired_receipt":"AAAA","latest_expired_receipt_info":\(receipt),
            "auto_renew_status":"false","auto_renew_product_id":"bundle",
            "auto_renew_status_change_date":"2026-05-31 23:59:59 Etc/GMT",
            "auto_renew_status_change_date_pst":"2026-05-31 16:59:59 America/Los_Angeles",
            "auto_renew_status_change_date_ms":"\(now - 5)"}
            """
    }

    @Test(arguments: [
        (bodyOfThePage(), 200), (bodyOfThePage(bid: #","bid":"com.example.app""#), 200),
        (bodyOfThePage(bid: #","bid":"com.example.other""#), 403),
        (bodyOfThePage(bid: #","bid":7"#), 403), (bodyOfThePage(password: "no"), 403),
    ])
    func post_ofTheElementsOfApplesPage_isTakenUnlessItNamesAnotherApp(
        _ body: String, _ status: Int
    ) async throws {
        try await withReceiver { harness, checks in
            let answered = try await self.post(harness, body)

            #expect(answered == status)
            #expect(checks.state.withLock { $0.asked } == (status == 200 ? ["42"] : []))
        }
    }

    /// What was asked for, and whether asking fails.
    final class Checks: Sendable {
        let state = Mutex((asked: [String](), fails: false))

        func ask(_ id: String) throws {
            let fails = state.withLock { state in
                if !state.fails { state.asked.append(id) }
                return state.fails
            }
            if fails { throw ArrivalError.unavailable("away") }
        }
    }

    private func withReceiver(
        log: Log = .silent, metrics: Metrics = Metrics(),
        _ body: @Sendable (ReceiverHarness, Checks) async throws -> Void
    ) async throws {
        let pool = PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 2)
        let intake = NotificationIntake(
            check: simpleCheck, clock: ManualClock(Self.now), metrics: metrics,
            store: NotificationStore(pool: pool))
        let checks = Checks()
        let legacy = LegacyIntake(
            intake: intake, secret: try #require(SharedSecret(fileContent: Self.secret + "\n")),
            bundleID: "com.example.app", environment: .sandbox, clock: ManualClock(Self.now)
        ) { id, _ in try checks.ask(id) }
        try await ReceiverHarness.run(intake: intake, legacy: legacy, log: log) { harness in
            try await body(harness, checks)
        }
        await pool.close()
    }

    private func post(_ harness: ReceiverHarness, _ body: String) async throws -> Int {
        try await harness.send("POST", "/notifications/v1", Array(body.utf8), nil).status
    }

    @Test func post_ofAGoodOne_keepsItOnceWithoutTheSecretAndAsksForTheStatus() async throws {
        let lines = Mutex("")
        let log = Log(component: "test") { line in lines.withLock { $0 += line } }
        try await withReceiver(log: log) { harness, checks in
            let first = try await self.post(harness, Self.body())
            let again = try await self.post(harness, Self.body())

            #expect([first, again] == [200, 200])
            #expect(checks.state.withLock { $0.asked } == ["42", "42"])
        }

        let connection = try await TestDatabase.connect()
        let kept = try await connection.query("SELECT * FROM repricer.notifications").one()
        let work = try await connection.query("SELECT * FROM repricer.inbox").one()
        await connection.close()
        #expect(try kept.text("notification_uuid").hasPrefix("v1:"))
        #expect(
            try kept.text("signed_payload") == Self.body(password: "[shared secret]"))
        #expect(try kept.text("original_transaction_id") == "42")
        #expect(try kept.bool("understood"))
        #expect(try work.milliseconds("signed_at") == Self.now - 5)
        #expect(!lines.withLock { $0 }.contains(Self.secret))
    }

    @Test(arguments: [
        (body(password: "0123456789abcdef0123456789abcdee"), 403), (body(password: ""), 403),
        (#"{"notification_type":"CANCEL","bid":"com.example.app","environment":"Sandbox"}"#, 403),
        (#"{"notification_type":"CANCEL","password":7}"#, 403),
        (body(bid: "com.example.other"), 403), (body(environment: "PROD"), 403),
        (body(environment: "Moon"), 403), ("{}", 400), ("", 400), ("[1]", 400),
        (String(repeating: "[", count: 100_000), 400),
        (String(repeating: " ", count: (1 << 20) + 1), 413),
    ])
    func post_ofABadOne_isRefusedAndNotKept(_ body: String, _ status: Int) async throws {
        try await withReceiver { harness, checks in
            let answered = try await self.post(harness, body)

            #expect(answered == status)
            #expect(checks.state.withLock { $0.asked.isEmpty })
        }

        let connection = try await TestDatabase.connect()
        let kept = try await connection.query("SELECT FROM repricer.notifications")
        #expect(kept.isEmpty)
        await connection.close()
    }

    @Test func post_whenTheCheckCannotBeAskedFor_answers503AndAsksWhenItComesAgain() async throws {
        try await withReceiver { harness, checks in
            checks.state.withLock { $0.fails = true }
            let failed = try await self.post(harness, Self.body())
            checks.state.withLock { $0.fails = false }
            let again = try await self.post(harness, Self.body())

            #expect([failed, again] == [503, 200])
            #expect(checks.state.withLock { $0.asked } == ["42"])
        }
    }

    @Test func post_ofAnUnknownType_isKeptAsNotUnderstoodAndCountedOnce() async throws {
        let metrics = Metrics()
        try await withReceiver(metrics: metrics) { harness, _ in
            let first = try await self.post(harness, Self.body(type: "SOMETHING_NEW"))
            let again = try await self.post(harness, Self.body(type: "SOMETHING_NEW"))
            #expect([first, again] == [200, 200])
        }

        #expect(
            metrics.render().split(separator: "\n").filter {
                $0.hasPrefix("repricer_unknown_parts_total") && !$0.hasSuffix(" 0")
            } == ["repricer_unknown_parts_total{kind=\"type\"} 1"])

        let connection = try await TestDatabase.connect()
        let kept = try await connection.query("SELECT * FROM repricer.notifications").one()
        #expect(try !kept.bool("understood"))
        let work = try await connection.query("SELECT FROM repricer.inbox")
        #expect(work.isEmpty)
        await connection.close()
    }

    @Test func v1_whenNotSwitchedOn_is404() async throws {
        try await ReceiverHarness.run(intake: makeIntake(MemoryStore())) { harness in
            let status = try await self.post(harness, Self.body())
            #expect(status == 404)
        }
    }
}
