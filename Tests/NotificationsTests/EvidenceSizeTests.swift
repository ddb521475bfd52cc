import AppStore
import Facts
import Postgres
import TestSupport
import Testing

@testable import Notifications

@Suite(.database) struct EvidenceSizeTests {
    /// The bound that a user may rely on; 2.6 KB is what it takes today.
    static let bytesMax = 6 * 1024

    static func arrival(_ payload: RealisticPayload, packedBy packer: PayloadPacker) -> Arrival {
        Arrival(
            notificationUUID: payload.uuid, signedAtMilliseconds: RealisticPayload.signedAt,
            type: "PRICE_INCREASE", subtype: "PENDING",
            originalTransactionID: payload.subscription, understood: true,
            evidence: Evidence(packing: payload.text, by: packer))
    }

    @Test func evidence_ofRealisticNotifications_isSmallAndComesBackToTheByte() async throws {
        let payloads = (0..<300).map { RealisticPayload($0) }
        let packer = PayloadPacker()
        let pool = PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 1)
        for payload in payloads {
            #expect(payload.text.utf8.count > 20_000)
        }

        let isNew = try await NotificationStore(pool: pool).storeArrivals(
            payloads.map { Self.arrival($0, packedBy: packer) },
            receivedAt: RealisticPayload.signedAt)

        #expect(isNew == Array(repeating: true, count: payloads.count))
        let connection = try await TestDatabase.connect()
        let size = try await connection.query("SELECT * FROM repricer.evidence_size").one()
        #expect(try size.int("notifications") == payloads.count)
        #expect(try size.int("bytes_per_notification") <= Self.bytesMax)
        let stored = try await connection.read { connection in
            try payloads.compactMap { try EvidenceQueries.stored($0.uuid, on: connection) }
        }
        var texts: [String: String] = [:]
        for notification in stored {
            guard case .packed(let bytes, let headers) = notification.evidence else { continue }
            texts[notification.notificationUUID] = try PackedPayload(
                bytes: bytes, headers: headers.map(\.text)
            ).text()
        }
        #expect(texts == Dictionary(uniqueKeysWithValues: payloads.map { ($0.uuid, $0.text) }))
        let headers = try await connection.query("SELECT FROM repricer.signing_headers").count
        #expect(headers == 1)
        await connection.close()
        await pool.close()
    }
}
