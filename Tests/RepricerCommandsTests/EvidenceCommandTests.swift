import AppStore
import Foundation
import JOSE
import Postgres
import SandboxStore
import ServiceKit
import TestSupport
import Testing

@testable import RepricerCommands

@Suite(.database) struct EvidenceCommandTests {
    /// 2026-01-05T00:00:00Z, the test harness's clock.
    static let now: Int64 = 1_767_571_200_000
    static let uuid = "002e14d5-51f5-4503-b5a8-c3a1af68eb20"

    struct Bench {
        let folder: ScratchFolder
        let authority: CertificateAuthority
        let environment: [String: String]

        init() throws {
            folder = try ScratchFolder()
            authority = try CertificateAuthority(
                validFrom: 1_577_836_800_000, validUntil: 2_208_988_800_000)
            environment = [
                "REPRICER_DATABASE_URL": TestDatabase.url,
                "REPRICER_BUNDLE_ID": "com.example.app", "REPRICER_ENVIRONMENT": "Sandbox",
                "REPRICER_ROOT_CERTIFICATES": try folder.file("root.pem", authority.rootPEM()),
            ]
        }

        func sign(_ text: String) throws -> String {
            try authority.signer().sign(Array(text.utf8))
        }

        func notification(_ uuid: String = EvidenceCommandTests.uuid) throws -> String {
            let transaction = try sign(
                """
                {"bundleId":"com.example.app","environment":"Sandbox","originalTransactionId":"20",
                 "price":9007199254740993,"signedDate":\(now)}
                """)
            return try sign(
                """
                {"notificationType":"DID_RENEW","notificationUUID":"\(uuid)","signedDate":\(now),
                 "data":{"bundleId":"com.example.app","environment":"Sandbox","list":[],
                 "signedTransactionInfo":"\(transaction)"}}
                """)
        }

        /// Ingests each payload.
        func store(_ payloads: String...) async throws {
            let lines = payloads.map { "{\"signedPayload\":\"\($0)\"}\n" }.joined()
            let outcome = await RepricerCommandsTests.run(
                "ingest", try folder.file("in.ndjson", lines), environment: environment)
            #expect(outcome.code == .done, "\(outcome.messages)")
        }

        func run(_ arguments: String..., at now: Int64 = EvidenceCommandTests.now) async -> Outcome
        {
            await RepricerCommandsTests.run(arguments, environment: environment) {
                $0.realClock = ManualClock(now)
            }
        }
    }

    static func change(_ sql: String) async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(sql)
        await connection.close()
    }

    @Test func evidence_ofAStoredNotification_printsItToTheByteAndVerifies() async throws {
        let bench = try Bench()
        let signed = try bench.notification()
        try await bench.store(signed)

        let outcome = await bench.run("evidence", Self.uuid)

        #expect(outcome.code == .done)
        #expect(outcome.output == signed)
        #expect(
            outcome.messages
                == "repricer: verified: DID_RENEW, signed 2026-01-05T00:00:00Z, received "
                + "2026-01-05T00:00:00Z\n")
    }

    /// Kept whole, as an answer without signatures is, and of no other subscription.
    @Test func evidence_ofACall_printsItsAnswer() async throws {
        let bench = try Bench()
        try await Self.change(
            """
            INSERT INTO repricer.store_calls (bucket, subject, call_id, kind, carries, intent, state, lease_owner,
                lease_until, in_flight_until, prepared_at, settled_at, http_status, answer)
            SELECT repricer.bucket_of('20'), '20', '\(Self.uuid)', 'price_change', ARRAY[gen_random_uuid()], '{}',
                'refused', gen_random_uuid(), at, at, at, at, 400, '{"errorCode":4000205}'
            FROM (VALUES ('2026-01-05T00:00:00Z'::timestamptz)) AS t (at)
            """)

        let outcome = await bench.run("evidence", Self.uuid, "--subscription", "20")
        let json = await bench.run("evidence", Self.uuid, "--subscription", "20", "--json")
        let other = await bench.run("evidence", Self.uuid, "--subscription", "21")
        let odd = await bench.run("evidence", "x", "--subscription", "20")
        let both = await bench.run("evidence", Self.uuid, "--subscription", "20", "--payload")

        #expect(outcome.code == .done)
        #expect(outcome.output == #"{"errorCode":4000205}"#)
        #expect(
            outcome.messages
                == "repricer: price_change: HTTP 400, settled 2026-01-05T00:00:00Z\n")
        #expect(json.output.contains(#""http_status":400"#), "\(json.output)")
        #expect([other.code, odd.code] == [.inputRejected, .inputRejected])
        #expect(other.messages.contains("subscription \"21\" has no call"), "\(other.messages)")
        #expect(both.code == .usage)
    }

    @Test func evidence_asAnAnalyst_isAllowed() async throws {
        let bench = try Bench()
        let signed = try bench.notification()
        try await bench.store(signed)
        var environment = bench.environment
        environment["REPRICER_DATABASE_URL"] = try await TestDatabase.login(
            "ana", memberOf: ["repricer_pricing"])

        let outcome = await run("evidence", Self.uuid, environment: environment)

        #expect(outcome.output == signed, "\(outcome.messages)")
    }

    @Test func evidence_asJSON_saysWhatItIs() async throws {
        let bench = try Bench()
        let signed = try bench.notification()
        try await bench.store(signed)

        let outcome = await bench.run("evidence", Self.uuid, "--json", "--payload")

        let object = try #require(
            JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any])
        #expect(object["type"] as? String == "DID_RENEW")
        #expect(object["subtype"] is NSNull)
        #expect(object["signed_at"] as? String == "2026-01-05T00:00:00Z")
        #expect(object["received_at"] as? String == "2026-01-05T00:00:00Z")
        #expect(object["verified"] as? Bool == true)
        #expect(object["why"] is NSNull)
        #expect(object["signed_payload"] as? String == signed)
        let payload = try #require(object["payload"] as? [String: Any])
        let data = try #require(payload["data"] as? [String: Any])
        let transaction = try #require(data["signedTransactionInfo"] as? [String: Any])
        #expect(transaction["originalTransactionId"] as? String == "20")
        #expect(outcome.output.filter { $0 == "\n" }.count == 1)
    }

    @Test func evidence_withPayload_printsItIndentedAsSigned() async throws {
        let bench = try Bench()
        try await bench.store(try bench.notification())

        let outcome = await bench.run("evidence", Self.uuid, "--payload", "--quiet")

        #expect(
            outcome.output == """
                {
                  "notificationType": "DID_RENEW",
                  "notificationUUID": "\(Self.uuid)",
                  "signedDate": 1767571200000,
                  "data": {
                    "bundleId": "com.example.app",
                    "environment": "Sandbox",
                    "list": [],
                    "signedTransactionInfo": {
                      "bundleId": "com.example.app",
                      "environment": "Sandbox",
                      "originalTransactionId": "20",
                      "price": 9007199254740993,
                      "signedDate": 1767571200000
                    }
                  }
                }

                """)
        #expect(outcome.messages.isEmpty)
    }

    @Test func evidence_ofAnUnknownId_saysSo() async throws {
        let outcome = try await Bench().run("evidence", "nobody")

        #expect(outcome.code == .inputRejected)
        #expect(outcome.output.isEmpty)
        #expect(
            outcome.messages.hasPrefix("repricer: unknown_evidence: no notification \"nobody\""))
    }

    @Test func evidence_ofAStatus_saysThatItIsNotKept() async throws {
        let bench = try Bench()

        let outcome = await bench.run("evidence", "status:ad306a60")

        #expect(outcome.code == .inputRejected)
        #expect(
            outcome.messages.hasPrefix(
                "repricer: unknown_evidence: \"status:ad306a60\" is a status that was read;"))
    }

    @Test func evidence_ofAChangedPayload_exits1AndSaysWhy() async throws {
        let bench = try Bench()
        try await bench.store(try bench.notification())
        try await Self.change(
            """
            UPDATE repricer.notifications
            SET packed = convert_to(replace(encode(packed, 'escape'), '"20"', '"21"'), 'LATIN1')
            """)

        let outcome = await bench.run("evidence", Self.uuid)
        let json = await bench.run("evidence", Self.uuid, "--json")

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("not verified: "))
        #expect(json.code == .failed)
        #expect(json.output.contains("\"verified\":false,\"why\":\""))
    }

    @Test(arguments: [
        ("UPDATE repricer.notifications SET packed = substr(packed, 1, 50)", "damaged: "),
        ("DELETE FROM repricer.signing_headers", "damaged: header 0 is missing"),
        ("UPDATE repricer.signing_headers SET header = 'e30'", "jws_"),
        ("UPDATE repricer.notifications SET packed = '\\x03'", "damaged: version 3 is unknown"),
    ])
    func evidence_ofDamagedRows_exits1(_ damage: String, _ why: String) async throws {
        let bench = try Bench()
        try await bench.store(try bench.notification())
        try await Self.change(damage)

        let outcome = await bench.run("evidence", Self.uuid)

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("not verified: \(why)"), "\(outcome.messages)")
    }

    @Test func evidence_ofAnotherRoot_exits1YetPrintsIt() async throws {
        let bench = try Bench()
        let signed = try bench.notification()
        try await bench.store(signed)
        let other = try Bench()

        let outcome = await other.run("evidence", Self.uuid)

        #expect(outcome.code == .failed)
        #expect(outcome.output == signed)
        #expect(outcome.messages.contains("not verified: "))
    }

    @Test func evidence_underAnotherId_exits1() async throws {
        let bench = try Bench()
        try await bench.store(try bench.notification())
        try await Self.change("UPDATE repricer.notifications SET notification_uuid = 'x'")

        let outcome = await bench.run("evidence", "x")

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("not verified: other_id: "))
    }

    @Test func evidence_storedWholeBefore_isReadAsWell() async throws {
        let bench = try Bench()
        let signed = try bench.notification("old")
        try await Self.change(
            """
            INSERT INTO repricer.notifications
                (notification_uuid, received_at, signed_at, type, understood, signed_payload)
            VALUES ('old', '2026-01-01Z', '2026-01-01Z', 'DID_RENEW', true, '\(signed)')
            """)

        let outcome = await bench.run("evidence", "old")

        #expect(outcome.code == .done)
        #expect(outcome.output == signed)
    }

    @Test func evidence_ofAV1Notification_printsItWithoutTheSecretAndSaysThatNobodySignedIt()
        async throws
    {
        let bench = try Bench()
        let (id, text) = try await Self.storeLegacy()

        let outcome = await bench.run("evidence", id)
        let json = await bench.run("evidence", id, "--json")
        try await Self.change(
            "UPDATE repricer.notifications SET signed_payload = replace(signed_payload, '42', '43')"
        )
        let changed = await bench.run("evidence", id)

        #expect(outcome.code == .failed)
        #expect(outcome.output == text)
        #expect(outcome.messages.contains("not verified: unsigned: a V1 notification"))
        #expect(json.output.contains(#""verified":false,"why":"unsigned: "#))
        #expect(json.output.contains(#""type":"DID_CHANGE_RENEWAL_STATUS""#))
        #expect(changed.messages.contains("not verified: other_id: "))
    }

    /// Keeps a V1 notification as the receiver does.
    private static func storeLegacy() async throws -> (id: String, text: String) {
        let body = """
            {"notification_type":"DID_CHANGE_RENEWAL_STATUS","password":"0123456789abcdef",
            "environment":"Sandbox","bid":"com.example.app","original_transaction_id":42}
            """
        let text = try LegacyNotification(Array(body.utf8)).redacted()
        let id = LegacyNotification.id(ofRedacted: text)
        try await change(
            """
            INSERT INTO repricer.notifications (notification_uuid, received_at, type,
                original_transaction_id, understood, signed_payload)
            VALUES ('\(id)', '2026-01-05Z', 'DID_CHANGE_RENEWAL_STATUS', '42', true, '\(text)')
            """)
        #expect(!text.contains("0123456789abcdef"))
        return (id, text)
    }
}
