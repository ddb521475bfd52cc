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

    /// The bound for what a call's answer takes; 1.4 KB is what it takes today, 6.6 KB whole.
    static let answerBytesMax = 2 * 1024

    @Test func answers_ofCalls_areSmallAndComeBackToTheByte() async throws {
        let payloads = (0..<100).map { RealisticPayload($0) }
        let packer = PayloadPacker()
        let connection = try await TestDatabase.connect()
        func size(_ evidence: (String) -> Evidence) async throws -> Int {
            for payload in payloads {
                let call = StoreCall(
                    .priceChange, subject: payload.subscription, callID: payload.uuid,
                    bucket: Bucket.of(payload.subscription), carries: [payload.uuid], intent: "{}")
                var ending = CallEnding(call, .answered)
                ending.httpStatus = 200
                ending.answer = evidence(payload.answer)
                let settlement = StoreCallQueries.settle([ending], at: RealisticPayload.signedAt)
                try await connection.transaction { connection in
                    _ = try connection.query(
                        StoreCallQueries.insert(
                            [call], owner: payload.uuid, leaseUntil: RealisticPayload.signedAt,
                            flightTime: 1, now: RealisticPayload.signedAt))
                    for statement in settlement { _ = try connection.query(statement) }
                }
            }
            let bytes = try await connection.query(
                """
                SELECT (avg(coalesce(pg_column_size(answer), 0) + coalesce(pg_column_size(packed), 0)
                    + coalesce(pg_column_size(header_digests), 0)))::bigint AS bytes FROM repricer.store_calls
                """
            ).one().int("bytes")
            for payload in payloads {
                let stored = try await connection.read {
                    try EvidenceQueries.answer(
                        to: payload.uuid, of: payload.subscription, on: $0)
                }
                #expect(try stored?.evidence?.signedPayload() == payload.answer)
                #expect(stored?.httpStatus == 200)
            }
            try await connection.script("DELETE FROM repricer.store_calls")
            return bytes
        }

        let whole = try await size { .whole($0) }
        let packed = try await size { text in
            guard let packed = packer.pack(answer: text) else { return .whole(text) }
            return .packed(
                packed.bytes,
                headers: packed.headers.map { SigningHeader(digest: $0.digest, text: $0.text) })
        }

        #expect(packed <= Self.answerBytesMax)
        #expect(packed * 2 < whole, "packed \(packed), whole \(whole)")
        let headers = try await connection.query("SELECT FROM repricer.signing_headers").count
        #expect(headers == 1)
        await connection.close()
    }
}
