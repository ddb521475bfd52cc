import Foundation
import HTTP
import TestSupport
import Testing

/// A real `repricer serve` without a reconciler that takes a V1 notification in.
@Suite(.database) struct LegacyHintTests {
    @Test func serve_afterAV1Notification_readsTheStatusThatItHintsAt() async throws {
        let scratch = try ScratchFolder()
        let store = try GapStore(messages: 0)
        let secret = try scratch.secret("secret", "shared\n")

        try await store.serving { url in
            let settings = try GapCommandKillTests.settings(url, store, scratch).merging([
                "REPRICER_LISTEN": "127.0.0.1:0", "REPRICER_PAGES_LISTEN": "off",
                "REPRICER_RECONCILE_EVERY": "off",
                "REPRICER_V1_SHARED_SECRET_FILE": secret,
            ]) { $1 }
            let program = try Program(
                Program.built("repricer"), ["serve"], environment: settings)
            defer { program.kill() }
            let client = try HTTPClient(
                baseURL: "http://127.0.0.1:\(try await program.port())")
            defer { client.close() }
            let answer = try await client.send(
                HTTPRequest(
                    method: "POST", target: "/notifications/v1",
                    body: Array(
                        """
                        {"notification_type":"CANCEL","password":"shared","environment":"Sandbox",
                        "latest_receipt_info":{"original_transaction_id":"42"}}
                        """.utf8)))
            #expect(answer.status == 200)

            try await eventually("the status") { try await Self.statuses() == ["42 1"] }
        }
    }

    private static func statuses() async throws -> [String] {
        let connection = try await TestDatabase.connect()
        let texts = try await connection.query(
            """
            SELECT original_transaction_id || ' ' || status AS text FROM repricer.subscriptions
            WHERE status IS NOT NULL
            """
        ).map { try $0.text("text") }
        await connection.close()
        return texts
    }
}
