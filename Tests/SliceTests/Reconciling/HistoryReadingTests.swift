import AppStore
import Postgres
import Pricing
import Reconciliation
import ServiceKit
import TestSupport
import Testing

@Suite(.database) struct HistoryReadingTests {
    private typealias Harness = DeliveryHarness
    private static let hour: Int64 = 3_600_000
    private static let day = 24 * hour
    private static let now = DeliveryHarness.start.milliseconds

    /// `count` notifications, one an hour, the newest an hour ago; every third has failed.
    private static func entries(_ count: Int) -> [ScriptedHistory.Entry] {
        (0..<count).map { number in
            ScriptedHistory.Entry(
                payload: "n\(number)", at: now - Int64(count - number) * hour,
                hasFailed: number % 3 == 0)
        }
    }

    private func run(
        _ harness: Harness, _ history: ScriptedHistory, _ intake: ScriptedIntake,
        since: Int64? = nil
    ) async throws -> (history: HistorySummary, failure: String?) {
        let result = try await harness.reconciler(history, intake).runOnce(
            since: since.map { Instant(milliseconds: $0) })
        let (summary, failure) = try #require(result)
        return (summary.history, failure.map { "\($0)" })
    }

    @Test func history_isReadFailuresFirst_andOnce() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory(Self.entries(100))
        let intake = ScriptedIntake()

        let first = try await run(harness, history, intake, since: Self.now - 5 * Self.day)
        let second = try await run(harness, history, intake, since: Self.now - 5 * Self.day)

        #expect(first.failure == nil)
        #expect(Array(intake.stored.prefix(34)).allSatisfy { (Int($0.dropFirst()) ?? 1) % 3 == 0 })
        #expect(Set(intake.stored).count == 100)
        #expect(first.history.new == 100)
        #expect(second.history.new == 0)
        #expect(second.history.duplicate == second.history.seen)
        await harness.close()
    }

    @Test func history_withoutSince_goesOnWhereItEnded() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory(Self.entries(5))
        let intake = ScriptedIntake()

        _ = try await run(harness, history, intake)
        let before = history.asked.count
        harness.clock.advance(by: .seconds(600))
        history.add(.init(payload: "late", at: Self.now + 1000))
        let again = try await run(harness, history, intake)

        #expect(again.history.new == 1)
        #expect(history.asked.first?.request.startAt.milliseconds ?? 0 < Self.now - 179 * Self.day)
        #expect(history.asked[before].request.startAt.milliseconds == Self.now - Self.hour)
        await harness.close()
    }

    @Test(arguments: [true, false])
    func history_atTheEdgesOfSlices_losesNothing(countsEdges: Bool) async throws {
        let harness = try await Harness.make()
        let start = Self.now - 3 * Self.day
        let edges = (1...2).flatMap { number in
            (-2...2).map { start + Int64(number) * Self.day + Int64($0) }
        }
        let history = ScriptedHistory(
            edges.map { .init(payload: "at \($0)", at: $0) }, countsEdges: countsEdges)
        let intake = ScriptedIntake()

        _ = try await run(harness, history, intake, since: start)

        #expect(Set(intake.stored) == Set(edges.map { "at \($0)" }))
        await harness.close()
    }

    @Test func history_stoppedInItsMiddle_goesOnAtThePage() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory(
            (0..<90).map { .init(payload: "n\($0)", at: Self.now - Self.hour + Int64($0)) })
        let intake = ScriptedIntake()
        intake.close(after: 50)

        let first = try await run(harness, history, intake, since: Self.now - 2 * Self.hour)
        let asked = history.asked.count
        intake.close(after: .max)
        harness.clock.advance(by: .seconds(5))
        let second = try await run(harness, history, intake, since: Self.now - 2 * Self.hour)

        #expect(first.failure?.contains("not stored") == true)
        let next = history.asked[asked]
        #expect(next.token != nil)
        #expect(next.token == history.asked[asked - 1].token)
        #expect(next.request == history.asked[asked - 1].request)
        #expect(second.failure == nil)
        #expect(Set(intake.stored).count == 90)
        await harness.close()
    }

    @Test func history_withAnExpiredToken_readsTheSliceAnew() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory(
            (0..<70).map { .init(payload: "n\($0)", at: Self.now - Self.hour + Int64($0)) },
            faults: [3: .expiredToken])
        let intake = ScriptedIntake()

        let read = try await run(harness, history, intake, since: Self.now - 2 * Self.hour)

        #expect(read.failure == nil)
        #expect(read.history.restarts == 1)
        #expect(Set(intake.stored).count == 70)
        #expect(history.asked[4].token == nil)
        await harness.close()
    }

    @Test(arguments: [
        (ScriptedHistory.Fault.noToken, "hasMore without a paginationToken"),
        (.sameToken, "the same paginationToken twice"),
    ])
    func history_leadingNowhere_endsAndSaysSo(
        _ fault: ScriptedHistory.Fault, _ why: String
    ) async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory(Self.entries(3), faults: [1: fault, 2: fault, 3: fault])
        let intake = ScriptedIntake()

        let read = try await run(harness, history, intake, since: Self.now - Self.day)

        #expect(read.failure?.contains(why) == true)
        #expect(history.asked.count <= 4)
        #expect(try await harness.position().readThrough == nil)
        await harness.close()
    }

    @Test func history_withAForgedPayload_countsItAndGoesOn() async throws {
        let harness = try await Harness.make()
        var entries = Self.entries(30)
        entries[7].payload = "forged"
        let intake = ScriptedIntake()

        let read = try await run(
            harness, ScriptedHistory(entries), intake, since: Self.now - 2 * Self.day)

        #expect(read.failure == nil)
        #expect(read.history.refused == ["jws_chain": 1])
        #expect(Set(intake.stored).count == 29)
        await harness.close()
    }

    @Test func history_ofAClockThatIsAhead_isFoundByTheNextRun() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory()
        let intake = ScriptedIntake()
        _ = try await run(harness, history, intake)

        // Our clock said "now" five minutes early: Apple signs these before what we take as read.
        history.add(.init(payload: "behind", at: Self.now - 300_000))
        history.add(.init(payload: "ahead", at: Self.now + 300_000))
        harness.clock.advance(by: .seconds(900))
        let second = try await run(harness, history, intake)

        #expect(second.history.new == 2)
        await harness.close()
    }

    @Test func history_sinceLongAgo_isCutAtWhatAppleKeeps() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory([.init(payload: "old", at: Self.now - 179 * Self.day)])
        let intake = ScriptedIntake()

        let read = try await run(harness, history, intake, since: Self.now - 400 * Self.day)

        #expect(read.failure == nil)
        #expect(read.history.isCutShort)
        #expect(intake.stored == ["old"])
        let first = history.asked.map(\.request.startAt.milliseconds).min() ?? 0
        #expect(first >= Self.now - 180 * Self.day)
        #expect(try await harness.position().readThrough == Self.now)
        await harness.close()
    }

    @Test func history_ofAnAppleWhoseClockIsAhead_beginsLaterUntilItIsTaken() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory(
            Self.entries(3), faults: [0: .refused(4_000_012), 1: .refused(4_000_012)])
        let intake = ScriptedIntake()

        let read = try await run(harness, history, intake)

        #expect(read.failure == nil)
        #expect(intake.stored.count == 3)
        let starts = history.asked.prefix(3).map(\.request.startAt.milliseconds)
        #expect(starts == [0, 1, 2].map { (starts.first ?? 0) + $0 * Self.hour })
        await harness.close()
    }

    @Test func history_sinceYesterday_doesNotClaimTheDaysBefore() async throws {
        let harness = try await Harness.make()

        let read = try await run(
            harness, ScriptedHistory(), ScriptedIntake(), since: Self.now - Self.day)

        #expect(read.failure == nil)
        #expect(try await harness.position().readThrough == nil)
        #expect(try await harness.position().window == nil)
        await harness.close()
    }

    @Test func history_ofAStoreThatIsAway_isTriedFiveTimes() async throws {
        let harness = try await Harness.make()
        let faults = Dictionary(
            uniqueKeysWithValues: (1..<9).map { ($0, ScriptedHistory.Fault.away) })
        let history = ScriptedHistory(Self.entries(3), faults: faults)
        let intake = ScriptedIntake()

        let read = try await run(harness, history, intake, since: Self.now - Self.day)

        #expect(read.failure?.contains("the App Store is away: connection refused") == true)
        #expect(history.asked.count == 6)
        #expect(read.history.new == 1)
        await harness.close()
    }

    @Test func history_throttled_waitsForAShortSilenceAndEndsForALongOne() async throws {
        let harness = try await Harness.make()
        let soon = Instant(milliseconds: Self.now + 20_000)
        let late = Instant(milliseconds: Self.now + 20 * Self.hour)
        let history = ScriptedHistory(
            Self.entries(3), faults: [0: .throttled(until: soon), 2: .throttled(until: late)])

        let read = try await run(harness, history, ScriptedIntake(), since: Self.now - Self.day)

        #expect(read.history.pages == 1)
        #expect(read.failure?.contains("asked for silence until \(late.text)") == true)
        #expect(history.asked.count == 3)
        await harness.close()
    }

    @Test func history_refusedForTheKey_saysWhatTheCodeMeans() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory(faults: [0: .refused(4_010_000)])

        let read = try await run(harness, history, ScriptedIntake(), since: Self.now - Self.day)

        #expect(read.failure?.contains("refuses our key") == true)
        #expect(history.asked.count == 1)
        await harness.close()
    }

    @Test func reconciling_byTwoAtOnce_isDoneByOne() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory()
        let inside = harness.reconciler(ScriptedHistory(), ScriptedIntake())
        let interrupted = InterruptingHistory(history) {
            let isBusy = try await inside.runOnce() == nil
            #expect(isBusy, "the other one is at it")
        }

        let result = try await harness.reconciler(interrupted, ScriptedIntake()).runOnce()

        #expect(try #require(result).failure == nil)
        let later = try await inside.runOnce()
        #expect(try #require(later).failure == nil)
        await harness.close()
    }

    /// One line when it begins to fail and one when it works again, however often it is tried in between.
    @Test func runsThatFail_areToldOnce_andTheirEnd() async throws {
        let harness = try await Harness.make()
        let lines = LogLines()
        let history = ScriptedHistory(faults: [
            0: .refused(403), 1: .refused(403), 2: .refused(403),
        ])
        let service = ReconcileService(
            harness.reconciler(
                history, ScriptedIntake(), log: lines.log()),
            every: .seconds(900))

        for _ in 0..<5 {
            _ = try await service.runIfDue()
            harness.clock.advance(by: .seconds(900))
        }

        let told = lines.about("reconciling")
        #expect(told.count == 2, "\(told)")
        #expect(told.first?.contains("reconciling stopped") ?? false)
        #expect(told.last?.contains("reconciling goes through again") ?? false)
        await harness.close()
    }

    /// The schedule is shorter than the wait after a failed run: that wait is no sign of another replica's success.
    @Test func runsThatFail_onAShortSchedule_areToldOnce() async throws {
        let harness = try await Harness.make()
        let lines = LogLines()
        let history = ScriptedHistory(faults: [0: .refused(403), 1: .refused(403)])
        let service = ReconcileService(
            harness.reconciler(history, ScriptedIntake(), log: lines.log()), every: .seconds(5))

        for _ in 0..<2 {
            _ = try await service.runIfDue()
            harness.clock.advance(by: .seconds(35))
        }

        #expect(lines.about("reconciling").count == 1, "\(lines.all)")
        await harness.close()
    }

    /// Another replica's runs went through in between: what fails later is told anew.
    @Test func runsThatFailAgain_afterThoseOfAnotherReplica_areToldAnew() async throws {
        let harness = try await Harness.make()
        let lines = LogLines()
        let history = ScriptedHistory(faults: [0: .refused(403), 1: .refused(403)])
        let service = ReconcileService(
            harness.reconciler(history, ScriptedIntake(), log: lines.log()), every: .seconds(900))
        let other = ReconcileService(
            harness.reconciler(ScriptedHistory(), ScriptedIntake()), every: .seconds(900))

        for one in [service, other, other, service] {
            _ = try await one.runIfDue()
            harness.clock.advance(by: .seconds(901))
        }

        #expect(lines.about("message=\"reconciling stopped\"").count == 2, "\(lines.all)")
        #expect(lines.about("reconciling goes through again").count == 1)
        await harness.close()
    }

    /// The service is told to end while the App Store answers.
    private struct EndingHistory: HistoryCalls {
        func history(
            _ request: NotificationHistoryRequest, paginationToken: String?
        ) async -> CallOutcome<NotificationHistoryPage> {
            withUnsafeCurrentTask { $0?.cancel() }
            return .unknown(reason: "cut short", StoreReply())
        }
    }

    /// The end of the service cuts a run short. That is no failure, and nobody is told of one.
    @Test func runThatTheEndOfTheServiceCutsShort_hasNotFailed() async throws {
        let harness = try await Harness.make()
        let lines = LogLines()
        let service = ReconcileService(
            harness.reconciler(EndingHistory(), ScriptedIntake(), log: lines.log()),
            every: .seconds(900))

        let run = Task { try await service.runIfDue() }

        await #expect(throws: CancellationError.self) { try await run.value }
        #expect(lines.about("reconciling stopped").isEmpty, "\(lines.all)")
        await harness.close()
    }

    /// What failed is due again within the minute, and not after a whole interval.
    @Test func runThatFails_isDueAgainSoon() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory(faults: [0: .refused(403)])
        let service = ReconcileService(
            harness.reconciler(history, ScriptedIntake()), every: .seconds(900))

        guard case .failed = try await service.runIfDue() else {
            return #expect(Bool(false), "the first run fails")
        }
        let atOnce = try await service.runIfDue()
        harness.clock.advance(by: .seconds(31))
        let soon = try await service.runIfDue()
        harness.clock.advance(by: .seconds(31))
        let again = try await service.runIfDue()

        #expect(atOnce == .notOurs)
        guard case .ran = soon else { return #expect(Bool(false), "\(soon)") }
        #expect(again == .notOurs)
        await harness.close()
    }

    /// Where every notification is refused, our settings are wrong, and nobody would read those days again.
    @Test(arguments: [(9, true), (10, false), (45, false)])
    func notificationsThatAreAllRefused_areNotPassedOver(count: Int, isPassed: Bool) async throws {
        let harness = try await Harness.make()
        let entries = (0..<count).map {
            ScriptedHistory.Entry(
                payload: "forged-\($0)", at: harness.now.milliseconds - 60_000 - Int64($0))
        }
        let history = ScriptedHistory(entries)

        let run = try await harness.reconciler(history, ScriptedIntake()).runOnce()

        let failure = try #require(run).failure.map { "\($0)" }
        #expect((failure == nil) == isPassed, "\(failure ?? "-")")
        #expect((try await harness.position().readThrough != nil) == isPassed)
        if !isPassed { #expect(failure?.contains("jws_chain") == true) }
        await harness.close()
    }

    @Test func schedule_overAllReplicas_runsOnceAnInterval() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory()
        let services = (0..<2).map { _ in
            ReconcileService(
                harness.reconciler(history, ScriptedIntake()), every: .seconds(900))
        }

        var ran: [Bool] = []
        for step in 0..<4 {
            if step == 2 { harness.clock.advance(by: .seconds(900)) }
            if case .ran = try await services[step % 2].runIfDue() {
                ran.append(true)
            } else {
                ran.append(false)
            }
        }

        #expect(ran == [true, false, true, false])
        await harness.close()
    }
}

/// Lets something happen while the first page is on its way.
private actor InterruptingHistory: HistoryCalls {
    private let history: ScriptedHistory
    private var meanwhile: (@Sendable () async throws -> Void)?

    init(_ history: ScriptedHistory, _ meanwhile: @escaping @Sendable () async throws -> Void) {
        self.history = history
        self.meanwhile = meanwhile
    }

    func history(
        _ request: NotificationHistoryRequest, paginationToken: String?
    ) async -> CallOutcome<NotificationHistoryPage> {
        let action = meanwhile
        meanwhile = nil
        do { try await action?() } catch { Issue.record(error) }
        return await history.history(request, paginationToken: paginationToken)
    }
}
