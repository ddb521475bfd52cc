import AppStore
import Batches
import Extensions
import Postgres
import Pricing
import TestSupport
import Testing

@Suite(.database) struct MassExtensionTests {
    private func world(
        _ replies: [ScriptedExtensions.Reply] = []
    ) async throws -> ExtensionWorld {
        let world = try await ExtensionWorld.make(replies)
        for id in ["1", "2", "3"] { try await world.subscribe(id) }
        return world
    }

    /// Within a day of its end another program extends all: nothing of that is counted as ours.
    @Test func completeMassExtension_whenAnotherProgramExtends_countsItsOwnAlone() async throws {
        let world = try await ExtensionWorld.make()
        for id in ["1", "2"] { try await world.subscribe(id) }
        try await world.requestAll(days: 10)
        let extender = world.extender()
        try await world.work(extender)
        try await world.tellExtended("1", days: 10, at: 1000)
        try await world.tellFailed("2", at: 1000)
        try await world.receiveSummary(9, succeeded: 1, failed: 1)
        world.calls.with {
            $0.massStatus = MassExtensionStatus(
                isComplete: true,
                completedAt: DeliveryWorld.start.advanced(by: 2000), succeeded: 1, failed: 1)
        }
        world.pass(.seconds(60))
        try await world.work(extender)
        let ours = try await world.report()

        try await world.tellFailed("1", at: 90_000)
        try await world.tellExtended("2", days: 1, at: 90_000)

        #expect(ours == ["all complete 1/1 1/1 clean"])
        #expect(try await world.report() == ours)
        await world.delivery.close()
    }

    @Test func massExtension_withoutASecondUser_isNeverCalled() async throws {
        let world = try await world()
        try await world.requestAll(isApproved: false)
        let at = world.delivery.now.milliseconds

        await #expect(throws: PostgresError.self) {
            try await world.delivery.submitter.withTransaction {
                try ExtensionQueries.approve(ExtensionWorld.id(9), at: at, on: $0)
            }
        }
        try await world.work(world.extender())

        #expect(world.calls.calls.isEmpty)
        #expect(try await world.report() == ["all awaiting_approval 0/0 - open"])
        await world.delivery.close()
    }

    @Test func massExtension_whenApproved_runsUntilItsSummary() async throws {
        let world = try await world()
        try await world.requestAll(storefronts: ["USA"])
        let extender = world.extender()

        try await world.work(extender)
        let running = try await world.report()
        try await world.tellExtended("1", days: 30, at: 1000)
        try await world.tellFailed("2", at: 2000)
        try await world.tellExtended("3", days: 30, at: 3000)
        world.pass(.seconds(3600))
        try await world.receiveSummary(9, succeeded: 2, failed: 1)
        try await world.work(extender)

        #expect(world.calls.calls == ["com.example.base USA +30"])
        #expect(running == ["all running 0/0 - open"])
        #expect(try await world.report() == ["all complete 2/1 2/1 clean"])
        #expect(
            try await world.delivery.service.withTransaction {
                try AuditQueriesProbe.actions(on: $0)
            } == ["submit", "approve"])
        await world.delivery.close()
    }

    @Test func summary_beforeTheLastFailure_differsUntilItIsTold() async throws {
        let world = try await world()
        try await world.requestAll()
        let extender = world.extender()
        try await world.work(extender)

        try await world.tellExtended("1", days: 30, at: 1000)
        try await world.tellExtended("3", days: 30, at: 1500)
        world.pass(.seconds(60))
        try await world.receiveSummary(9, succeeded: 2, failed: 1)
        try await world.work(extender)
        let early = try await world.report()
        try await world.tellFailed("2", at: 90_000)

        #expect(early == ["all complete 2/0 2/1 differs"])
        #expect(try await world.report() == ["all complete 2/1 2/1 clean"])
        await world.delivery.close()
    }

    @Test func summary_repeatedOrOfNoRequestOfOurs_changesNothing() async throws {
        let world = try await world()
        try await world.requestAll()
        let extender = world.extender()
        try await world.work(extender)
        try await world.receiveSummary(9, succeeded: 0, failed: 0)
        try await world.work(extender)

        try await world.receiveSummary(9, succeeded: 0, failed: 0)
        try await world.receiveSummary(
            9, succeeded: 5, failed: 5, uuid: "older",
            signedAt: world.delivery.now.advanced(by: -1))
        try await world.receiveSummary(77, succeeded: 8, failed: 1, uuid: "foreign")
        try await world.work(extender)

        #expect(
            try await world.report() == [
                "all complete 0/0 0/0 clean", "foreign complete 0/0 8/1 differs",
            ])
        await world.delivery.close()
    }

    @Test func massExtension_whenAnswerIsLost_isRepeatedUnderTheSameIdentifier() async throws {
        let world = try await world([.lost])
        try await world.requestAll()
        let extender = world.extender()

        try await world.work(extender)
        let lost = try await world.report()
        world.pass(.seconds(2))
        try await world.work(extender)

        #expect(lost == ["all unknown 0/0 - open"])
        #expect(world.calls.identifiers == Array(repeating: ExtensionWorld.id(9), count: 2))
        #expect(try await world.report() == ["all running 0/0 - open"])
        await world.delivery.close()
    }

    @Test(arguments: [true, false])
    func refusal_ofARetry_isSettledByTheStatus(_ wasTaken: Bool) async throws {
        let world = try await world([.lost, .refused(4_000_023)])
        world.calls.with { state in
            state.massStatus = wasTaken ? MassExtensionStatus(isComplete: false) : nil
        }
        try await world.requestAll()
        let extender = world.extender()

        try await world.work(extender)
        world.pass(.seconds(2))
        try await world.work(extender)
        world.pass(.seconds(2))
        try await world.work(extender)

        #expect(world.calls.looks == 1)
        #expect(
            try await world.report() == [
                wasTaken
                    ? "all running 0/0 - open" : "all refused 0/0 - ended InvalidProductIdError"
            ])
        await world.delivery.close()
    }

    @Test func status_whenComplete_endsItWithoutASummary() async throws {
        let world = try await world()
        try await world.requestAll()
        let extender = world.extender()
        try await world.work(extender)
        world.calls.with { state in
            state.massStatus = MassExtensionStatus(
                isComplete: true, completedAt: DeliveryWorld.start.advanced(by: 5000),
                succeeded: 1, failed: 0)
        }

        try await world.work(extender)
        let early = world.calls.looks
        try await world.tellExtended("1", days: 30, at: 1000)
        world.pass(.seconds(1000))
        try await world.work(extender)

        #expect(early == 0)
        #expect(try await world.report() == ["all complete 1/0 1/0 clean"])
        await world.delivery.close()
    }

    /// What runs for hours is not asked about every second because the answer is a refusal.
    @Test func status_whenRefused_isAskedForAtThePaceOfLooks() async throws {
        let world = try await world()
        try await world.requestAll()
        let extender = world.extender()
        try await world.work(extender)

        var looks: [Int] = []
        for seconds in [1000, 60, 600, 400] {
            world.pass(.seconds(seconds))
            try await world.work(extender)
            looks.append(world.calls.looks)
        }

        #expect(looks == [1, 1, 1, 2])
        #expect(
            try await world.report() == ["all running 0/0 - open StatusRequestNotFoundError"])
        await world.delivery.close()
    }

    private func giveUp(_ world: ExtensionWorld) async throws -> String? {
        let at = world.delivery.clock.nowMilliseconds()
        do {
            try await world.delivery.submitter.withTransaction {
                try ExtensionQueries.giveUp(
                    ExtensionWorld.id(9), reason: "Apple lost it", at: at, on: $0)
            }
            return nil
        } catch let error as PostgresError {
            return error.message
        }
    }

    /// The App Store took it, and then knows nothing of it: a person may end it, a day later.
    @Test func massExtension_thatTheAppStoreLost_canBeGivenUp_andAnotherBegins() async throws {
        let world = try await world()
        try await world.requestAll()
        let extender = world.extender()
        try await world.work(extender)

        #expect(try await giveUp(world)?.contains("has not denied") == true)
        world.pass(.seconds(3600))
        try await world.work(extender)
        #expect(try await giveUp(world)?.contains("less than a day ago") == true)
        world.pass(.seconds(86_400))
        try await world.work(extender)
        #expect(try await giveUp(world) == nil)
        #expect(
            try await world.report() == [
                "all given_up 0/0 - ended StatusRequestNotFoundError"
            ])
        let looks = world.calls.looks
        world.pass(.seconds(3600))
        try await world.work(extender)
        try await world.requestAll(10)
        try await world.work(extender)

        #expect(world.calls.looks == looks)
        #expect(world.calls.identifiers == [9, 10].map(ExtensionWorld.id))
        #expect(
            try await world.delivery.service.withTransaction {
                try AuditQueriesProbe.actions(on: $0)
            } == ["submit", "approve", "give_up", "submit", "approve"])
        await world.delivery.close()
    }

    /// It is known after all: no person may end it, and what is told of one that was ended still counts.
    @Test(arguments: [true, false])
    func massExtension_knownAgain_isNotEndedByAPerson(isInTime: Bool) async throws {
        let world = try await world()
        try await world.requestAll()
        let extender = world.extender()
        try await world.work(extender)
        world.pass(.seconds(90_000))
        try await world.work(extender)
        if isInTime {
            world.calls.with { $0.massStatus = MassExtensionStatus(isComplete: false) }
            world.pass(.seconds(1000))
            try await world.work(extender)
            #expect(try await giveUp(world)?.contains("has not denied") == true)
        } else {
            #expect(try await giveUp(world) == nil)
        }

        world.pass(.seconds(86_400 * 3))
        let later = world.delivery.clock.nowMilliseconds() - DeliveryWorld.start.milliseconds
        try await world.tellExtended("1", days: 30, at: later)
        try await world.receiveSummary(9, succeeded: 1, failed: 0)
        try await world.work(extender)

        #expect(try await world.report() == ["all complete 1/0 1/0 clean"])
        await world.delivery.close()
    }

    @Test func another_ofTheSameProduct_waitsForTheFirst() async throws {
        let world = try await world()
        try await world.requestAll()

        await #expect(throws: PostgresError.self) { try await world.requestAll(10) }

        #expect(try await world.delivery.count("mass_extensions") == 1)
        await world.delivery.close()
    }

    @Test func failed_whenRetried_areExtendedOneByOneAndOnce() async throws {
        let world = try await world()
        try await world.requestAll()
        let extender = world.extender()
        try await world.work(extender)
        try await world.tellFailed("1", at: 1000)
        try await world.tellExtended("2", days: 30, at: 1000)
        try await world.tellFailed("3", at: 1000)
        world.pass(.seconds(60))
        try await world.receiveSummary(9, succeeded: 1, failed: 2)
        try await world.work(extender)

        let asked = try await world.retryFailed()
        let askedAgain = try await world.retryFailed(firstID: 200)
        world.calls.with { $0.replies = [.done, .refused(4_030_004)] }
        try await world.work(extender)
        let afterwards = try await world.retryFailed(firstID: 300)

        #expect(asked == 2)
        #expect(askedAgain == 0)
        #expect(Set(world.calls.calls.dropFirst()) == ["1 +30", "3 +30"])
        #expect(afterwards == 1)
        let line = try await world.delivery.service.withTransaction {
            try ExtensionQueries.lines(of: ExtensionWorld.id(9), on: $0)
        }.first
        #expect(line?.retried == 3)
        #expect(line?.retriedExtended == 1)
        await world.delivery.close()
    }

    @Test func rejected_isNeverCalled() async throws {
        let world = try await world()
        try await world.requestAll(isApproved: false)
        let at = world.delivery.now.milliseconds
        try await world.delivery.submitter.withTransaction {
            try ExtensionQueries.reject(ExtensionWorld.id(9), reason: "mistake", at: at, on: $0)
        }

        try await world.work(world.extender())

        #expect(world.calls.calls.isEmpty)
        #expect(try await world.report() == ["all rejected 0/0 - ended"])
        await world.delivery.close()
    }

    @Test func approval_beyondTheLimits_needsASecondApprover() async throws {
        let world = try await world()
        try await PostgresPool(
            conninfo: TestDatabase.url, applicationName: "owner", size: 1
        ).withTransaction { connection in
            try PolicyQueries.set(
                .init(approver: "repricer_pricing", rows: 2), at: 0, on: connection)
        }

        try await world.requestAll()
        try await world.work(world.extender())

        #expect(world.calls.calls.isEmpty)
        #expect(try await world.report() == ["all awaiting_approval 0/0 - open"])
        #expect(try await world.delivery.count("mass_extension_approvals") == 1)
        await world.delivery.close()
    }
}

private enum AuditQueriesProbe {
    static func actions(on connection: isolated PostgresConnection) throws -> [String] {
        try connection.query(
            "SELECT action FROM repricer.audit_trail WHERE object LIKE 'extension:%' ORDER BY sequence"
        ).map { try $0.text("action") }
    }
}
