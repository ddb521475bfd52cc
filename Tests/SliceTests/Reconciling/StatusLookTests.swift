import Batches
import Calls
import Postgres
import PriceChanges
import Pricing
import Reconciliation
import ServiceKit
import Synchronization
import TestSupport
import Testing

@Suite(.database) struct StatusLookTests {
    private typealias World = DeliveryWorld

    @Test func unknownOutcome_whenReconciled_isLookedAtAndNeverSent() async throws {
        let world = try await World.make([.lost])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        #expect(try await world.changes() == ["A unknown timed out"])

        let result = try await world.reconciler(ScriptedHistory(), ScriptedDoor()).runOnce()

        let (summary, failure) = try #require(result)
        #expect(failure == nil)
        #expect([summary.unknownLooked, summary.unknownSettled] == [1, 1])
        #expect(world.store.calls.count == 1)
        #expect(try await world.changes() == ["A scheduled"])
        #expect(try await world.requestStates() == ["answered"])
        await world.close()
    }

    @Test func unknownOutcome_notApplied_isSentByTheSchedulerAgain() async throws {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())

        let result = try await world.reconciler(ScriptedHistory(), ScriptedDoor()).runOnce()
        #expect(try #require(result).summary.unknownSettled == 0)
        #expect(world.store.calls.count == 1)
        world.realClock.advance(by: .seconds(5))
        try await world.deliver(world.scheduler())

        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    @Test func unknownOutcome_lookedAtAgainAndAgain_isStillSentInASecond() async throws {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())

        for _ in 0..<8 {
            world.realClock.advance(by: .seconds(15))
            _ = try await world.reconciler(ScriptedHistory(), ScriptedDoor()).runOnce()
        }
        world.realClock.advance(by: .seconds(1))
        try await world.deliver(world.scheduler())

        #expect(world.store.calls.count == 2)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    @Test func changeSilentTooLong_isLookedAtOnceAMargin_andItsDriftIsTold() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        let store = StatusStore { id in
            .answered([World.declining(id, at: world.now)], StoreReply(httpStatus: 200))
        }
        let reconciler = world.reconciler(ScriptedHistory(), ScriptedDoor(), store: store)

        let early = try #require(try await reconciler.runOnce()).summary
        world.clock.advance(by: .seconds(90 * 86_400))
        let late = try #require(try await reconciler.runOnce()).summary
        let again = try #require(try await reconciler.runOnce()).summary

        #expect([early.silent, late.silent, again.silent] == [0, 1, 0])
        #expect(late.looks.drifted == 1)
        #expect(late.looks.driftFields["items"] == 1)
        #expect(try await world.changes().first?.hasPrefix("A scheduled") == false)
        await world.close()
    }

    @Test func list_ofIDs_isReadOnce_andProblemsKeepTheirLines() async throws {
        let world = try await World.make()
        let store = StatusStore { id in
            switch id {
            case "3": .refused(Self.notFound, StoreReply(httpStatus: 404))
            case "4": .unknown(reason: "not JSON", StoreReply(httpStatus: 200))
            case "5": .answered([], StoreReply(httpStatus: 200))
            default: .answered([World.listed(id, at: world.now)], StoreReply(httpStatus: 200))
            }
        }
        let sync = Synchronizer(pool: world.service, runner: world.looks(store), clock: world.clock)
        let text = "\u{FEFF}x,original_transaction_id\n,1\n,2\n,1\n,2.0E+15\n\n,3\n,4\nbad\n,5\n"
        let input = BatchInput(Array(text.utf8), path: "ids.csv")
        let faults = Mutex<[String]>([])

        let loaded = try await sync.load(input) { fault, line in
            faults.withLock { $0.append("\(line) \(fault.code.rawValue)") }
        }
        var summary = LookSummary()
        try await sync.run(loaded.list, into: &summary)
        let problems = Mutex<[String]>([])
        try await sync.forEachProblem(of: loaded.list) { problem in
            problems.withLock { $0.append("\(problem.line) \(problem.outcome.rawValue)") }
        }

        #expect(faults.withLock { $0 } == ["5 bad_transaction_id", "9 malformed_row"])
        #expect([loaded.lines, loaded.faults] == [8, 2])
        #expect([loaded.ids, loaded.duplicates] == [5, 1])
        #expect(summary.outcomes == [.read: 2, .notFound: 2, .unreadable: 1])
        #expect(problems.withLock { $0 } == ["7 not_found", "8 unreadable", "10 not_found"])
        #expect(store.looks(of: "1") == 1)
        await world.close()
    }

    @Test func list_stoppedInItsMiddle_goesOnWithWhatIsOpen() async throws {
        let world = try await World.make()
        let isAway = Mutex(false)
        let store = StatusStore { id in
            isAway.withLock { $0 } || id == "7"
                ? .notSent(reason: "connection refused")
                : .answered([World.listed(id, at: world.now)], StoreReply(httpStatus: 200))
        }
        let sync = Synchronizer(pool: world.service, runner: world.looks(store), clock: world.clock)
        let input = BatchInput(Array("1\n2\n3\n".utf8), path: "ids")
        var loaded = try await sync.load(input) { _, _ in }
        isAway.withLock { $0 = true }
        var first = LookSummary()
        await #expect(throws: ReconcileError.storeAway("connection refused")) {
            try await sync.run(loaded.list, into: &first)
        }
        isAway.withLock { $0 = false }

        loaded = try await sync.load(input) { _, _ in }
        var second = LookSummary()
        try await sync.run(loaded.list, into: &second)
        let third = try await sync.load(input) { _, _ in }
        try await sync.forget(loaded.list)
        let anew = try await sync.load(input) { _, _ in }

        #expect(first.done == 0)
        #expect(second.read == 3)
        #expect(third.doneBefore == 3)
        #expect(anew.doneBefore == 0)
        await world.close()
    }

    @Test func oneIDWithoutAnswer_doesNotStopTheOthers() async throws {
        let world = try await World.make()
        let store = StatusStore { id in
            id == "7"
                ? .unknown(reason: "500", StoreReply(httpStatus: 500))
                : .answered([World.listed(id, at: world.now)], StoreReply(httpStatus: 200))
        }
        let sync = Synchronizer(pool: world.service, runner: world.looks(store), clock: world.clock)
        let ids = (1...300).map { "\($0)" }.joined(separator: "\n")
        let loaded = try await sync.load(BatchInput(Array(ids.utf8), path: "ids")) { _, _ in }
        var summary = LookSummary()

        do {
            try await sync.run(loaded.list, into: &summary)
        } catch {
            #expect(error as? ReconcileError == .storeAway("500"))
        }

        #expect(summary.read == 299)
        #expect(store.looks(of: "7") == 5)
        await world.close()
    }

    private static let notFound = StoreRefusal(
        code: 4_040_010, name: "TransactionIdNotFoundError", message: "no", meaning: .reject)
}

/// Only looks, counted, as the test says.
final class StatusStore: StoreCalls {
    private let answer: @Sendable (String) -> StoreAnswer
    private let seen = Mutex<[String: Int]>([:])

    init(_ answer: @escaping @Sendable (String) -> StoreAnswer) {
        self.answer = answer
    }

    func looks(of id: String) -> Int { seen.withLock { $0[id, default: 0] } }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        Issue.record("no change is asked for here")
        return .notSent(reason: "only looks")
    }

    func look(transactionID: String) async -> StoreAnswer {
        seen.withLock { $0[transactionID, default: 0] += 1 }
        return answer(transactionID)
    }
}

extension DeliveryWorld {
    /// Renewed without item A: its increase was declined.
    static func declining(_ id: String, at: Instant) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: at, evidenceID: "status:\(at.milliseconds)-\(id)"),
            source: .status, originalTransactionID: id, status: 1,
            transaction: TransactionStatement(
                transactionID: "t2-\(id)", purchasedAt: at, expiresAt: at.advanced(by: 86_400_000),
                storefront: "USA", currency: "USD", period: "P1M",
                items: [.init(sku: "B", price: 9990)]),
            renewal: RenewalStatement(autoRenewStatus: 1, items: [.init(sku: "B", price: 9990)]))
    }

    static func listed(_ id: String, at: Instant) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: at, evidenceID: "status:\(at.milliseconds)-\(id)"),
            source: .status, originalTransactionID: id, status: 1,
            renewal: RenewalStatement(autoRenewStatus: 1, items: [.init(sku: "A", price: 9990)]))
    }
}
