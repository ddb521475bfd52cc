import Postgres
import TestSupport
import Testing

/// Who was asked for consent: also where the notification that told of it never came.
@Suite(.database) struct ConsentFunnelTests {
    /// Four increases with these states; only the first one's question was told.
    private func funnel(_ state: String, _ more: String) async throws -> [String] {
        let connection = try await TestDatabase.connect()
        let changes = (1...4).map { line in
            ReportFixture.Change(
                subscription: "\(line)", line: line, old: 9990, new: 12990, consent: "required",
                state: state, asked: line == 1 ? "2026-01-10Z" : nil
            ).sql
        }
        try await connection.script(
            """
            UPDATE repricer.service_controls SET is_rehearsal = true, clock_rate = 0.001,
                clock_origin = clock_timestamp(), clock_start = '2026-05-01Z';
            """ + ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 4)
                + changes.joined() + more
                + "INSERT INTO repricer.stale_figures SELECT original_transaction_id, bucket FROM repricer.price_changes;"
        )
        func lines(_ suffix: String) async throws -> [String] {
            try await connection.query(
                """
                SELECT concat_ws(' ', asked_for_consent, consented, declined, coalesce(consented_basis_points::text, '-'),
                    coalesce(declined_basis_points::text, '-')) AS line
                FROM report.consent_funnel\(unsafe: suffix)
                """
            ).map { try $0.text("line") }
        }
        let fromFacts = try await lines("")
        try await connection.script(
            """
            BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT repricer.summarise_figures(100); COMMIT;
            """)
        #expect(try await lines("") == fromFacts, "kept")
        try await connection.script(
            """
            UPDATE repricer.service_controls SET clock_origin = clock_timestamp(), clock_start = '2026-06-02Z';
            """)
        #expect(try await lines("_as_of('2026-06-01Z')") == fromFacts, "as of")
        await connection.close()
        return fromFacts
    }

    @Test func whoDeclined_wasAsked_thoughNothingToldOfTheQuestion() async throws {
        let ended =
            "UPDATE repricer.price_changes SET ended_at = '2026-03-01Z', reason = 'expired_for_price_increase';"

        #expect(try await funnel("declined", ended) == ["4 0 4 0 10000"])
    }

    @Test func whoConsented_wasAsked() async throws {
        let accepted =
            "UPDATE repricer.price_changes SET accepted_at = '2026-02-01Z', acceptance = 'consented';"

        #expect(try await funnel("accepted", accepted) == ["4 4 0 10000 0"])
    }

    /// An item that fell with its parent was not asked itself.
    @Test func whatFellWithItsParent_wasNotAsked() async throws {
        let ended = """
            UPDATE repricer.price_changes SET ended_at = '2026-03-01Z', reason = 'parent_declined' WHERE line > 1;
            """

        #expect(try await funnel("declined", ended) == ["1 0 1 0 10000"])
    }
}
