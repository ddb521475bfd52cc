import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// Extensions through the commands, each as the database user who types it.
@Suite(.database) struct ExtendCommandTests {
    private static let request = "019a0000-0000-7000-8000-000000000001"

    private struct Office {
        let ana: [String: String]
        let ben: [String: String]

        init() async throws {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
                    storefront, currency, period, product_id, purchased_at, expires_at, renewal_at,
                    items, signed_at, ownership_type)
                SELECT id, repricer.bucket_of(id), status, true, storefront, 'USD', 'P1M', 'generic', '2026-01-01Z',
                    '2026-02-01Z', '2026-02-01Z',
                    '[{"sku":"PLAN","currentPrice":9990,"renewalPrice":9990,"renews":true}]',
                    '2026-01-01Z', ownership
                FROM (VALUES ('11', 1, 'USA', 'PURCHASED'), ('12', 1, 'CAN', NULL),
                    ('13', 3, 'USA', NULL), ('14', 1, 'USA', 'FAMILY_SHARED'))
                    AS v (id, status, storefront, ownership);
                """)
            await connection.close()
            ana = Self.environment(
                try await TestDatabase.login("ana", memberOf: ["repricer_pricing"]))
            ben = Self.environment(
                try await TestDatabase.login("ben", memberOf: ["repricer_pricing"]))
        }

        private static func environment(_ url: String) -> [String: String] {
            ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]
        }
    }

    private func one(
        _ id: String, _ office: Office, days: String = "30", reason: String = "outage",
        request: String = request
    ) async -> Outcome {
        await run(
            "extend", "one", id, "--days", days, "--reason", reason, "--request-id", request,
            environment: office.ana)
    }

    @Test func extendOne_whenEligible_isQueuedOnce() async throws {
        let office = try await Office()

        let first = await one("11", office)
        let again = await one("11", office)
        let other = await one("11", office, days: "31")

        #expect(
            first
                == Outcome(
                    code: .done, output: "queued \(Self.request): 11 by 30 days\n", messages: ""))
        #expect(again.output == "\(Self.request) was asked for before; nothing new\n")
        #expect(other.code == .conflict, "\(other.messages)")
        #expect(other.messages.contains("other terms"))
    }

    @Test func extendStatus_ofMoreThanItShows_saysSo() async throws {
        let office = try await Office()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.extension_summaries (notification_uuid, received_at, signed_at, folded_at,
                request_identifier, product_id, succeeded, failed)
            SELECT 'summary-' || i, '2026-01-05Z', '2026-01-05Z', '2026-01-05Z', 'foreign-' || i, 'generic', 1, 0
            FROM generate_series(1, 1001) AS i
            """)
        await connection.close()

        let table = await run("extend", "status", environment: office.ana)
        let json = await run("extend", "status", "--json", environment: office.ana)

        #expect(table.code == .done, "\(table.messages)")
        #expect(table.messages.contains("the newest 1000 only"), "\(table.messages)")
        #expect(json.output.contains(#""has_more":true"#))
    }

    @Test(arguments: [
        ("11", "0", "outage", "bad_days"), ("11", "91", "outage", "bad_days"),
        ("11", "x", "outage", "bad_days"), ("11", "30", "4", "bad_reason"),
        ("11", "30", "boredom", "bad_reason"), ("99", "30", "3", "unknown_subscription"),
        ("13", "30", "outage", "billing_retry"), ("14", "30", "outage", "family_member"),
    ])
    func extendOne_whenItCannotBe_saysWhyAndAsksForNothing(
        _ id: String, _ days: String, _ reason: String, _ code: String
    ) async throws {
        let office = try await Office()

        let outcome = await one(id, office, days: days, reason: reason)

        #expect(outcome.code == .inputRejected)
        #expect(outcome.messages.contains("\(code): "), "\(outcome.messages)")
        let connection = try await TestDatabase.connect()
        #expect(try await connection.query("SELECT 1 FROM repricer.extension_requests").isEmpty)
        await connection.close()
    }

    @Test func extendAll_needsAnotherUser_andShowsItsState() async throws {
        let office = try await Office()
        let arguments = [
            "extend", "all", "--product", "generic", "--storefronts", "USA", "--days", "7",
            "--reason", "outage", "--request-id", Self.request,
        ]

        let asked = await run(arguments, environment: office.ana)
        let own = await run("approve", Self.request, "--yes", environment: office.ana)
        let approved = await run("approve", Self.request, "--yes", environment: office.ben)
        let status = await run("extend", "status", Self.request, "--json", environment: office.ana)
        let table = await run("extend", "status", environment: office.ana)

        #expect(asked.code == .done, "\(asked.messages)")
        #expect(
            asked.output.hasPrefix("\(Self.request): 1 of 3 subscriptions of generic by 7 days\n"))
        #expect(asked.output.contains("not eligible: 1 billing_retry\n"))
        #expect(asked.output.contains("not eligible: 1 family_member\n"))
        #expect(own.code == .approvalNeededOrRefused)
        #expect(approved.output == "approved \(Self.request): all of generic by 7 days\n")
        #expect(status.output.contains(#""state":"queued""#))
        #expect(status.output.contains(#""eligible_forecast":1"#))
        #expect(table.output.contains("generic"))
    }

    @Test func extension_byTheBeginningOfItsID_isFound_andSeveralAreListed() async throws {
        let office = try await Office()
        let begun = String(Self.request.prefix(8)).uppercased()
        let arguments = [
            "extend", "all", "--product", "generic", "--storefronts", "USA", "--days", "7",
            "--reason", "outage", "--request-id", Self.request,
        ]
        _ = await run(arguments, environment: office.ana)

        let unknown = await run("approve", "0fedcba9", "--yes", environment: office.ben)
        let approved = await run("approve", begun, "--yes", environment: office.ben)
        let status = await run("extend", "status", begun, "--json", environment: office.ana)
        let other = String(Self.request.dropLast()) + "2"
        let rival = await one("12", office, request: other)
        let several = await run("extend", "status", begun, environment: office.ana)
        let rejected = await run("reject", begun, "--reason", "no", environment: office.ben)

        #expect(unknown.code == .inputRejected)
        #expect(unknown.messages.contains("`repricer extend status` the extensions"))
        #expect(approved.output == "approved \(Self.request): all of generic by 7 days\n")
        #expect(status.output.contains(#""extension_id":"\#(Self.request)""#))
        #expect(rival.code == .done, "\(rival.messages)")
        #expect(several.code == .conflict)
        #expect(several.messages.contains(other), "\(several.messages)")
        // That of one subscription is nobody's to decide, so it is no rival.
        #expect(!rejected.messages.contains(other), "\(rejected.messages)")
    }

    @Test func extendAll_ofAnUnknownProduct_isRefused() async throws {
        let office = try await Office()

        let outcome = await run(
            "extend", "all", "--product", "nothing", "--days", "7", "--reason", "outage",
            environment: office.ana)
        let foreign = await run(
            "extend", "all", "--product", "generic", "--storefronts", "us", "--days", "7",
            "--reason", "outage", environment: office.ana)

        #expect(outcome.code == .inputRejected)
        #expect(outcome.messages.contains("unknown_product: "))
        #expect(foreign.messages.contains("bad_storefront: "))
    }

    @Test func extendAll_whenRejected_canBeAskedForAgain() async throws {
        let office = try await Office()
        func ask(_ id: String) async -> Outcome {
            await run(
                "extend", "all", "--product", "generic", "--days", "7", "--reason", "3",
                "--request-id", id, environment: office.ana)
        }

        _ = await ask(Self.request)
        let second = await ask("019a0000-0000-7000-8000-000000000002")
        let rejected = await run(
            "reject", Self.request, "--reason", "wrong days", environment: office.ben)
        let third = await ask("019a0000-0000-7000-8000-000000000003")

        #expect(second.code == .conflict)
        #expect(second.messages.contains("is under way"))
        #expect(rejected.output == "rejected \(Self.request): nothing was extended\n")
        #expect(third.code == .done)
    }

    @Test func extendAll_rejectedAfterItsApproval_keepsBothNames() async throws {
        let office = try await Office()
        let carol = [
            "REPRICER_DATABASE_URL": try await TestDatabase.login(
                "carol", memberOf: ["repricer_pricing"]),
            "REPRICER_ENVIRONMENT": "Production",
        ]
        _ = await run(
            "extend", "all", "--product", "generic", "--days", "7", "--reason", "3",
            "--request-id", Self.request, environment: office.ana)
        _ = await run("approve", Self.request, "--yes", environment: office.ben)
        _ = await run("reject", Self.request, "--reason", "wrong", environment: carol)

        let json = await run("extend", "status", Self.request, "--json", environment: office.ana)
        let text = await run("extend", "status", Self.request, environment: office.ana)

        #expect(json.output.contains(#""approved_by":"ben_"#), "\(json.output)")
        #expect(json.output.contains(#""rejected_by":"carol_"#), "\(json.output)")
        #expect(text.output.contains(/approved by +ben/))
        #expect(text.output.contains(/rejected by +carol/))
    }

    @Test func extendAll_rejectedWithoutApproval_namesNoApprover() async throws {
        let office = try await Office()
        _ = await run(
            "extend", "all", "--product", "generic", "--days", "7", "--reason", "3",
            "--request-id", Self.request, environment: office.ana)
        _ = await run("reject", Self.request, "--reason", "wrong", environment: office.ben)

        let json = await run("extend", "status", Self.request, "--json", environment: office.ana)

        #expect(json.output.contains(#""approved_by":null"#), "\(json.output)")
        #expect(json.output.contains(#""rejected_by":"ben_"#), "\(json.output)")
    }

    @Test func extendOne_ofAnOrdinaryFreeTrial_isAFreeOffer() async throws {
        let office = try await Office()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.subscriptions SET items = '[]', offer_discount_type = 'FREE_TRIAL'
            WHERE original_transaction_id = '11'
            """)
        await connection.close()

        let outcome = await one("11", office)

        #expect(outcome.code == .inputRejected)
        #expect(outcome.messages.contains("free_offer: "), "\(outcome.messages)")
    }

    @Test func extendOne_withARequestIDThatIsNone_saysWhatToDo() async throws {
        let office = try await Office()

        let outcome = await one("11", office, request: "zzz")

        #expect(outcome.code == .inputRejected)
        #expect(
            outcome.messages
                == "repricer: bad_request_id: \"zzz\" is no UUID; leave --request-id out for a new one\n"
        )
    }

    /// In whatever order two approve, the result is the same.
    @Test func approve_bySecondApproverBeforeTheFirst_isCompletedByTheFirst() async throws {
        let office = try await Office()
        let owner = ["REPRICER_DATABASE_URL": TestDatabase.url]
        let cleo = [
            "REPRICER_DATABASE_URL": try await TestDatabase.login(
                "cleo", memberOf: ["repricer_pricing"]),
            "REPRICER_ENVIRONMENT": "Production",
        ]
        for limit in [["ben", "--rows", "0"], ["cleo", "--second"]] {
            _ = await run(
                ["policy", "set", TestDatabase.loginName(limit[0])] + limit.dropFirst(),
                environment: owner)
        }
        _ = await run(
            "extend", "all", "--product", "generic", "--days", "7", "--reason", "outage",
            "--request-id", Self.request, environment: office.ana)

        let second = await run("approve", Self.request, "--yes", environment: cleo)
        let first = await run("approve", Self.request, "--yes", environment: office.ben)

        #expect(second.messages.contains("approves as the second only"))
        #expect(first.output == "approved \(Self.request): all of generic by 7 days\n")
    }

    @Test(arguments: ["approve", "reject"])
    func decision_onTheExtensionOfOneSubscription_saysThatThereIsNone(_ verb: String) async throws {
        let office = try await Office()
        _ = await one("11", office)

        let outcome = await run(
            [verb, Self.request] + (verb == "reject" ? ["--reason", "x"] : []),
            environment: office.ben)

        #expect(outcome.code == .conflict)
        #expect(
            outcome.messages.contains(
                "\(Self.request) extends one subscription, which needs no approval"),
            "\(outcome.messages)")
    }

    @Test func giveUp_ofOneThatRuns_needsTheAppStoresDenial() async throws {
        let office = try await Office()
        _ = await run(
            "extend", "all", "--product", "generic", "--days", "7", "--reason", "3",
            "--request-id", Self.request, environment: office.ana)
        let giveUp = ["extend", "give-up", Self.request, "--reason", "lost"]

        let waiting = await run(giveUp, environment: office.ana)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.mass_extensions SET state = 'running', decided_by = 'ben', decided_at = now(),
                called_at = '2020-01-01Z', code = 'StatusRequestNotFoundError'
            """)
        await owner.close()
        let running = await run("extend", "status", Self.request, environment: office.ana)
        let done = await run(giveUp, environment: office.ana)
        let status = await run("extend", "status", Self.request, environment: office.ana)

        #expect(waiting.code == .conflict)
        #expect(waiting.messages.contains("is awaiting_approval: only one that was called"))
        #expect(running.output.contains("extend give-up"))
        #expect(done.code == .done, "\(done.messages)")
        #expect(done.output.hasPrefix("gave up \(Self.request)"))
        #expect(status.output.contains(/given up by ana.*: lost/))
        #expect(!status.output.contains("remedy"))
    }

    /// Apple refuses it in words that say nothing, so it would be tried for ever, and no other one could be requested.
    @Test func giveUp_ofTheExtensionOfOneSubscription_endsItWhereNoCallIsOut() async throws {
        let office = try await Office()
        let begun = await one("11", office)
        let giveUp = ["extend", "give-up", Self.request, "--reason", "mistaken"]
        let owner = try await TestDatabase.connect()
        try await owner.script("UPDATE repricer.extension_requests SET state = 'sending'")

        let called = await run(giveUp, environment: office.ana)
        try await owner.script("UPDATE repricer.extension_requests SET state = 'queued'")
        let done = await run(giveUp, environment: office.ana)
        let again = await run(giveUp, environment: office.ana)
        let status = await run("extend", "status", Self.request, environment: office.ana)
        let audited = try await owner.query(
            "SELECT details ->> 'subscription' AS id FROM repricer.audit_trail WHERE action = 'give_up'"
        )
        await owner.close()
        let next = await run(
            "extend", "one", "11", "--days", "7", "--reason", "3", environment: office.ana)

        #expect(begun.code == .done, "\(begun.messages)")
        #expect(called.code == .conflict && called.messages.contains("is being called"))
        #expect(
            done.output == "gave up \(Self.request): another of its subscription may begin\n",
            "\(done.messages)")
        #expect(again.code == .conflict)
        #expect(status.output.contains(/given up by ana.*: mistaken/), "\(status.output)")
        #expect(try audited.map { try $0.text("id") } == ["11"])
        #expect(next.code == .done, "\(next.messages)")
    }

    @Test func retryFailed_beforeAnyCall_isAConflict() async throws {
        let office = try await Office()

        let unknown = await run(
            "extend", "retry-failed", Self.request, environment: office.ana)
        let noID = await run("extend", "retry-failed", "x", environment: office.ana)

        #expect(unknown.code == .inputRejected, "\(unknown.messages)")
        #expect(noID.code == .inputRejected)
    }
}
