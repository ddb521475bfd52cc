import HTTP
import ServiceKit
import TestSupport
import Testing

@testable import Notifications

@Suite struct ReceiverRoutesTests {
    @Test func post_whenNotificationIsGood_answers200OnceStored() async throws {
        let store = MemoryStore()

        try await ReceiverHarness.run(intake: makeIntake(store)) { harness in
            let first = try await harness.post(#"{"signedPayload":"ok:a","extra":1}"#)
            let second = try await harness.post(#"{"signedPayload":"ok:a"}"#)
            let strange = try await harness.post(#"{"signedPayload":"strange:b"}"#)

            #expect(first.status == 200)
            #expect(first.text == "{\"stored\":true,\"new\":true,\"understood\":true}\n")
            #expect(second.status == 200)
            #expect(second.text == "{\"stored\":true,\"new\":false,\"understood\":true}\n")
            #expect(strange.text == "{\"stored\":true,\"new\":true,\"understood\":false}\n")
        }
        #expect(store.state.withLock { $0.ids } == ["a", "b"])
    }

    @Test(arguments: [
        ("", 400), ("{", 400), ("[]", 400), ("null", 400), ("\"ok:a\"", 400), ("{}", 400),
        (#"{"signedPayload":7}"#, 400), (#"{"signedPayload":null}"#, 400),
        (#"{"signedPayload":"junk"}"#, 400), (#"{"signedPayload":"a\u0000b"}"#, 400),
        (#"{"signedPayload":"ok:unstorable"}"#, 400), (#"{"signedPayload":"forged"}"#, 403),
    ])
    func post_whenBodyIsBad_answersNever5xx(_ body: String, _ status: Int) async throws {
        let store = MemoryStore()

        try await ReceiverHarness.run(intake: makeIntake(store)) { harness in
            let response = try await harness.post(body)

            #expect(response.status == status)
            #expect(response.text.hasPrefix("{\"error\":\""))
        }
        #expect(store.state.withLock { $0.ids.isEmpty })
    }

    @Test func post_whenBodyIsNestedDeeply_answers400() async throws {
        let body = String(repeating: "[", count: 200_000)

        try await ReceiverHarness.run(intake: makeIntake(MemoryStore())) { harness in
            let status1 = try await harness.post(body).status
            #expect(status1 == 400)
        }
    }

    @Test func post_whenBodyIsNotUTF8_answers400() async throws {
        try await ReceiverHarness.run(intake: makeIntake(MemoryStore())) { harness in
            let body = Array(#"{"signedPayload":"ok:"#.utf8) + [0xFF, 0xFE] + Array(#""}"#.utf8)
            let response = try await harness.send("POST", "/notifications", body, nil)

            #expect(response.status == 400)
        }
    }

    @Test func post_whenBodyIsOverOneMebibyte_answers413() async throws {
        try await ReceiverHarness.run(intake: makeIntake(MemoryStore())) { harness in
            let body = [UInt8](repeating: 0x20, count: (1 << 20) + 1)
            let response = try await harness.send("POST", "/notifications", body, nil)

            #expect(response.status == 413)
        }
    }

    @Test func post_whenTokenIsAskedFor_answers401WithoutIt() async throws {
        let store = MemoryStore()

        try await ReceiverHarness.run(intake: makeIntake(store), token: "s3cret") { harness in
            let body = #"{"signedPayload":"ok:a"}"#
            let without = try await harness.post(body)
            let wrong = try await harness.post(body, authorization: "Bearer s3creT")
            let right = try await harness.post(body, authorization: "Bearer s3cret")

            #expect(without.status == 401)
            #expect(without.headers["WWW-Authenticate"] == "Bearer")
            #expect(wrong.status == 401)
            #expect(right.status == 200)
        }
    }

    @Test func post_whenDatabaseIsAway_answers503AndStoresWhenSentAgain() async throws {
        let store = MemoryStore()
        store.state.withLock { $0.isAway = true }

        try await ReceiverHarness.run(intake: makeIntake(store)) { harness in
            let away = try await harness.post(#"{"signedPayload":"ok:a"}"#)
            store.state.withLock { $0.isAway = false }
            let back = try await harness.post(#"{"signedPayload":"ok:a"}"#)

            #expect(away.status == 503)
            #expect(away.headers["Retry-After"] == "5")
            #expect(back.status == 200)
        }
    }

    @Test func drain_whenCalled_refusesNotificationsAndReadiness() async throws {
        try await ReceiverHarness.run(intake: makeIntake(MemoryStore())) { harness in
            let before = try await harness.get("/readyz")
            harness.health.drain()

            #expect(before.status == 200)
            let status2 = try await harness.get("/readyz").status
            #expect(status2 == 503)
            let status3 = try await harness.post(#"{"signedPayload":"ok:a"}"#).status
            #expect(status3 == 503)
            let status4 = try await harness.get("/healthz").status
            #expect(status4 == 200)
        }
    }

    @Test func leave_whenCalled_refusesReadinessAlone() async throws {
        try await ReceiverHarness.run(intake: makeIntake(MemoryStore())) { harness in
            harness.health.leave()

            let ready = try await harness.get("/readyz").status
            #expect(ready == 503)
            let stored = try await harness.post(#"{"signedPayload":"ok:a"}"#).status
            #expect(stored == 200)
            let alive = try await harness.get("/healthz").status
            #expect(alive == 200)
        }
    }

    @Test func readyz_whenSchemaIsAnother_saysWhy() async throws {
        let why = "the schema is at version 3, not 4"

        try await ReceiverHarness.run(intake: makeIntake(MemoryStore()), obstacle: why) { harness in
            let response = try await harness.get("/readyz")

            #expect(response.status == 503)
            #expect(response.text == "the schema is at version 3, not 4\n")
        }
    }

    @Test func metrics_whenPartsAreUnknown_countsThemOnceByKindAlone() async throws {
        let metrics = Metrics()
        let store = MemoryStore()
        let unknown = ["field:transaction.gift", "field:renewal.a", "value:status.9", "type:NEW"]
        let intake = NotificationIntake(
            check: { payload, _ throws(NotificationRefusal) in
                Arrival(
                    notificationUUID: payload, originalTransactionID: "1", understood: true,
                    unknown: payload == "known" ? [] : unknown, evidence: .whole(payload))
            }, clock: ManualClock(0), metrics: metrics
        ) { batch throws(ArrivalError) in try store.commit(batch) }

        for payload in ["one", "one", "known", "two"] { _ = await intake.take(payload) }

        #expect(
            metrics.render().split(separator: "\n").filter {
                $0.hasPrefix("repricer_unknown_parts_total") && !$0.hasSuffix(" 0")
            }.sorted() == [
                "repricer_unknown_parts_total{kind=\"field\"} 4",
                "repricer_unknown_parts_total{kind=\"type\"} 2",
                "repricer_unknown_parts_total{kind=\"value\"} 2",
            ])
    }

    @Test func metrics_whenNotificationsCame_countsThemByOutcome() async throws {
        let metrics = Metrics()
        let intake = makeIntake(MemoryStore(), metrics: metrics)

        try await ReceiverHarness.run(intake: intake, metrics: metrics) { harness in
            _ = try await harness.post(#"{"signedPayload":"ok:a"}"#)
            _ = try await harness.post(#"{"signedPayload":"forged"}"#)
            _ = try await harness.post("[]")
            let text = metrics.render()

            #expect(text.contains("repricer_notifications_total{outcome=\"new\"} 1"))
            #expect(text.contains("repricer_notifications_total{outcome=\"bad_signature\"} 1"))
            #expect(text.contains("repricer_notifications_total{outcome=\"no_signed_payload\"} 1"))
            #expect(text.contains("route=\"notifications\",status=\"403\"} 1"))
        }
    }

    @Test(arguments: [
        ("GET", "/notifications", 405, "POST, OPTIONS"),
        ("HEAD", "/notifications", 405, "POST, OPTIONS"),
        ("BREW", "/notifications", 405, "POST, OPTIONS"),
        ("post", "/notifications", 405, "POST, OPTIONS"),
        ("TRACE", "/readyz", 405, "GET, HEAD, OPTIONS"), ("TRACE", "/nowhere", 404, nil),
        ("POST", "/", 404, nil), ("DELETE", "/batches/1", 404, nil),
        ("POST", "/healthz", 405, "GET, HEAD, OPTIONS"), ("HEAD", "/healthz", 200, nil),
        ("OPTIONS", "/notifications", 204, "POST, OPTIONS"),
        ("GET", "/nothing", 404, nil), ("POST", "/notifications/v1", 404, nil),
        ("GET", "/batches", 404, nil), ("GET", "/batches/1/2", 404, nil),
    ])
    func respond_whenRouteOrMethodIsWrong_says404Or405(
        _ method: String, _ target: String, _ status: Int, _ allow: String?
    ) async throws {
        try await ReceiverHarness.run(intake: makeIntake(MemoryStore())) { harness in
            let response = try await harness.send(method, target, [], nil)

            #expect(response.status == status)
            #expect(response.headers["Allow"] == allow)
        }
    }

    @Test(arguments: [
        "/", "/?", "//", "/./", "/metrics", "//metrics", "/metrics/", "/%6detrics", "/%6Detrics",
        "/./metrics", "/notifications/../metrics", "/notifications/%2e%2e/metrics",
        "/notifications//../metrics", "/notifications%2f..%2fmetrics", "/metrics?x=/notifications",
        "/batches/1", "//batches/1", "/batches/00000000-0000-7000-8000-000000000001",
        "/subscriptions/1", "/search?q=1", "/reports/money", "/health", "//healthz", "/healthz/",
        "/healthz/metrics", "/readyz/", "/%72eadyz", "/notifications/", "//notifications",
        "/%6eotifications", "/Notifications", "/notifications/v1", "/notifications/v1/",
        "/notifications;/", "/notifications%00",
    ])
    func respond_whenThePathIsAnyOther_says404AndTellsNothing(_ target: String) async throws {
        let store = MemoryStore()

        try await ReceiverHarness.run(intake: makeIntake(store)) { harness in
            let read = try await harness.get(target)
            let body = Array(#"{"signedPayload":"ok:a"}"#.utf8)
            let posted = try await harness.send("POST", target, body, nil)

            #expect(read.status == 404)
            #expect(read.text == "no such path\n")
            #expect(posted.status == 404)
        }
        #expect(store.state.withLock { $0.ids.isEmpty })
    }
}
