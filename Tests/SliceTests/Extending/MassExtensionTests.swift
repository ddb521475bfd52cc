import Batches
import Extensions
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

@testable import AppStore

@Suite(.database) struct MassExtensionTests {
    private func harness(
        _ replies: [ScriptedExtensions.Reply] = []
    ) async throws -> ExtensionHarness {
        let harness = try await ExtensionHarness.make(replies)
        for id in ["1", "2", "3"] { try await harness.subscribe(id) }
        return harness
    }

    /// Within a day of its end another program extends all: nothing of that is counted as ours.
    @Test func completeMassExtension_whenAnotherProgramExtends_countsItsOwnAlone() async throws {
        let harness = try await ExtensionHarness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        try await harness.requestAll(days: 10)
        let extender = harness.extender()
        try await harness.work(extender)
        try await harness.tellExtended("1", days: 10, at: 1000)
        try await harness.tellFailed("2", at: 1000)
        try await harness.receiveSummary(9, succeeded: 1, failed: 1)
        harness.calls.with {
            $0.massStatus = MassExtensionStatus(
                isComplete: true,
                completedAt: DeliveryHarness.start.advanced(by: 2000), succeeded: 1, failed: 1)
        }
        harness.pass(.seconds(60))
        try await harness.work(extender)
        let ours = try await harness.report()

        try await harness.tellFailed("1", at: 90_000)
        try await harness.tellExtended("2", days: 1, at: 90_000)

        #expect(ours == ["all complete 1/1 1/1 clean"])
        #expect(try await harness.report() == ours)
        await harness.delivery.close()
    }

    @Test func massExtension_withoutASecondUser_isNeverCalled() async throws {
        let harness = try await harness()
        try await harness.requestAll(isApproved: false)
        let at = harness.delivery.now.milliseconds

        await #expect(throws: PostgresError.self) {
            try await harness.delivery.submitter.withTransaction {
                try ExtensionQueries.approve(ExtensionHarness.id(9), at: at, on: $0)
            }
        }
        try await harness.work(harness.extender())

        #expect(harness.calls.calls.isEmpty)
        #expect(try await harness.report() == ["all awaiting_approval 0/0 - open"])
        await harness.delivery.close()
    }

    @Test func massExtension_whenApproved_runsUntilItsSummary() async throws {
        let harness = try await harness()
        try await harness.requestAll(storefronts: ["USA"])
        let extender = harness.extender()

        try await harness.work(extender)
        let running = try await harness.report()
        try await harness.tellExtended("1", days: 30, at: 1000)
        try await harness.tellFailed("2", at: 2000)
        try await harness.tellExtended("3", days: 30, at: 3000)
        harness.pass(.seconds(3600))
        try await harness.receiveSummary(9, succeeded: 2, failed: 1)
        try await harness.work(extender)

        #expect(harness.calls.calls == ["com.example.base USA +30"])
        #expect(running == ["all running 0/0 - open"])
        #expect(try await harness.report() == ["all complete 2/1 2/1 clean"])
        #expect(
            try await harness.delivery.service.withTransaction {
                try AuditQueriesProbe.actions(on: $0)
            } == ["submit", "approve"])
        await harness.delivery.close()
    }

    @Test func summary_beforeTheLastFailure_differsUntilItIsTold() async throws {
        let harness = try await harness()
        try await harness.requestAll()
        let extender = harness.extender()
        try await harness.work(extender)

        try await harness.tellExtended("1", days: 30, at: 1000)
        try await harness.tellExtended("3", days: 30, at: 1500)
        harness.pass(.seconds(60))
        try await harness.receiveSummary(9, succeeded: 2, failed: 1)
        try await harness.work(extender)
        let early = try await harness.report()
        try await harness.tellFailed("2", at: 90_000)

        #expect(early == ["all complete 2/0 2/1 differs"])
        #expect(try await harness.report() == ["all complete 2/1 2/1 clean"])
        await harness.delivery.close()
    }

    @Test func summary_repeatedOrOfNoRequestOfOurs_changesNothing() async throws {
        let harness = try await harness()
        try await harness.requestAll()
        let extender = harness.extender()
        try await harness.work(extender)
        try await harness.receiveSummary(9, succeeded: 0, failed: 0)
        try await harness.work(extender)

        try await harness.receiveSummary(9, succeeded: 0, failed: 0)
        try await harness.receiveSummary(
            9, succeeded: 5, failed: 5, uuid: "older",
            signedAt: harness.delivery.now.advanced(by: -1))
        try await harness.receiveSummary(77, succeeded: 8, failed: 1, uuid: "foreign")
        try await harness.work(extender)

        #expect(
            try await harness.report() == [
                "all complete 0/0 0/0 clean", "foreign complete 0/0 8/1 differs",
            ])
        await harness.delivery.close()
    }

    /// Nothing says whose it is, so it does not count as one that was never requested.
    @Test func summary_thatCannotBeRead_isQuarantinedAndNotForeign() async throws {
        let harness = try await harness()
        try await harness.receiveSummary(
            9, succeeded: 1, failed: 0, uuid: "damaged", isDamaged: true)
        let metrics = Metrics()

        try await harness.work(harness.extender(metrics: metrics))

        #expect(metrics.render().contains("repricer_foreign_summaries_total 0\n"))
        let details = try await harness.delivery.service.withTransaction { connection in
            try connection.query("SELECT detail FROM repricer.extension_summaries").map {
                try $0.text("detail")
            }
        }
        #expect(details == ["the stored summary can't be read"])
        await harness.delivery.close()
    }

    @Test func massExtension_whenAnswerIsLost_isRepeatedUnderTheSameIdentifier() async throws {
        let harness = try await harness([.lost])
        try await harness.requestAll()
        let extender = harness.extender()

        try await harness.work(extender)
        let lost = try await harness.report()
        harness.pass(.seconds(2))
        try await harness.work(extender)

        #expect(lost == ["all unknown 0/0 - open"])
        #expect(harness.calls.identifiers == Array(repeating: ExtensionHarness.id(9), count: 2))
        #expect(try await harness.report() == ["all running 0/0 - open"])
        await harness.delivery.close()
    }

    @Test(arguments: [true, false])
    func refusal_ofARetry_isSettledByTheStatus(_ wasTaken: Bool) async throws {
        let harness = try await harness([.lost, .refused(4_000_023)])
        harness.calls.with { state in
            state.massStatus = wasTaken ? MassExtensionStatus(isComplete: false) : nil
        }
        try await harness.requestAll()
        let extender = harness.extender()

        try await harness.work(extender)
        harness.pass(.seconds(2))
        try await harness.work(extender)
        harness.pass(.seconds(2))
        try await harness.work(extender)

        #expect(harness.calls.checks == 1)
        // The first attempt may still be on its way, and another one of the product may not begin.
        #expect(
            try await harness.report() == [
                wasTaken ? "all running 0/0 - open" : "all unknown 0/0 - open"
            ])
        await #expect(throws: (any Error).self) { try await harness.requestAll(10) }
        guard !wasTaken else { return await harness.delivery.close() }

        try await harness.passUntilChecked(extender)

        #expect(harness.calls.checks >= 3)
        #expect(
            try await harness.report() == ["all refused 0/0 - ended InvalidProductIdError"])
        #expect(
            try await harness.delivery.texts(
                "SELECT is_doubtful::text AS text FROM repricer.store_calls") == ["true"])
        await harness.delivery.close()
    }

    /// A mass extension that is refused at each attempt in words that say nothing of it.
    private func refusedInUnclearWords() async throws -> (ExtensionHarness, Extender) {
        let harness = try await ExtensionHarness.make(
            Array(repeating: .refused(4_000_999), count: 99))
        try await harness.requestAll()
        let extender = harness.extender()
        try await harness.work(extender)
        try await harness.passUntilChecked(extender)
        return (harness, extender)
    }

    /// A repetition that is on its way may be accepted a moment later.
    @Test(arguments: [
        "next_attempt_at = NULL, next_step = 'send'",
        "in_flight_until = clock_timestamp() + interval '1 minute'",
    ])
    func massExtension_whoseRepetitionIsOnItsWay_isNotGivenUp(call: String) async throws {
        let (harness, _) = try await refusedInUnclearWords()
        harness.pass(.seconds(86_400))
        let former = try await harness.delivery.texts(
            "SELECT next_attempt_at::text AS text FROM repricer.store_calls")
        let owner = try await TestDatabase.connect()
        try await owner.script("UPDATE repricer.store_calls SET \(call)")

        #expect(try await giveUp(harness)?.contains("is being called") == true)
        try await owner.script(
            """
            UPDATE repricer.store_calls SET in_flight_until = '-infinity', next_attempt_at = '\(former.joined())'
            """)
        #expect(try await giveUp(harness) == nil)
        await owner.close()
        await harness.delivery.close()
    }

    @Test func status_whenComplete_endsItWithoutASummary() async throws {
        let harness = try await harness()
        try await harness.requestAll()
        let extender = harness.extender()
        try await harness.work(extender)
        harness.calls.with { state in
            state.massStatus = MassExtensionStatus(
                isComplete: true, completedAt: DeliveryHarness.start.advanced(by: 5000),
                succeeded: 1, failed: 0)
        }

        try await harness.work(extender)
        let early = harness.calls.checks
        try await harness.tellExtended("1", days: 30, at: 1000)
        harness.pass(.seconds(1000))
        try await harness.work(extender)

        #expect(early == 0)
        #expect(try await harness.report() == ["all complete 1/0 1/0 clean"])
        await harness.delivery.close()
    }

    /// What runs for hours is not asked about every second because the answer is a refusal.
    @Test func status_whenRefused_isAskedForAtThePaceOfChecks() async throws {
        let harness = try await harness()
        try await harness.requestAll()
        let extender = harness.extender()
        try await harness.work(extender)

        var checks: [Int] = []
        for seconds in [1000, 60, 600, 400] {
            harness.pass(.seconds(seconds))
            try await harness.work(extender)
            checks.append(harness.calls.checks)
        }

        #expect(checks == [1, 1, 1, 2])
        #expect(
            try await harness.report() == ["all running 0/0 - open StatusRequestNotFoundError"])
        await harness.delivery.close()
    }

    private func giveUp(_ harness: ExtensionHarness) async throws -> String? {
        let at = harness.delivery.clock.nowMilliseconds()
        do {
            try await harness.delivery.submitter.withTransaction {
                try ExtensionQueries.abandon(
                    ExtensionHarness.id(9), reason: "Apple lost it", at: at, on: $0)
            }
            return nil
        } catch let error as PostgresError {
            return error.message
        }
    }

    /// The App Store took it, and then knows nothing of it: a person may end it, a day later.
    @Test func massExtension_thatTheAppStoreLost_canBeGivenUp_andAnotherBegins() async throws {
        let harness = try await harness()
        try await harness.requestAll()
        let extender = harness.extender()
        try await harness.work(extender)

        #expect(try await giveUp(harness)?.contains("has not denied") == true)
        harness.pass(.seconds(3600))
        try await harness.work(extender)
        #expect(try await giveUp(harness)?.contains("less than a day ago") == true)
        harness.pass(.seconds(86_400))
        try await harness.work(extender)
        #expect(try await giveUp(harness) == nil)
        #expect(
            try await harness.report() == [
                "all given_up 0/0 - ended StatusRequestNotFoundError"
            ])
        let checks = harness.calls.checks
        harness.pass(.seconds(3600))
        try await harness.work(extender)
        try await harness.requestAll(10)
        try await harness.work(extender)

        #expect(harness.calls.checks == checks)
        #expect(harness.calls.identifiers == [9, 10].map(ExtensionHarness.id))
        #expect(
            try await harness.delivery.service.withTransaction {
                try AuditQueriesProbe.actions(on: $0)
            } == ["submit", "approve", "give_up", "submit", "approve"])
        await harness.delivery.close()
    }

    /// It was refused in words that say nothing, and is called again and again: a person may end it, a day later.
    @Test func massExtension_refusedInUnclearWords_isNamed_andCanBeGivenUp() async throws {
        let (harness, extender) = try await refusedInUnclearWords()

        let parked = try await harness.delivery.service.withTransaction {
            try ParkedWorkQueries.besidesBatches(limit: 5, on: $0)
        }
        let counts = try await harness.delivery.service.withTransaction {
            try ParkedWorkQueries.counts(on: $0)
        }
        #expect(try await giveUp(harness)?.contains("less than a day ago") == true)
        harness.pass(.seconds(86_400))
        #expect(try await giveUp(harness) == nil)
        let calls = harness.calls.calls.count
        try await harness.work(extender)
        try await harness.requestAll(10)

        #expect(parked.map(\.sku) == ["mass_extension"])
        #expect(parked.map(\.originalTransactionID) == [ExtensionHarness.id(9)])
        #expect(parked.allSatisfy { $0.reason.contains("4000999") }, "\(parked)")
        #expect(counts == ["cancel": 0, "extension": 0, "mass_extension": 1])
        #expect(harness.calls.calls.count == calls)
        #expect(try await harness.report().contains { $0.hasPrefix("all given_up") })
        await harness.delivery.close()
    }

    /// It is known after all: no person may end it, and what is told of one that was ended still counts.
    @Test(arguments: [true, false])
    func massExtension_knownAgain_isNotEndedByAPerson(isInTime: Bool) async throws {
        let harness = try await harness()
        try await harness.requestAll()
        let extender = harness.extender()
        try await harness.work(extender)
        harness.pass(.seconds(90_000))
        try await harness.work(extender)
        if isInTime {
            harness.calls.with { $0.massStatus = MassExtensionStatus(isComplete: false) }
            harness.pass(.seconds(1000))
            try await harness.work(extender)
            #expect(try await giveUp(harness)?.contains("has not denied") == true)
        } else {
            #expect(try await giveUp(harness) == nil)
        }

        harness.pass(.seconds(86_400 * 3))
        let later = harness.delivery.clock.nowMilliseconds() - DeliveryHarness.start.milliseconds
        try await harness.tellExtended("1", days: 30, at: later)
        try await harness.receiveSummary(9, succeeded: 1, failed: 0)
        try await harness.work(extender)

        #expect(try await harness.report() == ["all complete 1/0 1/0 clean"])
        await harness.delivery.close()
    }

    @Test func another_ofTheSameProduct_waitsForTheFirst() async throws {
        let harness = try await harness()
        try await harness.requestAll()

        await #expect(throws: PostgresError.self) { try await harness.requestAll(10) }

        #expect(try await harness.delivery.count("mass_extensions") == 1)
        await harness.delivery.close()
    }

    @Test func failed_whenRetried_areExtendedOneByOneAndOnce() async throws {
        let harness = try await harness()
        try await harness.requestAll()
        let extender = harness.extender()
        try await harness.work(extender)
        try await harness.tellFailed("1", at: 1000)
        try await harness.tellExtended("2", days: 30, at: 1000)
        try await harness.tellFailed("3", at: 1000)
        harness.pass(.seconds(60))
        try await harness.receiveSummary(9, succeeded: 1, failed: 2)
        try await harness.work(extender)

        let asked = try await harness.retryFailed()
        let askedAgain = try await harness.retryFailed(firstID: 200)
        harness.calls.with { $0.replies = [.done, .refused(4_030_004)] }
        try await harness.work(extender)
        let afterwards = try await harness.retryFailed(firstID: 300)

        #expect(asked == 2)
        #expect(askedAgain == 0)
        #expect(Set(harness.calls.calls.dropFirst()) == ["1 +30", "3 +30"])
        #expect(afterwards == 1)
        let line = try await harness.delivery.service.withTransaction {
            try ExtensionQueries.lines(of: ExtensionHarness.id(9), on: $0)
        }.first
        #expect(line?.retried == 3)
        #expect(line?.retriedExtended == 1)
        await harness.delivery.close()
    }

    /// The App Store would answer the second as it did the first, and extend nothing.
    @Test func identifierOfOne_isNotThatOfAll_andTheReverse() async throws {
        let harness = try await harness()
        try await harness.requestAll(9)
        try await harness.requestOne("1", 5)

        await #expect(throws: (any Error).self) { try await harness.requestOne("2", 9) }
        await #expect(throws: (any Error).self) {
            try await harness.requestAll(5, of: "com.example.other")
        }

        try await harness.requestOne("2", 6)
        #expect(try await harness.massStates() == ["queued"])
        await harness.delivery.close()
    }

    @Test func rejected_isNeverCalled() async throws {
        let harness = try await harness()
        try await harness.requestAll(isApproved: false)
        let at = harness.delivery.now.milliseconds
        try await harness.delivery.submitter.withTransaction {
            try ExtensionQueries.reject(ExtensionHarness.id(9), reason: "mistake", at: at, on: $0)
        }

        try await harness.work(harness.extender())

        #expect(harness.calls.calls.isEmpty)
        #expect(try await harness.report() == ["all rejected 0/0 - ended"])
        await harness.delivery.close()
    }

    @Test func approval_beyondTheLimits_needsASecondApprover() async throws {
        let harness = try await harness()
        try await PostgresPool(
            conninfo: TestDatabase.url, applicationName: "owner", size: 1
        ).withTransaction { connection in
            var limit = PolicyQueries.Limit(approver: "repricer_pricing")
            limit.rows = 2
            try PolicyQueries.set(limit, at: 0, on: connection)
        }

        try await harness.requestAll()
        try await harness.work(harness.extender())

        #expect(harness.calls.calls.isEmpty)
        #expect(try await harness.report() == ["all awaiting_approval 0/0 - open"])
        #expect(try await harness.delivery.count("mass_extension_approvals") == 1)
        await harness.delivery.close()
    }
}

private enum AuditQueriesProbe {
    static func actions(on connection: isolated PostgresConnection) throws -> [String] {
        try connection.query(
            "SELECT action FROM repricer.audit_trail WHERE object LIKE 'extension:%' ORDER BY sequence"
        ).map { try $0.text("action") }
    }
}
