import Calls
import Facts
import Foundation
import Pricing
import ServiceKit
import TestSupport
import Testing

@testable import PriceChanges

/// What is found to do, in which order, and at what cost.
@Suite(.database) struct DueWorkTests {
    private typealias Harness = DeliveryHarness

    /// One that a slow machine does not make hold back its calls.
    private func scheduler(
        _ harness: Harness, _ store: SilentStore,
        drainFor: Duration = CallEngine.Limits().drainFor,
        _ change: (inout Scheduler.Limits) -> Void
    ) -> Scheduler {
        var limits = Scheduler.Limits()
        change(&limits)
        var engine = CallEngine.Limits()
        engine.leavesWithin = .seconds(60)
        engine.leaseFor = .seconds(90)
        engine.callsPerClaim = limits.requestsPerClaim
        engine.drainFor = drainFor
        return Scheduler(harness.engine(engine), store: store, limits: limits, wait: { _ in })
    }

    private func due(_ bucket: Int, _ hours: Int64) -> DueQueries.Due {
        DueQueries.Due(
            .init(bucket: bucket, batchID: "batch"),
            sendBy: Harness.start.milliseconds + hours * 3_600_000)
    }

    @Test(arguments: [
        // Sixteen hours away: one due within an hour of it is as urgent.
        (hours: [16, 17, 18] as [Int64], urgent: 2), (hours: [16, 16, 16], urgent: 3),
        // Overdue ones come after all others; where there are no others, they are all as urgent.
        (hours: [0, 1, -500, -1], urgent: 1), (hours: [0, 1], urgent: 1),
        (hours: [-500, -1], urgent: 2),
    ])
    func turns_beginWithWhatIsMostUrgent(hours: [Int64], urgent: Int) {
        let all = hours.enumerated().map { due($0.offset, $0.element) }

        let turns = DueOrder.turns(all, now: Harness.start.milliseconds, place: 1)

        #expect(turns.count { $0.until != nil } == urgent)
        #expect(turns.count == urgent + hours.count, "what is less urgent follows")
        #expect(turns.prefix(urgent).allSatisfy { $0.until != nil })
        #expect(
            Set(turns.prefix(urgent).flatMap(\.due).map(\.queue.bucket)) == Set(0..<urgent))
    }

    /// Else they would reach for the same bucket, once one of them has served its own and the others move up.
    @Test(arguments: [(buckets: 64, lanes: 2), (buckets: 64, lanes: 4), (buckets: 10, lanes: 2)])
    func lanes_beginFarFromEachOther(buckets: Int, lanes: Int) {
        let all = (0..<buckets).map { due($0, 16) }

        let firsts = (0..<lanes).compactMap { lane in
            DueOrder.turns(
                all, now: Harness.start.milliseconds,
                place: 50 + lane * DueOrder.places / lanes
            ).first?.due.first?.queue.bucket
        }

        for (first, next) in zip(firsts, firsts.dropFirst() + firsts.prefix(1)) {
            #expect((next - first + buckets) % buckets == buckets / lanes)
        }
    }

    /// A change with a minute to go is not to wait for a round past all other queues.
    @Test func lanes_beginWithTheMostUrgent_whereTimeIsShort() {
        let all = (0..<64).map { due($0, 0) }

        for place in [0, 31, 63] {
            let turns = DueOrder.turns(all, now: Harness.start.milliseconds, place: place)
            #expect(turns.first?.due.first?.queue.bucket == 0)
        }
    }

    @Test func turns_ofNothing_areNone() {
        #expect(DueOrder.turns([], now: 0, place: 63).isEmpty)
    }

    /// A handshake for each: a process that begins on a busy machine would be long about them before its first call.
    @Test func connections_areMadeForTheCallsThatARateAllows_notForAWholeClaim() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.approve(try await harness.submit([Harness.row("1")]))
        let store = SilentStore(to: [], others: harness.store)

        _ = try await scheduler(harness, store) { $0.changePricePerSecond = 4 }.round()

        #expect(store.prepared == [4])
        await harness.close()
    }

    @Test func calls_ofTwoBatches_leaveInTheOrderOfTheirDeadlines() async throws {
        let harness = try await Harness.make()
        let ids = (1...40).map { "\($0)" }
        for id in ids { try await harness.subscribe(id) }
        // Sent to with 40 days to go, the later half may wait four weeks less.
        let late = try await harness.submit(
            ids.prefix(30).map { Harness.row($0, line: 2) }, content: "late")
        let early = try await harness.submit(
            ids.suffix(10).map { Harness.row($0, line: 2) }, content: "early")
        try await harness.approve(late)
        try await harness.approve(early)
        try await harness.write(
            """
            UPDATE repricer.price_changes SET send_by = \(timestamp: Harness.start.milliseconds)::timestamptz
                + CASE WHEN batch_id = \(uuid: early) THEN interval '2 days' ELSE interval '9 days' END
            """)

        try await harness.deliver(harness.scheduler())

        let order = harness.store.calls.map(\.transactionID)
        #expect(order.count == 40)
        #expect(Set(order.prefix(10)) == Set(ids.suffix(10)))
        await harness.close()
    }

    /// Their next deadline is a renewal later, and what is in time would else miss its own.
    @Test(arguments: [true, false])
    func calls_thatAreOverdue_leaveAfterThoseThatAreInTime(ofOneBatch: Bool) async throws {
        let harness = try await Harness.make()
        let ids = (1...40).map { "\($0)" }
        for id in ids { try await harness.subscribe(id) }
        let (overdue, inTime) = (ids.prefix(30), ids.suffix(10))
        for rows in ofOneBatch ? [ids] : [Array(overdue), Array(inTime)] {
            try await harness.approve(
                try await harness.submit(
                    rows.map { Harness.row($0, line: 2) }, content: "\(rows.count) rows"))
        }
        try await harness.write(
            """
            UPDATE repricer.price_changes SET send_by = \(timestamp: Harness.start.milliseconds)::timestamptz
                + CASE WHEN original_transaction_id = ANY (\(Array(inTime))::text[]) THEN interval '2 days'
                    ELSE interval '-2 hours' END
            """)

        try await harness.deliver(harness.scheduler())

        let order = harness.store.calls.map(\.transactionID)
        #expect(order.count == 40)
        #expect(Set(order.prefix(10)) == Set(inTime))
        await harness.close()
    }

    /// One whose subscription is held, or has a call in flight, is in time for weeks, and stands in the same queue.
    @Test func callThatIsOverdue_besideOneInTimeThatCanNotBeMade_leaves() async throws {
        let harness = try await Harness.make()
        let other = try #require(
            (2...2000).map(String.init).first { Bucket.of($0) == Bucket.of("1") })
        for id in ["1", other] { try await harness.subscribe(id) }
        _ = try await harness.submitAndApprove(
            [Harness.row("1", line: 2), Harness.row(other, line: 3)])
        try await harness.write(
            """
            UPDATE repricer.price_changes SET send_by = \(timestamp: Harness.start.milliseconds)::timestamptz
                + CASE line WHEN 2 THEN interval '20 days' ELSE interval '-2 hours' END
            """)
        let holder = try await TestDatabase.connect()
        try await holder.script(
            "BEGIN; SELECT FROM repricer.subscriptions WHERE original_transaction_id = '1' FOR UPDATE"
        )

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map(\.transactionID) == [other])
        try await holder.script("ROLLBACK")
        await holder.close()
        await harness.close()
    }

    @Test func changesOfAPausedBatch_howeverMany_areNotRead() async throws {
        let harness = try await Harness.make()
        let ids = (1...80).map { "\($0)" }
        for id in ids { try await harness.subscribe(id) }
        let paused = try await harness.submitAndApprove(ids.map { Harness.row($0) })
        try await harness.setPause(paused, true)

        let read = try await harness.service.withTransaction { connection in
            let due = try connection.ask(
                DueQueries.earliest(realNow: harness.realClock.nowMilliseconds()))
            let rows = try connection.query(
                """
                SELECT pg_stat_get_xact_tuples_fetched('repricer.price_changes'::regclass)
                    + pg_stat_get_xact_tuples_returned('repricer.price_changes'::regclass) AS rows
                """
            ).one().int("rows")
            return (due: due.count, rows: rows)
        }

        #expect(read.due == 0)
        #expect(read.rows <= 68, "one a queue")
        await harness.close()
    }

    /// A retry says what the first call said.
    @Test(arguments: [nil, "token \"1\""])
    func intent_asStored_readsBack(token: String?) throws {
        let intent = PriceChangeIntent(
            transactionID: "1", requestReferenceID: "id",
            consistencyToken: token, currency: "USD", storefront: "USA",
            items: [
                .init(sku: "é\\\u{1}", price: 9990, dependentSKUs: ["B", "C\n"]),
                .init(sku: "D", price: 1, dependentSKUs: []),
            ])

        let read = PriceChangeIntent(
            of: StoreCall(
                .priceChange, subject: "1", callID: "id", bucket: 0, carries: ["c"],
                intent: intent.text))

        #expect(read == intent)
    }

    /// The next claim does not wait for the calls of the one before.
    @Test func callWithoutAnAnswer_holdsUpNoOther() async throws {
        let harness = try await Harness.make()
        let ids = (1...40).map { "\($0)" }
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(ids.map { Harness.row($0) })
        let store = SilentStore(to: ["1", "2", "3", "4", "5"], others: harness.store)
        let scheduler = scheduler(harness, store) { _ in }
        let service = Task { try await scheduler.run() }

        // One not yet sent when the service ends is put back: all have to be out.
        while harness.store.calls.count < 35 || store.asked < 5 { await Task.yield() }
        service.cancel()
        store.answer()
        _ = try? await service.value

        #expect(Set(harness.store.applied.values.map(\.transactionID)) == Set(ids))
        #expect(try await harness.changes() == ids.map { _ in "A scheduled" })
        await harness.close()
    }

    @Test func callWithoutAnAnswer_whenTheServiceEnds_isLeftToWhoTakesItOver() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let store = SilentStore(to: ["1"], others: harness.store)
        let scheduler = scheduler(harness, store, drainFor: .milliseconds(50)) { _ in }
        let service = Task { try await scheduler.run() }
        while store.asked == 0 { await Task.yield() }

        service.cancel()
        _ = try? await service.value

        #expect(try await harness.changes() == ["A sending"])
        #expect(try await harness.requestStates() == ["sending"])
        store.answer()
        await harness.close()
    }
}
