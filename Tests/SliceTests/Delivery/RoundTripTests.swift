import AppStore
import Calls
import Facts
import Pricing
import ServiceKit
import TestSupport
import Testing

@testable import PriceChanges

/// How often the scheduler waits for the database: at 50 calls a second that is most of what it does.
@Suite(.database) struct RoundTripTests {
    private typealias Harness = DeliveryHarness

    private static func trips(_ pool: DatabasePool) async throws -> Int {
        try await pool.withConnection { await $0.tripCount }
    }

    /// What a repetition takes: the first time statements are prepared and rules read.
    private func frugalPool() async throws -> DatabasePool {
        DatabasePool(
            conninfo: try await TestDatabase.login("frugal", memberOf: ["repricer_service"]),
            applicationName: "frugal", size: 1)
    }

    @Test func search_takesOneTrip_andOneMoreWhenSomethingWoke() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let work = DueWork(engine: harness.engine(), kind: harness.priceKind())
        let now = Harness.start.milliseconds

        let (trips, found) = try await harness.service.read { connection in
            func look(on connection: isolated DatabaseConnection) throws -> (trips: Int, due: Int) {
                let before = connection.tripCount
                let found = try work.search(wakes: 10, isThorough: false, on: connection)
                return (connection.tripCount - before, found.due.count)
            }
            // The first search ever asks whether the database is spread.
            _ = try look(on: connection)
            let first = try look(on: connection)
            let asleep = try connection.execute(
                """
                UPDATE repricer.price_changes
                SET is_ready = false, send_after = \(timestamp: now)
                """)
            let woken = try look(on: connection)
            return ([first.trips, woken.trips], [first.due, asleep, woken.due])
        }

        #expect(found == [1, 1, 1])
        #expect(trips[0] == 1)
        // One more unless the check was at everything anyway.
        #expect(trips[1] <= 2)
        await harness.close(isTamperedWith: true)
    }

    /// A report of days ago, or a person's transaction, may hold the rows that were due first.
    @Test func sleepingChanges_behindThoseThatAnotherSessionHolds_areWoken() async throws {
        let harness = try await Harness.make()
        let ids = (1...5).map { "\($0)" }
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(ids.map { Harness.row($0) })
        let now = Harness.start.milliseconds
        try await harness.write(
            """
            UPDATE repricer.price_changes SET is_ready = false,
                send_after = \(timestamp: now)::timestamptz - CASE WHEN original_transaction_id IN ('1', '2', '3', '4')
                    THEN interval '2 hours' ELSE interval '1 hour' END
            """)
        let work = DueWork(engine: harness.engine(), kind: harness.priceKind())
        let other = try await TestDatabase.connect()
        try await other.script(
            """
            BEGIN; SELECT 1 FROM repricer.price_changes WHERE original_transaction_id IN ('1', '2', '3', '4') FOR UPDATE
            """)

        let found = try await work.search(wakes: 2, isThorough: false)

        #expect(found.due.map(\.queue.bucket) == [Bucket.of("5")])
        try await other.script("ROLLBACK")
        #expect(try await work.search(wakes: 2, isThorough: false).due.count == 3)
        #expect(try await work.search(wakes: 2, isThorough: false).due.count == 5)
        await harness.close(isTamperedWith: true)
    }

    @Test func search_whilePausedAndAfter_findsWhatIsDueOnceItGoesOn() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let work = DueWork(engine: harness.engine(), kind: harness.priceKind())
        func due() async throws -> Int {
            try await work.search(wakes: 10, isThorough: false).due.count
        }

        let before = try await due()
        try await harness.setPause(nil, true)
        let paused = try await [due(), due()]
        try await harness.setPause(nil, false)
        let after = try await [due(), due()]

        #expect(before == 1)
        #expect(paused == [0, 0])
        #expect(after == [1, 1])
        await harness.close()
    }

    @Test func claimAndSettlement_takeThreeTripsEach() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        try await harness.submitAndApprove(["1", "2"].map { Harness.row($0) })
        let pool = try await frugalPool()
        let claimer = Claimer(engine: harness.engine(pool: pool))
        let settlement = harness.engine(pool: pool).settlement(of: harness.priceKind(pool))
        let realNow = Harness.start.milliseconds
        var taken: [[Int]] = []

        for _ in 0..<2 {
            let due = try await pool.read {
                try $0.ask(DueQueries.earliest(realNow: realNow))
            }
            let turn = try #require(
                DueOrder.turns(due, now: realNow, place: 0).first, "something is due")
            let start = try await Self.trips(pool)
            let claim = try await claimer.claim(turn, limit: 1)
            let claimed = try await Self.trips(pool)
            let call = try #require(claim.calls.first)
            let settled = try await settlement.settle(
                [
                    Attempt(
                        call,
                        .answered(
                            [Harness.scheduled(call.subject)], StoreReply(httpStatus: 200)))
                ], now: harness.now, realNow: realNow)
            #expect(settled.ours == [call.callID])
            taken.append([claimed - start, try await Self.trips(pool) - claimed])
        }

        #expect(taken.last == [3, 3])
        #expect(try await harness.changes() == ["A scheduled", "A scheduled"])
        #expect(try await harness.requestStates() == ["answered", "answered"])
        await pool.close()
        await harness.close()
    }
}
