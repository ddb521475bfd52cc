import Foundation
import HTTP
import JOSE
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import SandboxStore

/// The whole store over TLS, with a receiver, on a clock that the test sets.
@Suite struct ServeTests {
    private static let start = Fixture.instant("2026-01-12")

    private final class Receiver: Sendable {
        let payloads = Mutex<[String]>([])
        let status = Mutex(200)

        func handle(_ request: HTTPRequest) -> HTTPResponse {
            let payload = JSONValue.parse(request.body)?.object?["signedPayload"]?.string
            payloads.withLock { $0.append(payload ?? "") }
            return HTTPResponse(status: status.withLock { $0 })
        }
    }

    private struct Harness {
        var folder: ScratchFolder
        var store: StoreFile
        var keys: StoreKeys
        var clock: ManualClock
        var receiver = Receiver()
        var client: HTTPClient
        var routes: Routes

        func token() throws -> String {
            try BearerTests.token(
                keys.apiKey,
                head: "{\"alg\":\"ES256\",\"kid\":\"\(store.keyID)\",\"typ\":\"JWT\"}",
                iss: store.issuerID, iat: nil, exp: clock.nowMilliseconds() / 1000 + 300)
        }

        func send(
            _ method: String, _ target: String, _ body: [UInt8] = [], authorized: Bool = true
        ) async throws -> HTTPResponse {
            var headers = HTTPHeaders([("Content-Type", "application/json")])
            if authorized { headers["Authorization"] = try token() }
            return try await client.send(
                HTTPRequest(method: method, target: target, headers: headers, body: body))
        }

        func change(_ price: Int64, reference: Int = 1) async throws -> HTTPResponse {
            try await send(
                "POST", "/advancedCommerce/v1/subscription/changePrice/\(Fixture.idText)",
                Fixture.body(
                    "[{\"SKU\":\"A\",\"price\":\(price)}]", reference: reference))
        }
    }

    /// Runs `body` beside a server, its receiver and its courier, and stops them afterwards.
    private func withHarness(
        in folder: ScratchFolder? = nil, at now: Int64 = start,
        _ body: (Harness) async throws -> Void
    ) async throws {
        let folder = try folder ?? ScratchFolder()
        let receiver = Receiver()
        let inbox = try HTTPServer(
            host: "127.0.0.1", port: 0, log: .silent, handler: { receiver.handle($0) })
        let inboxPort = try inbox.bind()
        let storeFolder = try StoreFolder(folder.path)
        let keys = try StoreKeys.loadOrMake(in: storeFolder)
        let store = StoreFile(
            identity: .init(
                bundleID: "com.example.stream", appAppleID: 7, environment: "Production"),
            issuerID: "issuer", keyID: "STOREKEY01",
            options: .init(seed: 7, calendar: BillingCalendar()), start: Self.start,
            subscriptions: [Fixture.subscription()])
        let clock = ManualClock(now)
        let keeper = try StoreKeeper(
            store: store, folder: storeFolder, clock: clock, realSecond: 1000)
        let statements = Statements(
            identity: store.identity, signer: try keys.authority.signer())
        let courier = Courier(
            keeper: keeper, statements: statements,
            client: try HTTPClient(baseURL: "http://127.0.0.1:\(inboxPort)"),
            target: "/notifications", receiver: ("127.0.0.1", inboxPort), isFast: true, log: .silent
        )
        let routes = Routes(
            keeper: keeper, courier: courier, statements: statements,
            bearer: BearerCheck(
                key: keys.apiKey.publicKey, keyID: "STOREKEY01", issuerID: "issuer",
                bundleID: "com.example.stream", leewaySeconds: 60),
            clockSpecification: "2026-01-12T00:00:00Z@1@0", log: .silent)
        let tls = try keys.authority.serverIdentity(
            validFrom: StoreKeys.validFrom, validUntil: StoreKeys.validUntil)
        let server = try HTTPServer(
            host: "127.0.0.1", port: 0,
            tls: ServerIdentity(
                certificateChainPEM: tls.certificateChainPEM, privateKeyPEM: tls.keyPEM),
            log: .silent, handler: { await routes.handle($0) })
        let port = try server.bind()
        let client = try HTTPClient(
            baseURL: "https://localhost:\(port)", extraCAFile: "\(folder.path)/tls-ca.pem")
        let harness = Harness(
            folder: folder, store: store, keys: keys, clock: clock, receiver: receiver,
            client: client, routes: routes)
        let group = Task {
            try await ServiceGroup([inbox, server, courier], log: .silent)
                .run(until: AsyncStream<Void> { _ in })
        }
        do {
            try await body(harness)
        } catch {
            group.cancel()
            throw error
        }
        client.close()
        group.cancel()
        try await group.value
    }

    @Test func changePrice_overTLS_isSignedAndNotified() async throws {
        try await withHarness { harness in
            let response = try await harness.change(15_990)
            let roots = try TrustedRoots(certificatesIn: "\(harness.folder.path)/root.pem")
            let verifier = try JWSVerifier(roots: roots)
            let now = harness.clock.nowMilliseconds()

            #expect(response.status == 200)
            let fields = try #require(JSONValue.parse(response.body)?.object)
            let signed = try #require(fields["signedRenewalInfo"]?.string)
            let renewal = try verifier.payload(of: signed, at: now)
            let text = String(decoding: renewal, as: UTF8.self)
            #expect(
                text.contains("\"priceIncreaseInfo\":{\"price\":15990,\"status\":\"SCHEDULED\"}"))
            // A notification is signed after the answer; its time must come.
            harness.clock.set(now + 1000)
            try await eventually { harness.receiver.payloads.withLock { !$0.isEmpty } }
            let posted = try #require(harness.receiver.payloads.withLock { $0.first })
            let payload = try verifier.payload(of: posted, at: now)
            let notification = try #require(JSONValue.parse(payload)?.object)
            #expect(notification["notificationType"]?.string == "PRICE_CHANGE")
            #expect(posted.utf8.count > 10_000)
        }
    }

    @Test func request_wrongAtTheDoor_isRefused() async throws {
        try await withHarness { harness in
            let path = "/advancedCommerce/v1/subscription/changePrice/\(Fixture.idText)"
            let anonymous = try await harness.send("POST", path, [], authorized: false)
            let empty = try await harness.send("POST", path, [])
            let wrongMethod = try await harness.send("GET", path)
            let unknown = try await harness.send(
                "GET", "/inApps/v1/subscriptions/2000000000020000")
            let wrongStatus = try await harness.send(
                "GET", "/inApps/v1/subscriptions/\(Fixture.idText)?status=9")
            let nowhere = try await harness.send("GET", "/inApps/v9/else")
            let found = try await harness.send("GET", "/inApps/v1/subscriptions/\(Fixture.idText)")

            #expect(anonymous.status == 401)
            #expect(empty.status == 400)
            #expect(wrongMethod.status == 405)
            #expect(unknown.status == 404)
            #expect(String(decoding: unknown.body, as: UTF8.self).contains("4040010"))
            #expect(wrongStatus.status == 400)
            #expect(nowhere.status == 404)
            #expect(found.status == 200)
            #expect(String(decoding: found.body, as: UTF8.self).contains("\"status\":1"))
        }
    }

    @Test func faults_asOrdered_areServedAndRecorded() async throws {
        try await withHarness { harness in
            for kind in ["http_500", "http_429", "garbage"] {
                let order = "{\"endpoint\":\"changePrice\",\"kind\":\"\(kind)\"}"
                let taken = try await harness.send("POST", "/sandbox/faults", Array(order.utf8))
                #expect(taken.status == 204)
            }
            let broken = try await harness.change(12_990)
            let limited = try await harness.change(12_990)
            let garbage = try await harness.change(12_990)
            let repeated = try await harness.change(12_990)
            let state = try await harness.send("GET", "/sandbox/state")
            let calls = try await harness.send("GET", "/sandbox/calls")

            #expect([broken, limited, garbage, repeated].map(\.status) == [500, 429, 200, 200])
            let retryAfter = try #require(limited.headers["Retry-After"].flatMap { Int64($0) })
            #expect(retryAfter > Self.start)
            #expect(JSONValue.parse(garbage.body) == nil)
            let facts = try #require(JSONValue.parse(state.body)?.object)
            #expect(facts["appliedChanges"]?.integer == 1)
            #expect(facts["repeatedRequestReferenceIds"]?.integer == 1)
            #expect(facts["changesAppliedTwice"]?.integer == 0)
            #expect(calls.body.split(separator: 0x0a).count == 4)
        }
    }

    @Test func answer_lostAfterTheEffect_isGivenAtTheRepeat() async throws {
        try await withHarness { harness in
            let order =
                "{\"endpoint\":\"changePrice\",\"kind\":\"drop_after\",\"seconds\":0.01}"
            let taken = try await harness.send("POST", "/sandbox/faults", Array(order.utf8))
            let lost = try await harness.change(12_990)
            let repeated = try await harness.change(12_990)
            let state = try await harness.send("GET", "/sandbox/state")

            #expect([taken, lost, repeated].map(\.status) == [204, 504, 200])
            let facts = try #require(JSONValue.parse(state.body)?.object)
            #expect(facts["appliedChanges"]?.integer == 1)
            #expect(facts["repeatedRequestReferenceIds"]?.integer == 1)
        }
    }

    @Test func connection_resetBeforeOrAfterTheEffect_givesNoAnswer() async throws {
        try await withHarness { harness in
            for kind in ["reset_before", "reset_after", "hollow"] {
                let order = "{\"endpoint\":\"changePrice\",\"kind\":\"\(kind)\"}"
                _ = try await harness.send("POST", "/sandbox/faults", Array(order.utf8))
            }
            func isLost() async throws -> Bool {
                do throws(HTTPClientError) {
                    _ = try await harness.client.send(
                        HTTPRequest(
                            method: "POST",
                            target:
                                "/advancedCommerce/v1/subscription/changePrice/\(Fixture.idText)",
                            headers: HTTPHeaders([
                                ("Content-Type", "application/json"),
                                ("Authorization", (try? harness.token()) ?? ""),
                            ]),
                            body: Fixture.body("[{\"SKU\":\"A\",\"price\":12990}]", reference: 1)))
                    return false
                } catch {
                    return error.requestMayHaveArrived
                }
            }
            func applied() async throws -> Int64? {
                let state = try await harness.send("GET", "/sandbox/state")
                return JSONValue.parse(state.body)?.object?["appliedChanges"]?.integer
            }

            #expect(try await isLost())
            #expect(try await applied() == 0)
            #expect(try await isLost())
            #expect(try await applied() == 1)
            let hollow = try await harness.change(12_990)
            #expect(hollow.status == 200)
            #expect(JSONValue.parse(hollow.body)?.object?["signedRenewalInfo"] == .null)
        }
    }

    @Test func call_onTheWire_isWrittenDownAtBothEnds() async throws {
        try await withHarness { harness in
            _ = try await harness.change(12_990)
            func lines(_ name: String) throws -> [[String: JSONValue]] {
                let data = try Data(
                    contentsOf: URL(fileURLWithPath: "\(harness.folder.path)/\(name)"))
                return [UInt8](data).split(separator: 0x0a).compactMap {
                    JSONValue.parse(Array($0))?.object
                }
            }

            let wire = try lines("wire.ndjson")
            #expect(wire.map { $0["edge"]?.string } == ["began", "ended"])
            #expect(wire.map { $0["call"]?.integer } == [1, 1])
            #expect(wire.last?["status"]?.integer == 200)
            let call = try #require(try lines("calls.ndjson").first)
            #expect(call["call"]?.integer == 1)
            let effect = try #require(call["effects"]?.array?.first?.object)
            #expect(effect["newPrice"]?.integer == 12_990)
            let event = try #require(try lines("events.ndjson").first)
            #expect(event["kind"]?.string == "PRICE_CHANGE")
        }
    }

    @Test func store_afterARestart_goesOnWhereItWas() async throws {
        let folder = try ScratchFolder()
        let before = Mutex("")
        try await withHarness(in: folder) { harness in
            _ = try await harness.change(15_990)
            harness.clock.set(Fixture.instant("2026-01-20"))
            try await eventually { harness.receiver.payloads.withLock { $0.count } >= 2 }
            try await eventually {
                let state = try await harness.send("GET", "/sandbox/state")
                return JSONValue.parse(state.body)?.object?["undeliveredNotifications"]?.integer
                    == 0
            }
            let answer = try await harness.send(
                "GET", "/sandbox/state?subscription=\(Fixture.idText)")
            before.withLock { $0 = String(decoding: answer.body, as: UTF8.self) }
        }

        try await withHarness(in: folder, at: Fixture.instant("2026-01-20")) { harness in
            let repeated = try await harness.change(15_990)
            let state = try await harness.send(
                "GET", "/sandbox/state?subscription=\(Fixture.idText)")
            let facts = try #require(JSONValue.parse(state.body)?.object)
            let earlier = try #require(
                JSONValue.parse(Array(before.withLock { $0 }.utf8))?.object)

            #expect(repeated.status == 200)
            #expect(facts["items"] == earlier["items"])
            #expect(facts["tokenNumber"] == earlier["tokenNumber"])
            #expect(facts["notificationCount"] == earlier["notificationCount"])
            #expect(harness.receiver.payloads.withLock { $0.isEmpty })
        }
    }

    @Test func history_pagesThroughWhatWasSent() async throws {
        try await withHarness { harness in
            for turn in 1...25 {
                _ = try await harness.change(10_000 + Int64(turn) * 10, reference: turn)
            }
            let range =
                "{\"startDate\":\(Self.start - 1000),\"endDate\":\(Self.start + 1_000_000)}"
            harness.clock.set(Self.start + 10_000)
            let first = try await harness.send(
                "POST", "/inApps/v1/notifications/history", Array(range.utf8))
            let page = try #require(JSONValue.parse(first.body)?.object)
            let token = try #require(page["paginationToken"]?.string)
            let second = try await harness.send(
                "POST", "/inApps/v1/notifications/history?paginationToken=\(token)",
                Array(range.utf8))
            let rest = try #require(JSONValue.parse(second.body)?.object)
            let old = try await harness.send(
                "POST", "/inApps/v1/notifications/history",
                Array("{\"startDate\":0,\"endDate\":1}".utf8))

            #expect(page["notificationHistory"]?.array?.count == 20)
            #expect(rest["notificationHistory"]?.array?.count == 5)
            #expect(rest["hasMore"] == .bool(false))
            #expect(old.status == 400)
        }
    }

    @Test func notification_hungUpOn_neverArrivesAndOnlyTheHistoryHasIt() async throws {
        try await withHarness { harness in
            let order = "{\"kind\":\"hang_up\"}"
            let ordered = try await harness.send("POST", "/sandbox/faults", Array(order.utf8))
            _ = try await harness.change(10_990)
            var attempts = 0
            var looks = 0
            try await eventually {
                // The retries are at most 72 hours apart: so much time passes after each, and a second at each look.
                looks += 1
                let told = try await Self.history(harness, onlyFailures: false).first
                attempts = max(attempts, told?["sendAttempts"]?.array?.count ?? 0)
                harness.clock.set(
                    Self.start + Int64(looks) * 1000 + Int64(attempts) * 73 * 3_600_000)
                let state = try await harness.send("GET", "/sandbox/state")
                return JSONValue.parse(state.body)?.object?["lostNotifications"]?.integer == 1
            }
            _ = try await harness.change(11_990, reference: 2)
            // Its attempt counts once its answer is back.
            try await eventually {
                try await Self.history(harness, onlyFailures: true).count == 1
                    && !harness.receiver.payloads.withLock { $0.isEmpty }
            }

            // No half of it is ever taken for a whole: the receiver saw the second alone.
            let received = harness.receiver.payloads.withLock { $0 }
            let failed = try await Self.history(harness, onlyFailures: true)
            let all = try await Self.history(harness, onlyFailures: false)
            let results = failed.first?["sendAttempts"]?.array?.map {
                $0.object?["sendAttemptResult"]?.string
            }
            #expect(ordered.status == 204)
            #expect(failed.count == 1)
            #expect(received.count == 1)
            #expect(results == [String](repeating: "PREMATURE_CLOSE", count: 6))
            #expect(all.count == 2)
            let whole = try #require(Self.identifier(received[0]))
            #expect(all.map(Self.identifier).last == whole)
            #expect(all.map(Self.identifier).first == failed.map(Self.identifier).first)
        }
    }

    /// The notification's id; what is signed anew for the history has another text.
    private static func identifier(_ payload: String) -> String? {
        let parts = payload.split(separator: ".")
        guard parts.count == 3, let bytes = Base64URL.decode(Array(parts[1].utf8)) else {
            return nil
        }
        return JSONValue.parse(bytes)?.object?["notificationUUID"]?.string
    }

    private static func identifier(_ entry: [String: JSONValue]) -> String? {
        identifier(entry["signedPayload"]?.string ?? "")
    }

    private static func history(
        _ harness: Harness, onlyFailures: Bool
    ) async throws -> [[String: JSONValue]] {
        let question =
            "{\"startDate\":\(start - 1000),\"endDate\":\(harness.clock.nowMilliseconds() + 1000)"
            + (onlyFailures ? ",\"onlyFailures\":true}" : "}")
        let page = try await harness.send(
            "POST", "/inApps/v1/notifications/history", Array(question.utf8))
        return JSONValue.parse(page.body)?.object?["notificationHistory"]?.array?
            .compactMap(\.object) ?? []
    }

    @Test func testNotification_isPostedAndCanBeRead() async throws {
        try await withHarness { harness in
            let asked = try await harness.send("POST", "/inApps/v1/notifications/test")
            let token = try #require(
                JSONValue.parse(asked.body)?.object?["testNotificationToken"]?.string)
            let read = try await harness.send("GET", "/inApps/v1/notifications/test/\(token)")
            let unknown = try await harness.send("GET", "/inApps/v1/notifications/test/x")

            #expect(String(decoding: read.body, as: UTF8.self).contains("SUCCESS"))
            #expect(unknown.status == 404)
            #expect(harness.receiver.payloads.withLock { $0.count } == 1)
        }
    }

    @Test func clock_isTold() async throws {
        try await withHarness { harness in
            let response = try await harness.send("GET", "/sandbox/clock", authorized: false)

            #expect(
                String(decoding: response.body, as: UTF8.self)
                    == "{\"now\":\"2026-01-12T00:00:00Z\","
                    + "\"specification\":\"2026-01-12T00:00:00Z@1@0\"}")
        }
    }
}
