import Ledger
import Pricing
import ServiceKit
import TestSupport
import Testing

@testable import Orchestrator

/// How often the scheduler waits for the database: at 50 calls a second that is most of what it does.
@Suite(.database) struct RoundTripTests {
    private typealias World = DeliveryWorld

    private static func trips(_ pool: LedgerPool) async throws -> Int {
        try await pool.withConnection { await $0.tripCount }
    }

    /// What a repetition takes: the first time statements are prepared and rules read.
    private func frugalPool() async throws -> LedgerPool {
        LedgerPool(
            conninfo: try await TestDatabase.login("frugal", memberOf: ["repricer_service"]),
            applicationName: "frugal", size: 1)
    }

    @Test func look_takesOneTrip_andOneMoreWhenSomethingWoke() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let work = DueWork()
        let now = World.start.milliseconds

        let (trips, found) = try await world.service.read { connection in
            func look(on connection: isolated LedgerConnection) throws -> (trips: Int, due: Int) {
                let before = connection.tripCount
                let found = try work.look(
                    now: now, realNow: now, wakes: 10, isThorough: false, on: connection)
                return (connection.tripCount - before, found.due.count)
            }
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
        // One more unless the look was at everything anyway.
        #expect(trips[1] <= 2)
        await world.close()
    }

    @Test func look_whilePausedAndAfter_findsWhatIsDueOnceItGoesOn() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let work = DueWork()
        let now = World.start.milliseconds
        func due() async throws -> Int {
            try await world.service.read {
                try work.look(now: now, realNow: now, wakes: 10, isThorough: false, on: $0)
            }.due.count
        }

        let before = try await due()
        try await world.setPause(nil, true)
        let paused = try await [due(), due()]
        try await world.setPause(nil, false)
        let after = try await [due(), due()]

        #expect(before == 1)
        #expect(paused == [0, 0])
        #expect(after == [1, 1])
        await world.close()
    }

    @Test func claimAndSettlement_takeThreeTripsEach() async throws {
        let world = try await World.make()
        for id in ["1", "2"] { try await world.subscribe(id) }
        try await world.submitAndApprove(["1", "2"].map { World.row($0) })
        let pool = try await frugalPool()
        let claimer = Claimer(
            pool: pool, clock: world.clock, realClock: world.realClock, environment: .production,
            owner: "01890000-0000-7000-8000-000000000001",
            leaseFor: .seconds(60), flightTime: 0)
        let settlement = Settlement(
            pool: pool, log: .silent, retry: Backoff(first: .seconds(1), max: .seconds(1)))
        let realNow = World.start.milliseconds
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
            let request = try #require(claim.requests.first)
            let isOurs = try await settlement.settle(
                request,
                .answered(
                    [World.scheduled(request.originalTransactionID)], StoreReply(httpStatus: 200)),
                newest: [], now: world.now, realNow: realNow)
            #expect(isOurs)
            taken.append([claimed - start, try await Self.trips(pool) - claimed])
        }

        #expect(taken.last == [3, 3])
        #expect(try await world.changes() == ["A scheduled", "A scheduled"])
        #expect(try await world.requestStates() == ["answered", "answered"])
        await pool.close()
        await world.close()
    }
}
