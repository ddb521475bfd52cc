import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// Who may approve what: limits, the second approver, and what is measured.
@Suite(.database) struct PolicyCommandTests {
    /// Ana submits; Ben, Cleo and Dan could approve; the owner sets the policy.
    private struct Office {
        let people: [String: [String: String]]
        let owner: [String: String]
        private let scratch: ScratchFolder

        init() async throws {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
                    storefront, currency, period, product_id, original_purchase_at,
                    recent_subscription_start_at, purchased_at, expires_at, renewal_at, items,
                    signed_at, folded_signed_at, folded_evidence_id, known_since)
                SELECT s.id, repricer.bucket_of(s.id), 1, true, 'USA', 'USD', s.period, 'generic', '2025-06-01Z',
                    '2025-06-01Z', '2026-01-01Z', '2027-01-01Z', '2027-01-01Z',
                    '[{"sku":"PLAN","currentPrice":10000,"renewalPrice":10000,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '2025-06-01Z'
                FROM (VALUES ('1000000000000001', 'P1M'), ('1000000000000002', 'P1Y')) AS s (id, period);
                """)
            await connection.close()
            try await TestDatabase.shipDefaultLimits()
            var people: [String: [String: String]] = [:]
            for name in ["ana", "ben", "cleo", "dan"] {
                people[name] = Self.environment(
                    try await TestDatabase.login(name, memberOf: ["repricer_pricing"]))
            }
            self.people = people
            owner = Self.environment(TestDatabase.url)
            scratch = try ScratchFolder()
        }

        static func environment(_ url: String) -> [String: String] {
            ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]
        }

        func environment(_ name: String) -> [String: String] { people[name] ?? [:] }

        /// Two increases of 20 %: 2 USD a month, and 2 USD a year.
        func submit() async throws {
            let file = try scratch.file(
                "batch.csv",
                """
                original_transaction_id,sku,price,currency
                1000000000000001,PLAN,12,USD
                1000000000000002,PLAN,12,USD

                """)
            let outcome = await run(
                "submit", file, "--name", "spring", environment: environment("ana"))
            #expect(outcome.code == .done, "\(outcome.messages)")
        }

        /// Another batch of the same subscriptions, once the first is gone.
        func submitAgain() async throws {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                """
                UPDATE repricer.price_changes SET state = 'aborted', ended_at = now();
                DELETE FROM repricer.dependency_roles
                """)
            await connection.close()
            let file = try scratch.file(
                "again.csv",
                "original_transaction_id,sku,price,currency\n1000000000000001,PLAN,13,USD\n")
            let outcome = await run(
                "submit", file, "--name", "again", environment: environment("ana"))
            #expect(outcome.code == .done, "\(outcome.messages)")
        }

        func limit(_ name: String, _ options: String...) async {
            let outcome = await run(
                ["policy", "set", TestDatabase.loginName(name)] + options, environment: owner)
            #expect(outcome.code == .done, "\(outcome.messages)")
        }

        /// What came of it, without what was shown before.
        func approve(_ name: String) async -> Outcome {
            let outcome = await run(
                "approve", "spring", "--yes", environment: environment(name))
            let said = outcome.output.split(separator: "\n").last.map { "\($0)\n" } ?? ""
            return Outcome(
                code: outcome.code, output: said.hasPrefix("approved ") ? said : "",
                messages: outcome.messages)
        }
    }

    private static let needed =
        "repricer: your approval of spring is recorded as the first; a second approver is needed: "
    private static let approved = Outcome(
        code: .done, output: "approved 2 changes of spring\n", messages: "")

    @Test(arguments: [
        (["--rows", "1"], "2 rows, the limit is 1"),
        (["--percent", "19.99"], "a change of 20 %, the limit is 19.99 %"),
        (["--monthly", "USD=2.166"], "2.167 USD a month, the limit is 2.166"),
        (["--monthly", "EUR=99"], "2.167 USD a month, the limit is 0"),
        (
            ["--rows", "0", "--percent", "5"],
            "2 rows, the limit is 0; a change of 20 %, the limit is 5 %"
        ),
    ])
    func approve_beyondTheLimits_needsASecondApprover(_ options: [String], _ said: String)
        async throws
    {
        let office = try await Office()
        _ = await run(
            ["policy", "set", TestDatabase.loginName("ben")] + options, environment: office.owner)
        await office.limit("cleo")
        try await office.submit()

        let first = await office.approve("ben")
        let waiting = await run(
            "status", "spring", "--json", environment: office.environment("ben"))
        let again = await office.approve("ben")
        let own = await office.approve("ana")
        let second = await office.approve("cleo")
        let trail = await run(
            "audit", "show", "--batch", "spring", environment: office.environment("ben"))

        #expect(
            first
                == Outcome(
                    code: .approvalNeededOrRefused, output: "", messages: Self.needed + said + "\n")
        )
        #expect(waiting.output.contains(#""awaiting_approval":2"#))
        #expect(again.code == .approvalNeededOrRefused)
        #expect(again.messages.contains("has given the first approval"))
        #expect(own.code == .approvalNeededOrRefused)
        #expect(second == Self.approved)
        #expect(trail.output.contains("  approve_first  "))
        #expect(trail.output.contains(#""first_approved_by":"\#(TestDatabase.loginName("ben"))""#))
    }

    /// Who could not approve today is no second pair of eyes.
    @Test(arguments: [
        "a limit of another alone", "a right that is gone", "a login that is gone", "another name",
    ])
    func firstApproval_ofWhomMayNoLongerApprove_doesNotCount(change: String) async throws {
        let office = try await Office()
        let (ben, cleo) = (TestDatabase.loginName("ben"), TestDatabase.loginName("cleo"))
        let isByLimits = change != "a limit of another alone"
        if isByLimits {
            for name in ["ben", "cleo", "dan"] { await office.limit(name, "--rows", "1") }
        } else {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                "UPDATE repricer.default_limits SET max_rise_basis_points = 100")
            await connection.close()
        }
        try await office.submit()
        let first = await office.approve("ben")
        let connection = try await TestDatabase.connect()
        switch change {
        case "a limit of another alone": await office.limit("cleo", "--rows", "2", "--percent", "1")
        case "a right that is gone":
            try await connection.script("REVOKE repricer_pricing FROM \(ben)")
        case "a login that is gone": try await connection.script("ALTER ROLE \(ben) NOLOGIN")
        default: try await connection.script("ALTER ROLE \(ben) RENAME TO \(ben)_b")
        }
        await connection.close()

        let shown = await run("show", "spring", environment: office.environment("cleo"))
        let second = await office.approve("cleo")
        let again = await run("show", "spring", environment: office.environment("cleo"))

        #expect(first.code == .approvalNeededOrRefused)
        #expect(!shown.output.contains("approved first"), "\(shown.output)")
        #expect(second.code == .approvalNeededOrRefused, "\(second)")
        #expect(second.messages.hasPrefix(Self.needed), "\(second)")
        let whoCounts = again.output.split(separator: "\n").filter {
            $0.hasPrefix("approved first")
        }
        #expect(whoCounts.count == 1 && whoCounts[0].hasSuffix(cleo), "\(again.output)")
    }

    /// The new name would make the submitter another person.
    @Test func approve_bySubmitterUnderAnotherName_isRefused() async throws {
        let office = try await Office()
        try await office.submit()
        let (ana, dan) = (TestDatabase.loginName("ana"), TestDatabase.loginName("dan"))
        let connection = try await TestDatabase.connect()
        try await connection.script("DROP ROLE \(dan); ALTER ROLE \(ana) RENAME TO \(dan)")
        await connection.close()

        let outcome = await office.approve("dan")

        #expect(outcome.code == .approvalNeededOrRefused, "\(outcome)")
        #expect(
            outcome.messages.contains(
                "no longer exists, so nobody can tell whether you are another person"))
        #expect(await office.approve("ben").code == .approvalNeededOrRefused)
    }

    @Test func approve_withinTheLimits_needsNobodyElse() async throws {
        let office = try await Office()
        await office.limit("ben", "--rows", "2", "--percent", "20", "--monthly", "USD=2.167")
        try await office.submit()

        #expect(await office.approve("ben") == Self.approved)
    }

    @Test func approve_byWhomNoLimitNames_isRefused() async throws {
        let office = try await Office()
        await office.limit("ben")
        try await office.submit()

        let outcome = await office.approve("dan")

        #expect(outcome.code == .approvalNeededOrRefused)
        #expect(outcome.messages.contains("no approval limit names them or a role of theirs"))
        #expect(await office.approve("ben") == Self.approved)
    }

    /// In whatever order two approve, the result is the same.
    @Test func approve_bySecondApproverBeforeTheFirst_isCompletedByTheFirst() async throws {
        let office = try await Office()
        await office.limit("ben", "--rows", "1")
        await office.limit("cleo", "--rows", "2", "--second")
        try await office.submit()

        let second = await office.approve("cleo")
        let first = await office.approve("ben")

        #expect(second.messages.contains("approves as the second only"))
        #expect(first == Self.approved)
    }

    @Test func approve_byTwoBeyondTheirLimits_takesAThird() async throws {
        let office = try await Office()
        await office.limit("ben", "--rows", "1")
        await office.limit("cleo", "--rows", "1", "--second")
        await office.limit("dan", "--rows", "2", "--second")
        try await office.submit()

        let two = [await office.approve("cleo"), await office.approve("ben")]

        #expect(two.map(\.code) == [.approvalNeededOrRefused, .approvalNeededOrRefused])
        #expect(two.last?.messages == Self.needed + "2 rows, the limit is 1\n")
        #expect(await office.approve("dan") == Self.approved)
    }

    @Test func approve_bySecondApproversOnly_takesTwo() async throws {
        let office = try await Office()
        await office.limit("cleo", "--second")
        await office.limit("dan", "--second")
        try await office.submit()

        let first = await office.approve("cleo")
        let second = await office.approve("dan")

        #expect(first.code == .approvalNeededOrRefused)
        #expect(first.messages.contains("approves as the second only"))
        #expect(second == Self.approved)
    }

    @Test func approve_byMembersOfARole_goesByItsLimitsUnlessTheyHaveTheirOwn() async throws {
        let office = try await Office()
        let role = TestDatabase.loginName("boards")
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            CREATE ROLE "\(role)";
            GRANT "\(role)" TO "\(TestDatabase.loginName("ben"))", "\(TestDatabase.loginName("dan"))"
            """)
        await connection.close()
        await office.limit("boards")
        await office.limit("ben", "--rows", "1")
        try await office.submit()

        let own = await office.approve("ben")
        let ofRole = await office.approve("dan")

        #expect(own.messages == Self.needed + "2 rows, the limit is 1\n")
        #expect(ofRole == Self.approved)
    }

    /// The submitter says that prices are 11.99 already, and that all are paid once a year.
    @Test func approve_ofRowsWithForgedPrices_goesByTheFacts() async throws {
        let office = try await Office()
        await office.limit("ben", "--percent", "10")
        await office.limit("cleo", "--monthly", "USD=1")
        try await office.submit()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.price_changes SET current_price_milliunits = 11990, period = 'P1Y',
                currency = 'JPY'
            """)
        await connection.close()

        let percent = await office.approve("ben")
        let money = await office.approve("cleo")

        #expect(percent.messages == Self.needed + "a change of 20 %, the limit is 10 %\n")
        #expect(money.messages == Self.needed + "2.167 USD a month, the limit is 1\n")
    }

    @Test func policy_changedAndEmptied_isShownAndRecorded() async throws {
        let office = try await Office()
        let ben = TestDatabase.loginName("ben")

        let none = await run("policy", "show", environment: office.environment("dan"))
        await office.limit(
            "ben", "--rows", "10", "--percent", "12.05", "--monthly", "USD=5,EUR=4.5")
        let shown = await run("policy", "show", environment: office.environment("dan"))
        let json = await run("policy", "show", "--json", environment: office.environment("dan"))
        await office.limit("ben", "--remove")
        try await office.submit()
        let trail = await run("audit", "show", "--json", environment: office.environment("dan"))

        #expect(
            none.output == """
                no limits of approvers: any member of repricer_pricing but the submitter approves
                shipped default: two approve an increase of more than 100 % or a decrease of more than 66.67 %

                """)
        #expect(shown.output.contains("    10    12.05  4.50 EUR, 5.00 USD  alone"))
        #expect(
            json.output
                == #"{"limits":[{"approver":"\#(ben)","max_rows":10,"max_basis_points":1205,"#
                + #""max_monthly_milliunits":{"EUR": 4500, "USD": 5000},"needs_first":false}],"default_limits":{"max_rise_basis_points":10000,"#
                + #""max_fall_basis_points":6667,"is_shipped":true}}"#
                + "\n")
        #expect(trail.output.contains(#""action":"set_limit","object":"approver:\#(ben)""#))
        #expect(trail.output.contains(#""action":"drop_limit","object":"approver:\#(ben)""#))
        #expect(await office.approve("dan") == Self.approved)
    }

    /// Shipped: an increase of more than 100 percent, a price below a third of today's.
    @Test(
        arguments: [
            (20_000, nil), (20_001, "an increase of 100.01 %, one approver alone allows 100 %"),
            (3334, nil), (3333, "a decrease of 66.67 %, one approver alone allows 66.67 %"),
            (0, "an increase of a price of 0, one approver alone allows 100 %"),
        ] as [(Int64, String?)])
    func approve_beyondTheShippedLimits_needsTwo(_ price: Int64, _ said: String?) async throws {
        let office = try await Office()
        try await office.submit()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            price == 0
                ? "UPDATE repricer.subscriptions SET items = replace(items::text, '10000', '0')::jsonb"
                : """
                UPDATE repricer.price_changes SET new_price_milliunits = \(price), direction =
                    CASE WHEN \(price) > 10000 THEN 'increase' ELSE 'decrease' END,
                    current_price_milliunits = 10000, forecast_consent =
                    CASE WHEN \(price) > 10000 THEN 'required' ELSE 'none' END
                """)
        await connection.close()

        let first = await office.approve("ben")
        let shown = await run("show", "spring", environment: office.environment("cleo"))
        let second = said == nil ? Self.approved : await office.approve("cleo")

        #expect(first.messages == (said.map { Self.needed + $0 + "\n" } ?? ""))
        #expect(first.code == (said == nil ? .done : .approvalNeededOrRefused))
        #expect(said == nil || shown.output.contains("approved first: ben"))
        let left =
            /by\s+one\s+more\s+member\s+of\s+repricer_pricing,\s+not\s+ana\S*\s+or\s+ben\S*:\s+a/
        #expect(said == nil || shown.output.contains(left), "\(shown.output)")
        #expect(second == Self.approved)
    }

    /// A third of 9.99 is 3.33: not below it.
    @Test func approve_ofExactlyAThird_needsNobodyElse() async throws {
        let office = try await Office()
        try await office.submit()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.subscriptions SET items = replace(items::text, '10000', '9990')::jsonb;
            UPDATE repricer.price_changes SET new_price_milliunits = 3330, direction = 'decrease',
                forecast_consent = 'none'
            """)
        await connection.close()

        #expect(await office.approve("ben") == Self.approved)
    }

    /// Limits that were written past the functions that decide, which would let one person approve anything.
    @Test(arguments: [
        (
            "UPDATE repricer.default_limits SET max_rise_basis_points = 99999999",
            "approver:everyone: has other limits than the newest line says"
        ),
        (
            "DELETE FROM repricer.default_limits",
            "approver:everyone: a line sets limits that are not stored"
        ),
        (
            "UPDATE repricer.approval_limits SET max_rows = 99 WHERE max_rows = 1",
            "approver:ben: has other limits than the newest line says"
        ),
        (
            "DELETE FROM repricer.approval_limits WHERE max_rows = 1",
            "approver:ben: a line sets limits that are not stored"
        ),
        (
            "INSERT INTO repricer.approval_limits (approver) VALUES ('eve')",
            "approver:eve: has limits that no line sets"
        ),
    ])
    func limits_writtenPastTheFunctions_areFoundByTheAudit(
        _ script: String, _ said: String
    ) async throws {
        let office = try await Office()
        await office.limit("ben", "--rows", "2")
        await office.limit("ben", "--rows", "1")
        await office.limit("cleo", "--monthly", "EUR=99", "--percent", "5")
        _ = await run(
            "policy", "set", TestDatabase.loginName("cleo"), "--remove", environment: office.owner)
        let before = await run("audit", "verify", environment: office.environment("dan"))
        _ = await run(
            "policy", "set", "everyone", "--increase", "150", environment: office.owner)
        await office.limit("cleo", "--monthly", "EUR=99")
        let set = await run("audit", "verify", environment: office.environment("dan"))
        let connection = try await TestDatabase.connect()
        try await connection.script(script)
        await connection.close()

        let after = await run("audit", "verify", environment: office.environment("dan"))

        #expect(before.code == .done, "\(before.output)\(before.messages)")
        #expect(set.code == .done, "\(set.output)\(set.messages)")
        #expect(after.code != .done)
        let text = (after.output + after.messages)
            .replacing(TestDatabase.loginName("ben"), with: "ben")
        #expect(text.contains(said), "\(text)")
    }

    @Test func defaultLimits_ofTheOwner_holdUntilRemoved_andAreAudited() async throws {
        let office = try await Office()
        try await office.submit()
        let set = await run(
            "policy", "set", "everyone", "--increase", "19.99", environment: office.owner)
        let shown = await run("show", "spring", environment: office.environment("ben"))
        let json = await run("show", "spring", "--json", environment: office.environment("ben"))
        let first = await office.approve("ben")
        let removed = await run(
            "policy", "set", "everyone", "--remove", environment: office.owner)
        let second = await office.approve("cleo")
        let trail = await run("audit", "show", "--json", environment: office.environment("dan"))
        let other = await run(
            "policy", "set", "everyone", "--remove", environment: office.environment("dan"))

        #expect(set.output.hasSuffix("\ndefault: two approve an increase of more than 19.99 %\n"))
        let why = "an increase of 20 %, one approver alone allows 19.99 %"
        #expect(shown.output.replacing("\n  ", with: " ").contains(why))
        #expect(
            json.output.contains(
                #""approver":null,"needs_second_approver":true,"exceeded":["\#(why)"]"#))
        #expect(first.messages == Self.needed + why + "\n")
        #expect(removed.output.hasSuffix("\nno default limits: one approver may suffice\n"))
        #expect(second == Self.approved)
        #expect(
            trail.output.contains(#""action":"set_default_limits","object":"approver:everyone""#))
        #expect(other.code == .approvalNeededOrRefused)
    }

    /// The limits of a person say who may, the default ones that two must.
    @Test func defaultLimits_besideThoseOfApprovers_askForASecondWhoeverIsFirst() async throws {
        let office = try await Office()
        _ = await run("policy", "set", "everyone", "--increase", "10", environment: office.owner)
        await office.limit("ben")
        await office.limit("cleo", "--percent", "50")
        await office.limit("dan", "--rows", "5")
        try await office.submit()

        let first = await office.approve("ben")
        let shown = await run("show", "spring", environment: office.environment("dan"))

        #expect(first.code == .approvalNeededOrRefused)
        #expect(shown.output.contains("approval: by \(TestDatabase.loginName("dan")) alone"))
        #expect(await office.approve("dan") == Self.approved)
        try await office.submitAgain()
        #expect(
            await run("approve", "again", "--yes", environment: office.environment("cleo")).code
                == .done)
    }

    @Test func policySet_byAnybodyButTheOwner_isRefused() async throws {
        let office = try await Office()

        let set = await run(
            "policy", "set", TestDatabase.loginName("dan"), environment: office.environment("dan"))
        let shown = await run("policy", "show", environment: office.environment("dan"))

        #expect(set.code == .approvalNeededOrRefused)
        #expect(set.messages.contains("permission denied"))
        #expect(shown.output.hasPrefix("no limits of approvers"))
    }

    @Test func policySet_ofNobody_exits3() async throws {
        let office = try await Office()

        let unknown = await run("policy", "set", "no one", environment: office.owner)
        let absent = await run("policy", "set", "no one", "--remove", environment: office.owner)

        #expect(unknown.code == .inputRejected)
        #expect(unknown.messages == "repricer: no database user or role no one\n")
        #expect(absent.code == .inputRejected)
    }

    /// A currency that is left out may not move at all, so a typing error would lock all approvals.
    @Test(arguments: ["UDS=5000", "USD=1,XXX=5"])
    func policySet_ofACurrencyWithoutPrices_isAUsageError(_ limits: String) async throws {
        let office = try await Office()

        let outcome = await run(
            "policy", "set", "ben", "--monthly", limits, environment: office.owner)

        #expect(outcome.code == .usage, "\(outcome.messages)")
        #expect(outcome.messages.contains("in which Apple has no prices"), "\(outcome.messages)")
    }

    @Test(arguments: [
        ["--rows", "-1"], ["--rows", "many"], ["--rows", "99999999999999999999"],
        ["--percent", "1.234"], ["--percent", "-5"], ["--percent", "."], ["--percent", "1."],
        ["--percent", "1.2.3"], ["--percent", "99999999999999999999"], ["--percent", "10%"],
        ["--monthly", ""], ["--monthly", "USD"], ["--monthly", "usd=5"], ["--monthly", "USD=-5"],
        ["--monthly", "USD=1.2345"], ["--monthly", "USD=5,"], ["--monthly", "USD=5,USD=6"],
        ["--monthly", "USD=1=2"], ["--remove", "--rows", "1"], ["--increase", "5"],
    ])
    func policySet_ofALimitThatIsNone_isAUsageError(_ options: [String]) async {
        let outcome = await run(["policy", "set", "ben"] + options)

        #expect(outcome.code == .usage, "\(outcome.messages)")
        #expect(outcome.output.isEmpty)
    }
}
