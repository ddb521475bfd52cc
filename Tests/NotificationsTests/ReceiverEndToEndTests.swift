import AppStore
import Digests
import Facts
import JOSE
import Postgres
import SandboxStore
import ServiceKit
import TestSupport
import Testing

@testable import Notifications

@Suite(.database) struct ReceiverEndToEndTests {
    /// 2026-06-01T00:00:00Z.
    static let now: Int64 = 1_780_272_000_000
    static let day: Int64 = 86_400_000

    static func payload(_ uuid: String, bundleID: String = "com.example.app") -> String {
        """
        {"notificationType":"TEST","notificationUUID":"\(uuid)","version":"2.0",
        "signedDate":\(now - 1000),
        "data":{"bundleId":"\(bundleID)","environment":"Sandbox"}}
        """
    }

    static func withReceiver(
        _ body: @Sendable (ReceiverHarness, CertificateAuthority) async throws -> Void
    ) async throws {
        let authority = try CertificateAuthority(validFrom: now - day, validUntil: now + day)
        let verifier = NotificationVerifier(
            verifier: try JWSVerifier(roots: authority.trustedRoots()),
            bundleID: "com.example.app", appAppleID: nil, environment: .sandbox)
        let pool = PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 2)
        let store = NotificationStore(pool: pool)
        let intake = NotificationIntake(
            check: appStoreCheck(verifier), clock: ManualClock(now),
            metrics: Metrics(), store: store)
        try await ReceiverHarness.run(intake: intake) { harness in
            try await body(harness, authority)
        }
        await pool.close()
    }

    static func body(_ signedPayload: String) -> String {
        #"{"signedPayload":"\#(signedPayload)"}"#
    }

    static func sign(_ text: String, by authority: CertificateAuthority) throws -> String {
        try authority.signer().sign(Array(text.utf8))
    }

    @Test func post_whenAppleSignedIt_isInTheDatabaseToTheByte() async throws {
        try await Self.withReceiver { harness, authority in
            let signed = try Self.sign(Self.payload("u1"), by: authority)

            let first = try await harness.post(Self.body(signed))
            let again = try await harness.post(Self.body(signed))

            #expect(first.text == "{\"stored\":true,\"new\":true,\"understood\":true}\n")
            #expect(again.text == "{\"stored\":true,\"new\":false,\"understood\":true}\n")
            let connection = try await TestDatabase.connect()
            let stored = try await connection.read { try EvidenceQueries.stored("u1", on: $0) }
            let kept = try #require(stored)
            guard case .packed(let bytes, let headers) = kept.evidence else {
                Issue.record("not packed")
                return
            }
            let packed = PackedPayload(bytes: bytes, headers: headers.map(\.text))
            #expect(try packed.text() == signed)
            #expect(kept.notificationUUID == "u1")
            #expect(kept.receivedAt == Self.now)
            await connection.close()
        }
    }

    @Test func post_whenSomebodyElseSignedIt_answers403AndKeepsNothing() async throws {
        try await Self.withReceiver { harness, authority in
            let forger = try CertificateAuthority(
                validFrom: Self.now - Self.day, validUntil: Self.now + Self.day)
            let forged = try Self.sign(Self.payload("u1"), by: forger)
            let foreign = try Self.sign(
                Self.payload("u2", bundleID: "com.example.other"), by: authority)
            let good = try Self.sign(Self.payload("u3"), by: authority)

            let status1 = try await harness.post(Self.body(forged)).status
            #expect(status1 == 403)
            let status2 = try await harness.post(Self.body(foreign)).status
            #expect(status2 == 403)
            let status3 = try await harness.post(Self.body(good + "A")).status
            #expect(status3 != 200)
            let status4 = try await harness.post(Self.body("not.a.jws")).status
            #expect(status4 == 400)
            let connection = try await TestDatabase.connect()
            #expect(try await connection.query("SELECT FROM repricer.notification_ids").isEmpty)
            await connection.close()
        }
    }

    @Test(arguments: [
        Array("{".utf8), [0xFF, 0x00, 0xFE], [],
        Array("{\"notificationUUID\":7,\"data\":\"x\"}".utf8),
        Array((String(repeating: "[", count: 9000)).utf8),
    ])
    func post_whenAppleSignedWhatNobodyCanRead_isKeptToTheByte(payload: [UInt8]) async throws {
        try await Self.withReceiver { harness, authority in
            let signed = try authority.signer().sign(payload)

            let first = try await harness.post(Self.body(signed))
            let again = try await harness.post(Self.body(signed))

            #expect(first.status == 200)
            #expect(first.text == "{\"stored\":true,\"new\":true,\"understood\":false}\n")
            #expect(again.text == "{\"stored\":true,\"new\":false,\"understood\":false}\n")
            let id = "sha256:\(SHA256.hexadecimalDigest(of: payload))"
            let connection = try await TestDatabase.connect()
            let stored = try await connection.read { try EvidenceQueries.stored(id, on: $0) }
            switch try #require(stored).evidence {
            case .whole(let text): #expect(text == signed)
            case .packed(let bytes, let headers):
                let packed = PackedPayload(bytes: bytes, headers: headers.map(\.text))
                #expect(try packed.text() == signed)
            }
            await connection.close()
        }
    }

    @Test func post_whenManyComeAtOnce_storesEachOnce() async throws {
        try await Self.withReceiver { harness, authority in
            let signed = try (0..<40).map { try Self.sign(Self.payload("u\($0)"), by: authority) }

            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for payload in signed + signed {
                    group.addTask { try await harness.post(Self.body(payload)).status }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }

            #expect(statuses == Array(repeating: 200, count: 80))
            let connection = try await TestDatabase.connect()
            #expect(try await connection.query("SELECT FROM repricer.notifications").count == 40)
            await connection.close()
        }
    }
}
