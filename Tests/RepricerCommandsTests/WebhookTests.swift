import Digests
import Foundation
import HTTP
import JOSE
import Outbox
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import RepricerCommands

/// Events of the outbox, delivered to a real socket that misbehaves.
@Suite(.database) struct WebhookTests {
    /// The file of the secret is followed while the service runs.
    @Test func webhook_afterItsSecretWasReplaced_isSignedWithTheNewOne() async throws {
        let harness = try await WebhookHarness.make()
        let secret = try #require(SharedSecret(fileContent: "one\n"))
        let sender = try harness.sender(secret: secret)
        for (word, id) in [("one", "1"), ("two", "2")] {
            _ = secret.replace(fileContent: word + "\n")
            try await harness.write([id])

            #expect(try await sender.round() == 1)

            let got = try #require(harness.receiver.seen.last)
            let seconds = harness.clock.nowMilliseconds() / 1000
            let hex = HMAC.sha256(
                of: Array("\(seconds).".utf8) + got.body, secret: Array(word.utf8)
            )
            .map { String(format: "%02x", $0) }.joined()
            #expect(got.signature == "t=\(seconds),v1=\(hex)")
        }
        await harness.close()
    }

    @Test func webhook_overTLS_isSignedAndSaysAll() async throws {
        let harness = try await WebhookHarness.make(isTLS: true)
        try await harness.write(["1"])

        #expect(try await harness.sender().round() == 1)

        let got = try #require(harness.receiver.seen.first)
        #expect(got.method == "POST")
        #expect(got.target == "/hooks?from=repricer")
        #expect(got.contentType == "application/json")
        let body = try #require(
            try JSONSerialization.jsonObject(with: Data(got.body)) as? [String: Any])
        #expect(body["aggregateid"] as? String == "1")
        #expect(body["aggregatetype"] as? String == "subscription")
        #expect(body["type"] as? String == "dependent_cancellation.confirmed")
        #expect(body["id"] as? String == got.eventID)
        #expect((body["payload"] as? [String: Any])?["n"] as? Int == 0)
        // As the receiver checks it: seconds, a full stop, the body.
        let seconds = harness.clock.nowMilliseconds() / 1000
        let expected = HMAC.sha256(
            of: Array("\(seconds).".utf8) + got.body, secret: WebhookHarness.secret)
        let hex = expected.map { String(format: "%02x", $0) }.joined()
        #expect(got.signature == "t=\(seconds),v1=\(hex)")
        #expect(try await harness.states() == ["1 delivered"])
        await harness.close()
    }

    /// RFC 4231, test cases 1, 2 and 6.
    @Test func signature_ofTheStandardsCases_isTheStandards() {
        func hex(_ message: String, _ secret: [UInt8]) -> String {
            HMAC.sha256(of: Array(message.utf8), secret: secret)
                .map { String(format: "%02x", $0) }.joined()
        }

        #expect(
            hex("Hi There", [UInt8](repeating: 0x0B, count: 20))
                == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
        #expect(
            hex("what do ya want for nothing?", Array("Jefe".utf8))
                == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        #expect(
            hex(
                "Test Using Larger Than Block-Size Key - Hash Key First",
                [UInt8](repeating: 0xAA, count: 131))
                == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
    }

    @Test func webhook_receiverFails_waitsAndKeepsTheOrderOfItsSubscription() async throws {
        let harness = try await WebhookHarness.make([.status(500), .status(503), .status(429)])
        try await harness.write(["1", "1", "1", "2"])
        let sender = try harness.sender()

        for _ in 0..<12 {
            _ = try await sender.round()
            harness.clock.advance(by: .seconds(3))
        }

        #expect(
            try await harness.states() == [
                "1 delivered", "1 delivered", "1 delivered", "2 delivered",
            ])
        let accepted = harness.receiver.accepted
        #expect(accepted.filter { $0.subscription == "1" }.map(\.n) == [0, 1, 2])
        #expect(accepted.filter { $0.subscription == "2" }.map(\.n) == [3])
        #expect(harness.receiver.seen.count == 7)
        await harness.close()
    }

    @Test func webhook_redirected_goesNowhereElse() async throws {
        let harness = try await WebhookHarness.make([.redirect])
        try await harness.write(["1"])
        let sender = try harness.sender()

        _ = try await sender.round()
        #expect(harness.receiver.seen.map(\.target) == ["/hooks?from=repricer"])
        #expect(try await harness.lastError() == "answered 302, a redirect: not followed")
        harness.clock.advance(by: .seconds(3))
        _ = try await sender.round()

        #expect(
            harness.receiver.seen.map(\.target) == ["/hooks?from=repricer", "/hooks?from=repricer"])
        #expect(try await harness.states() == ["1 delivered"])
        await harness.close()
    }

    @Test func webhook_answerTooSlow_isTriedAgain_othersAreNotHeldUp() async throws {
        let harness = try await WebhookHarness.make([.held])
        try await harness.write(["1"])
        let hurried = try harness.sender(deadline: .milliseconds(300))

        _ = try await hurried.round()
        #expect(try await harness.states() == ["1 pending"])
        try await harness.write(["2"])
        // One that a busy machine does not make give up what is answered at once.
        let sender = try harness.sender()
        _ = try await sender.round()
        #expect(try await harness.states() == ["1 pending", "2 delivered"])
        harness.clock.advance(by: .seconds(3))
        _ = try await sender.round()

        #expect(try await harness.states() == ["1 delivered", "2 delivered"])
        await harness.close()
    }

    /// The receiver lets the event of one subscription hang. Those of the others go out meanwhile, what is written while
    /// it hangs too.
    @Test func webhook_oneHangs_allOthersAreDeliveredMeanwhile() async throws {
        let harness = try await WebhookHarness.make([.held])
        try await harness.write(["1"])
        let sender = try harness.sender { $0.idleWait = .milliseconds(20) }
        let round = Task { try await sender.round() }
        try await eventually { harness.receiver.seen.count == 1 }

        for _ in 0..<2 {
            let known = harness.receiver.accepted.count
            try await harness.write((0..<90).map { String(2 + $0 % 45) } + ["1"])
            try await eventually { harness.receiver.accepted.count == known + 90 }
        }

        #expect(harness.receiver.seen.filter { $0.subscription == "1" }.count == 1)
        harness.receiver.release()
        #expect(try await round.value == 183)
        #expect(harness.receiver.seen.filter { $0.subscription == "1" }.count == 3)
        await harness.close()
    }

    /// Events behind one that waits for its next attempt wait as long, and are read by nobody meanwhile; then they follow.
    @Test func webhook_behindOneThatWaits_isNotReadInVain() async throws {
        let harness = try await WebhookHarness.make([.status(500)])
        try await harness.write(["1", "1", "1"])
        let sender = try harness.sender()

        #expect(try await sender.round() == 1)

        let connection = try await TestDatabase.connect()
        let waiting = try await connection.query(
            "SELECT next_attempt_at FROM repricer.webhook_deliveries ORDER BY position"
        ).map { try $0.milliseconds("next_attempt_at") }
        await connection.close()
        #expect(waiting == Array(repeating: harness.clock.nowMilliseconds() + 1000, count: 3))
        #expect(try await sender.round() == 0)
        harness.clock.advance(by: .seconds(1))
        #expect(try await sender.round() == 3)
        #expect(harness.receiver.accepted.map(\.n) == [0, 1, 2])
        await harness.close()
    }

    /// After hours without a receiver many events wait. Whoever takes some reads those that are due, in their order.
    @Test func taking_amongManyThatWait_readsOnlyWhatIsDue() async throws {
        let plans = try await TestDatabase.plans(settings: [:]) {
            let harness = try await WebhookHarness.make()
            let connection = try await TestDatabase.connect()
            try await connection.script(
                """
                INSERT INTO repricer.outbox (aggregateid, bucket, position, aggregatetype, type, payload)
                SELECT n::text, repricer.bucket_of(n::text), p, 'subscription', 'dependent_cancellation.confirmed', '{}'
                FROM generate_series(1, 10000) n, generate_series(1, 2) p;
                INSERT INTO repricer.webhook_deliveries (aggregateid, bucket, position, next_attempt_at)
                SELECT aggregateid, bucket, position,
                    now() + CASE WHEN aggregateid::integer > 100 THEN '1 hour' ELSE '-1 hour' END::interval
                FROM repricer.outbox;
                ANALYZE repricer.outbox;
                ANALYZE repricer.webhook_deliveries
                """)
            await connection.close()
            #expect(try await harness.sender().round() == 200)
            await harness.close()
        }.filter { $0.name == "takeDueWebhooks" }

        #expect(plans.count > 3)
        for plan in plans {
            let scans = plan.scans.filter { $0.relation == "webhook_deliveries" }
            #expect(scans.first?.index == "webhook_deliveries_due")
            #expect(scans.allSatisfy { $0.hasKey }, "\(scans)")
        }
    }

    @Test func webhook_receiverAway_thenBack_losesNothing() async throws {
        let harness = try await WebhookHarness.make()
        try await harness.write(["1", "1"])
        let sender = try harness.sender(url: "http://127.0.0.1:1/hooks")

        _ = try await sender.round()
        #expect(try await harness.states() == ["1 pending", "1 pending"])
        harness.clock.advance(by: .seconds(3))
        let other = try harness.sender()
        while try await other.round() > 0 {}

        #expect(harness.receiver.accepted.map(\.n) == [0, 1])
        await harness.close()
    }

    @Test func webhook_processDiesInTheMiddle_theNextOneSendsTheSameEventFirst() async throws {
        let harness = try await WebhookHarness.make([.held])
        try await harness.write(["1", "1"])
        let dying = try harness.sender()
        let abandoned = Task { try await dying.round() }
        try await eventually { !harness.receiver.seen.isEmpty }
        let heir = try harness.sender()

        // Its lease holds; then it is taken over.
        #expect(try await heir.round() == 0)
        harness.clock.advance(by: .seconds(31))
        while try await heir.round() > 0 {}

        #expect(harness.receiver.accepted.map(\.n) == [0, 1])
        #expect(harness.receiver.seen[0].eventID == harness.receiver.seen[1].eventID)
        abandoned.cancel()
        await harness.close()
    }

    @Test func webhook_severalReplicas_deliverEachOnceAndInOrder() async throws {
        let harness = try await WebhookHarness.make()
        try await harness.write((0..<60).map { String($0 % 7) })
        let replicas = [try harness.sender(), try harness.sender(), try harness.sender()]

        try await withThrowingTaskGroup(of: Void.self) { group in
            for replica in replicas {
                group.addTask {
                    var idle = 0
                    while idle < 3 { idle = try await replica.round() == 0 ? idle + 1 : 0 }
                }
            }
            try await group.waitForAll()
        }
        while try await replicas[0].round() > 0 {}

        let accepted = harness.receiver.accepted
        #expect(accepted.count == 60)
        for subscription in 0..<7 {
            let own = accepted.filter { $0.subscription == String(subscription) }.map(\.n)
            #expect(own == own.sorted())
        }
        await harness.close()
    }

    @Test func webhook_threeDaysInVain_isGivenUp_andReplayedOnDemand() async throws {
        let harness = try await WebhookHarness.make(Array(repeating: .status(500), count: 200))
        try await harness.write(["1", "1"])
        let sender = try harness.sender()
        // The second one waited behind the first, and is tried ten times nevertheless.
        for _ in 0..<90 {
            _ = try await sender.round()
            harness.clock.advance(by: .seconds(3601))
        }
        #expect(try await harness.states() == ["1 given_up", "1 given_up"])
        let tries = harness.receiver.seen.count
        #expect(tries > 60 && tries < 170)
        let environment = ["REPRICER_DATABASE_URL": harness.url]

        let shown = await run("outbox", "status", environment: environment)
        #expect(shown.output.contains("given_up       2"), "\(shown.output)")
        #expect(shown.output.contains("last error: answered 500"))
        let refused = await run("outbox", "replay", environment: environment)
        #expect(refused.code == .usage)
        let none = await run("outbox", "replay", "--subscription", "2", environment: environment)
        #expect(none.output == "0 events are due again\n")
        let replayed = await run("outbox", "replay", "--given-up", environment: environment) {
            $0.realClock = harness.clock
        }
        #expect(replayed.output == "2 events are due again\n")
        harness.receiver.heal()
        while try await sender.round() > 0 {}

        #expect(try await harness.states() == ["1 delivered", "1 delivered"])
        #expect(harness.receiver.accepted.map(\.n) == [0, 1])
        await harness.close()
    }

    /// A repaired receiver need not wait for the next try, which may be an hour away.
    @Test func event_thatWaitsAfterAFailure_isTriedAtOnceByAReplay() async throws {
        let harness = try await WebhookHarness.make(Array(repeating: .status(500), count: 200))
        try await harness.write(["1", "1"])
        let sender = try harness.sender()
        for _ in 0..<8 {
            _ = try await sender.round()
            harness.clock.advance(by: .seconds(3601))
        }
        _ = try await sender.round()
        harness.receiver.heal()
        #expect(try await sender.round() == 0)

        let replayed = await run(
            "outbox", "replay", "--all", environment: ["REPRICER_DATABASE_URL": harness.url]
        ) { $0.realClock = harness.clock }
        while try await sender.round() > 0 {}

        #expect(replayed.output == "2 events are due again\n", "\(replayed)")
        #expect(try await harness.states() == ["1 delivered", "1 delivered"])
        await harness.close()
    }

    @Test func replay_byAUserOfPricing_namesTheRoleThatIsMissing() async throws {
        let harness = try await WebhookHarness.make([.status(200)])
        let url = try await TestDatabase.login("ana", memberOf: ["repricer_pricing"])

        let outcome = await run(
            "outbox", "replay", "--all", environment: ["REPRICER_DATABASE_URL": url])

        #expect(outcome.code == .approvalNeededOrRefused)
        #expect(
            outcome.messages.contains(
                "may not write repricer.webhook_deliveries; GRANT repricer_service to it"),
            "\(outcome.messages)")
        #expect(!outcome.messages.contains("repricer_pricing"))
        await harness.close()
    }

    @Test func outbox_old_isPruned_butNothingThatWaits() async throws {
        let harness = try await WebhookHarness.make([.status(500)])
        try await harness.write(["1", "2"])
        let sender = try harness.sender()
        _ = try await sender.round()
        harness.clock.advance(by: .seconds(31 * 86_400))

        try await sender.prune()
        #expect(try await harness.states().filter { $0.hasSuffix("pending") }.count == 1)
        #expect(try await harness.states().count == 1)

        // Without a webhook what waits is given up, and then goes too.
        let idle = WebhookSender(
            pool: harness.pool, target: nil, realClock: harness.clock, log: .silent,
            metrics: Metrics())
        #expect(try await idle.round() == 0)
        try await idle.prune()
        #expect(try await harness.states() == [])
        await harness.close()
    }

    /// All that is old goes, however many they are.
    @Test func outbox_withMoreOldEventsThanATransactionDeletes_isPrunedToItsEnd() async throws {
        let harness = try await WebhookHarness.make()
        try await harness.write(["1", "2", "3", "4", "5"])
        let sender = try harness.sender { $0.prunedPerTransaction = 2 }
        while try await sender.round() > 0 {}
        harness.clock.advance(by: .seconds(31 * 86_400))

        let isDone = try await sender.prune()

        #expect(isDone)
        #expect(try await harness.states() == [])
        await harness.close()
    }

    /// One line when the receiver goes, one when it is back; and one for all that was given up.
    @Test func webhook_receiverAwayForDays_isToldOnceAndItsReturnOnce() async throws {
        let harness = try await WebhookHarness.make(Array(repeating: .status(500), count: 2000))
        try await harness.write((1...8).map(String.init))
        let lines = Mutex<[String]>([])
        let log = Log(component: "webhooks") { line in lines.withLock { $0.append(line) } }
        let sender = try harness.sender(log: log) { $0.quietFor = .zero }
        func told(_ message: String) -> [String] {
            lines.withLock { $0.filter { $0.contains(message) } }
        }

        for _ in 0..<80 {
            _ = try await sender.round()
            harness.clock.advance(by: .seconds(3601))
        }
        #expect(try await harness.states().allSatisfy { $0.hasSuffix("given_up") })
        #expect(told("the receiver of webhooks takes no event").count == 1)
        #expect(
            told("the receiver of webhooks takes no event").first?.contains("level=warning") == true
        )
        #expect(told("a webhook is given up").count == 1)
        #expect(told("a webhook is given up").first?.contains("answered 500") == true)
        harness.receiver.heal()
        try await harness.write(["9"])
        while try await sender.round() > 0 {}

        #expect(told("the receiver of webhooks takes events again").count == 1)
        #expect(told("webhooks are delivered again").count == 1)
        #expect(lines.withLock { $0.count } == 4)
        await harness.close()
    }

    @Test(arguments: [
        ("https://hooks.example.com/a?b=c", "https://hooks.example.com", "/a?b=c"),
        ("https://hooks.example.com:8443", "https://hooks.example.com:8443", "/"),
        ("http://127.0.0.1:9000/x", "http://127.0.0.1:9000", "/x"),
    ])
    func webhookURL_good_isTakenApart(text: String, base: String, target: String) throws {
        let url = try #require(WebhookURL(text))

        #expect(url.base == base)
        #expect(url.target == target)
    }

    @Test(arguments: [
        "http://hooks.example.com/", "ftp://hooks.example.com/", "hooks.example.com",
        "https://user@hooks.example.com/", "https://hooks.example.com/a b", "https:///x",
        "https://hooks.example.com/a#b",
    ])
    func webhookURL_bad_isRefused(text: String) {
        #expect(WebhookURL(text) == nil)
    }
}
