import Batches
import Postgres
import TestSupport
import Testing

/// What is put back, and which storefronts are asked for, while a person or another process holds rows.
@Suite(.database) struct PutBackLockTests {
    private typealias Harness = DeliveryHarness

    /// Puts back once, as the service does, and waits for nobody longer than two seconds.
    private static func putBack(_ harness: Harness) async throws {
        let (at, now) = (harness.now.milliseconds, harness.realClock.nowMilliseconds())
        try await harness.service.withTransaction { connection in
            try connection.execute("SET LOCAL lock_timeout = '2s'")
            _ = try connection.query(
                """
                SELECT count(*) FROM repricer.put_back_refused(\(timestamp: at), \(timestamp: now), 1000, '2 minutes')
                """)
        }
    }

    /// A batch of 60 rows that is halted since all are refused, with some that ended before.
    private static func halted(_ harness: Harness, _ rows: ClosedRange<Int> = 1...60) async throws
        -> (batchID: String, ended: Int)
    {
        let batchID = try await harness.submitRows(rows)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        try await harness.deliver(harness.scheduler())
        return (batchID, try await harness.stateCounts()["rejected"] ?? 0)
    }

    /// The abort has passed the rows that had ended, so a row that came back now would never end.
    @Test func batch_thatIsBeingAborted_getsNothingBack() async throws {
        let harness = try await Harness.make()
        let (batchID, ended) = try await Self.halted(harness)
        let person = try await TestDatabase.connect()
        try await person.script(
            "BEGIN; SELECT repricer.withdraw_batch('\(batchID)', now(), 'aborted', 'enough')")

        try await Self.putBack(harness)
        try await person.script("COMMIT")
        try await Self.putBack(harness)

        #expect(ended > 0)
        #expect(
            try await harness.stateCounts() == ["rejected": ended, "aborted": 60 - ended])
        #expect(try await harness.count("put_backs WHERE NOT is_done") == 0)
        await person.close()
        await harness.close()
    }

    /// Its halt is over and looked after often, and somebody writes to its subscription all the while.
    @Test func row_thatIsLockedAtEachCheck_goesBackOnceItIsFree() async throws {
        let harness = try await Harness.make()
        let (_, ended) = try await Self.halted(harness)
        let person = try await TestDatabase.connect()
        try await person.script(
            "BEGIN; SELECT FROM repricer.subscriptions WHERE original_transaction_id IN (SELECT original_transaction_id FROM repricer.price_changes WHERE stage = 'rejected') FOR UPDATE"
        )
        try await harness.write("UPDATE repricer.put_backs SET ended_until = '2027-01-01Z'")

        for _ in 1...5 { try await Self.putBack(harness) }
        let meanwhile = try await harness.stateCounts()["rejected"]
        try await person.script("ROLLBACK")
        try await Self.putBack(harness)

        #expect(meanwhile == ended)
        #expect(try await harness.stateCounts() == ["queued": 60])
        await person.close()
        await harness.close(isTamperedWith: true)
    }

    /// It has nothing left to call and would go on, but somebody decides about it just now.
    @Test func batch_thatSomebodyHolds_keepsNoOtherFromItsPutBack() async throws {
        let harness = try await Harness.make()
        let (held, _) = try await Self.halted(harness, 1...30)
        try await harness.write(
            "UPDATE repricer.price_changes SET state = 'ineligible', reason = 'drifted', ended_at = '2026-03-01Z'"
        )
        try await harness.write("UPDATE repricer.put_backs SET checks = 5")
        let (other, ended) = try await Self.halted(harness, 31...60)
        let person = try await TestDatabase.connect()
        try await person.script(
            "BEGIN; SELECT FROM repricer.batches WHERE batch_id = '\(held)' FOR UPDATE")

        try await Self.putBack(harness)

        #expect(held != other)
        #expect(ended > 0)
        #expect(try await harness.stateCounts() == ["ineligible": 30, "queued": 30])
        await person.close()
        await harness.close(isTamperedWith: true)
    }

    private static let probe =
        "SELECT halted_storefronts -> 'CAN' ->> 'subscription' AS text FROM repricer.batches WHERE halted_storefronts -> 'CAN' ? 'subscription'"

    /// Those that could go have ended, and what is left waits for its day.
    @Test func haltedStorefront_ofWhichOnlySleepersAreLeft_isAskedForOnTheirDay() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1", storefront: "CAN")
        let batchID = try await harness.submitAndApprove([Harness.row("1")])
        let day = harness.now.advanced(by: 86_400_000).milliseconds
        try await harness.write(
            "UPDATE repricer.price_changes SET is_ready = false, send_after = \(timestamp: day)")
        try await Self.halt(harness, batchID)

        try await harness.watch().round()
        harness.realClock.advance(by: .seconds(61))
        try await harness.watch().round()
        let early = try await harness.texts(Self.probe)
        harness.clock.advance(by: .seconds(86_401))
        harness.realClock.advance(by: .seconds(86_401))
        try await harness.watch().round()

        #expect(early.isEmpty)
        #expect(try await harness.texts(Self.probe) == ["1"])
        try await harness.deliver(harness.scheduler())
        try await harness.watch().round()
        #expect(try await harness.changes() == ["A scheduled"])
        #expect(
            try await harness.texts("SELECT halted_storefronts::text AS text FROM repricer.batches")
                == ["{}"])
        await harness.close(isTamperedWith: true)
    }

    /// The halt is committed before the answers are that caused it.
    @Test func haltedStorefront_whoseRowsComeBackAfterwards_isAskedFor() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id, storefront: "CAN") }
        let batchID = try await harness.submitAndApprove([
            Harness.row("1"), Harness.row("2", line: 3),
        ])
        try await harness.write(
            "UPDATE repricer.price_changes SET state = 'sending', request_reference_id = gen_random_uuid(), sent_at = '2026-03-01Z'"
        )
        try await Self.halt(harness, batchID)
        try await harness.watch().round()
        let isParking = try await harness.count("batches WHERE is_parking")
        try await harness.write(
            "UPDATE repricer.price_changes SET state = 'queued', sent_at = NULL")

        for _ in 1...4 {
            harness.realClock.advance(by: .seconds(61))
            try await harness.watch().round()
        }

        #expect(isParking == 0)
        #expect(try await harness.texts(Self.probe).count == 1)
        await harness.close(isTamperedWith: true)
    }

    private static func halt(_ harness: Harness, _ batchID: String) async throws {
        let (at, now) = (harness.now.milliseconds, harness.realClock.nowMilliseconds())
        try await harness.service.withTransaction { connection in
            _ = try connection.query(
                """
                SELECT repricer.halt_storefront(\(uuid: batchID), 'CAN', \(timestamp: at), '4000134', '4000134 alike',
                    \(timestamp: now))
                """)
        }
    }
}
