import Foundation
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import RepricerCommands

@Suite(.database) struct ReprocessCommandTests {
    private var environment: [String: String] { ["REPRICER_DATABASE_URL": TestDatabase.url] }

    /// One notification of a type that nobody knows, and one quarantined.
    private func store() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            INSERT INTO repricer.notifications (notification_uuid, received_at, type,
                original_transaction_id, understood, unknown, signed_payload)
            VALUES ('a', '2026-01-01Z', 'NEW', '1', false, '{type:NEW,field:transaction.gift}', 'x'),
                ('b', '2026-01-02Z', 'DID_RENEW', '1', true, '{field:transaction.gift}', 'x');
            INSERT INTO repricer.inbox
                (original_transaction_id, bucket, notification_uuid, received_at, error)
            VALUES ('1', repricer.bucket_of('1'), 'a', '2026-01-01Z', 'why'), ('1', repricer.bucket_of('1'), 'b', '2026-01-02Z', NULL);
            """)
        await owner.close()
    }

    @Test func reprocess_withoutSince_isAUsageError() async {
        let outcome = await run("reprocess", environment: environment)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("--since is needed"))
    }

    @Test func reprocess_ofATimeStillToCome_isAUsageError() async {
        let outcome = await run("reprocess", "--since", "2999-01-01", environment: environment)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("--since 2999-01-01T00:00:00Z does not lie before now"))
    }

    @Test func reprocess_whenNothingIsStored_saysSo() async {
        let text = await run("reprocess", "--since", "2026-01-01", environment: environment)
        let json = await run(
            "reprocess", "--since", "2026-01-01", "--all", "--json", environment: environment)

        #expect(text.code == .done)
        #expect(
            text.output
                == "0 read, 0 in the inbox again, 0 corrected, 0 as before; 0 still not understood\n"
        )
        #expect(
            json.output
                == #"{"read":0,"requeued":0,"corrected":0,"unchanged":0,"damaged":0,"#
                + #""still_not_understood":0}"# + "\n")
    }

    @Test func reprocess_whenEvidenceIsDamaged_fails() async throws {
        try await store()

        let outcome = await run(
            "reprocess", "--since", "2026-01-02", "--json", environment: environment)

        #expect(outcome.code == .failed)
        #expect(
            outcome.output.hasPrefix(
                #"{"read":1,"requeued":0,"corrected":0,"unchanged":0,"damaged":1"#))
        #expect(outcome.messages.contains("evidence can't be rebuilt"))
    }

    @Test func status_whenPartsAreUnknown_namesThem() async throws {
        try await store()

        let text = await run("status", environment: environment)
        let json = await run("status", "--json", environment: environment)

        #expect(text.output.contains("1 waiting, 1 quarantined, 1 not understood"))
        #expect(
            text.output.contains("field    transaction.gift              2  2026-01-02T00:00:00Z"))
        #expect(
            json.output.contains(
                #""notifications":{"waiting":1,"quarantined":1,"not_understood":1,"unknown":[{"kind":"field","name":"transaction.gift","notifications":2,"last_received_at":"2026-01-02T00:00:00Z"},{"kind":"type","name":"NEW","notifications":1,"#
            ))
    }
}
