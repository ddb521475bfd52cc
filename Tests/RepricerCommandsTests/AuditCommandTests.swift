import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// The audit trail: who writes it, and what `audit verify` finds.
@Suite(.database) struct AuditCommandTests {
    /// Ana and Ben have made six decisions; `owner` may do what only a database's owner can.
    private struct Office {
        let ana: [String: String]
        let ben: [String: String]
        let anaURL: String
        let batchID = "0190a0a0-0000-7000-8000-000000000001"

        init() async throws {
            try await TestDatabase.shipDefaultLimits()
            anaURL = try await TestDatabase.login("ana", memberOf: ["repricer_pricing"])
            ana = ["REPRICER_DATABASE_URL": anaURL]
            ben = [
                "REPRICER_DATABASE_URL": try await TestDatabase.login(
                    "ben", memberOf: ["repricer_pricing"])
            ]
            try await Self.statements(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket)
                VALUES ('1', repricer.bucket_of('1'))
                """, as: TestDatabase.url)
            try await Self.statements(
                """
                BEGIN;
                SELECT repricer.begin_submission('\(batchID)', 'spring', 'c0', 'announced', '[]', '[]', '2026-01-05Z');
                SELECT repricer.store_changes('\(batchID)', ARRAY['1'], ARRAY[gen_random_uuid()], ARRAY[2],
                    ARRAY[0], ARRAY['A'], ARRAY['{}'], ARRAY['decrease'], ARRAY['USD'], ARRAY['USA'], ARRAY['P1M'],
                    ARRAY[2], ARRAY[1], ARRAY[NULL::bigint], ARRAY[NULL], ARRAY['none'], ARRAY['{}'], ARRAY[NULL],
                    ARRAY['[]'::jsonb], ARRAY[NULL::timestamptz], ARRAY[NULL::timestamptz],
                    ARRAY['2026-02-01Z'::timestamptz], ARRAY[NULL::timestamptz], ARRAY['2026-01-31Z'::timestamptz]);
                SELECT repricer.finish_submission('\(batchID)', 'p0', 1, 0);
                COMMIT
                """, as: anaURL)
            for verb in ["pause", "resume"] {
                _ = await run(verb, "spring", environment: ben)
                _ = await run(verb, "--all", environment: ana)
            }
            _ = await run("reject", "spring", "--reason", "zu früh\n\"so\"", environment: ben)
        }

        static func statements(_ script: String, as url: String) async throws {
            let connection = try await PostgresConnection.connect(url, applicationName: "test")
            do {
                try await connection.script(script)
            } catch {
                await connection.close()
                throw error
            }
            await connection.close()
        }

        /// What the owner can do who means it: the trigger is off.
        func tamper(_ script: String) async throws {
            try await Self.statements(
                "SET session_replication_role = replica; \(script)", as: TestDatabase.url)
        }

        func verify(_ arguments: String...) async -> Outcome {
            await run(["audit", "verify"] + arguments, environment: ana)
        }
    }

    @Test func trail_ofDecisions_namesWhoDidWhatToWhat() async throws {
        let office = try await Office()

        let shown = await run("audit", "show", environment: office.ana)
        let ofBatch = await run(
            "audit", "show", "--batch", "spring", "--json", environment: office.ana)

        let ana = TestDatabase.loginName("ana")
        let ben = TestDatabase.loginName("ben")
        let steps = shown.output.split(separator: "\n").map { line in
            line.split(separator: " ").enumerated().filter { [0, 2, 3, 4].contains($0.offset) }
                .map { String($0.element) }.joined(separator: " ")
        }
        #expect(
            steps == [
                "1 \(ana) submit batch:\(office.batchID)", "2 \(ben) pause batch:\(office.batchID)",
                "3 \(ana) pause everything", "4 \(ben) resume batch:\(office.batchID)",
                "5 \(ana) resume everything", "6 \(ben) reject batch:\(office.batchID)",
            ])
        #expect(ofBatch.output.split(separator: "\n").count == 4)
        #expect(ofBatch.output.contains(#""details":{"withdrawn":1,"reason":"zu früh\n\"so\""}"#))
    }

    /// On a terminal nothing is wider than it, and details are words.
    @Test func trail_onATerminal_keepsToItsWidth() async throws {
        let office = try await Office()

        let shown = await run("audit", "show", environment: office.ana) {
            $0.isOutputTerminal = true
            $0.terminalSize = { (60, 24) }
        }

        let lines = shown.output.split(separator: "\n").map(String.init)
        #expect(lines.allSatisfy { $0.count <= 60 }, "\(shown.output)")
        #expect(lines.contains { $0.hasPrefix("    name spring; rows 1; ") }, "\(shown.output)")
        #expect(!shown.output.contains("{"))
        #expect(shown.output.contains("withdrawn 1; reason zu früh"), "\(shown.output)")
    }

    @Test func verify_ofAWholeTrail_printsItsHead() async throws {
        let office = try await Office()

        let outcome = await office.verify()
        let head = String(outcome.output.split(separator: " ").last?.dropLast() ?? "")
        let kept = await office.verify("--head", head)
        let json = await office.verify("--json")

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output.hasPrefix("6 lines, all as they were written\nhead 6:"))
        #expect(kept.code == .done)
        #expect(
            json.output.hasPrefix(#"{"is_intact":true,"lines":6,"head":{"sequence":6,"hash":""#))
    }

    /// In the words of Migrations/README.md, with nothing of ours.
    @Test func hash_ofEachLine_isWhatAnIndependentReaderComputes() async throws {
        let office = try await Office()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            CREATE FUNCTION pg_temp.l(text) RETURNS text LANGUAGE sql AS
                $$ SELECT octet_length($1) || ':' || $1 || chr(10) $$;
            CREATE FUNCTION pg_temp.t(timestamptz) RETURNS text LANGUAGE sql AS
                $$ SELECT pg_temp.l(to_char($1 AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) $$
            """)

        let sums = try await connection.query(
            """
            SELECT count(*) AS lines, count(*) FILTER (WHERE hash = encode(sha256(convert_to(
                    pg_temp.l(sequence::text) || pg_temp.t(occurred_at) || pg_temp.t(recorded_at)
                    || pg_temp.l(actor) || pg_temp.l(action) || pg_temp.l(object)
                    || pg_temp.l(details::text) || pg_temp.l(previous_hash), 'UTF8')), 'hex')) AS same
            FROM repricer.audit_trail
            """
        ).one()

        #expect(try sums.int("lines") == 6)
        #expect(try sums.int("same") == 6)
        await connection.close()
        withExtendedLifetime(office) {}
    }

    @Test func show_onATerminal_isOneTextForThePager_andVerifyShowsHowFarItIs() async throws {
        let office = try await Office()
        let paged = OutputMemory()

        let shown = await run("audit", "show", environment: office.ana) {
            $0.isOutputTerminal = true
            $0.terminalSize = { (80, 5) }
            $0.page = { _, text in
                try? paged.sink.write(text)
                return true
            }
        }
        let verified = await run("audit", "verify", environment: office.ana) {
            $0.isMessagesTerminal = true
            $0.progressAfter = .zero
        }

        #expect(shown.output.isEmpty, "\(shown.output)")
        #expect(paged.text.contains(" submit ") && paged.text.contains(" reject "))
        #expect(verified.messages.contains("6 of 6 lines"), "\(verified.messages)")
    }

    @Test(arguments: [
        ("UPDATE repricer.audit_trail SET actor = 'eve' WHERE sequence = 3", "line 3 was edited"),
        (
            "UPDATE repricer.audit_trail SET details = '{\"withdrawn\":1}' WHERE sequence = 6",
            "line 6 was edited"
        ),
        (
            "UPDATE repricer.audit_trail SET occurred_at = occurred_at + interval '1 microsecond' "
                + "WHERE sequence = 2", "line 2 was edited"
        ),
        ("DELETE FROM repricer.audit_trail WHERE sequence = 4", "line 4 is missing"),
        ("DELETE FROM repricer.audit_trail WHERE sequence < 3", "line 1 up to line 2: missing"),
        ("DELETE FROM repricer.audit_trail WHERE sequence > 4", "line 5 up to line 6: missing"),
        ("TRUNCATE repricer.audit_trail", "line 1 up to line 6: missing"),
        (
            """
            UPDATE repricer.audit_trail SET sequence = 99 WHERE sequence = 2;
            UPDATE repricer.audit_trail SET sequence = 2 WHERE sequence = 3;
            UPDATE repricer.audit_trail SET sequence = 3 WHERE sequence = 99
            """, "line 2 was line 3\nline 3 was line 2"
        ),
        // Whoever knows how hashes are made still breaks the chain at the next line.
        (
            """
            UPDATE repricer.audit_trail SET actor = 'eve' WHERE sequence = 3;
            UPDATE repricer.audit_trail SET hash = repricer.audit_hash(sequence, occurred_at,
                recorded_at, actor, action, object, details, previous_hash) WHERE sequence = 3
            """, "line 4 does not follow line 3 as it stands"
        ),
        ("UPDATE repricer.audit_head SET sequence = 5", "line 6 is not the end of the chain"),
    ])
    func verify_ofATamperedTrail_saysWhich(_ script: String, _ said: String) async throws {
        let office = try await Office()
        try await office.tamper(script)

        let outcome = await office.verify()
        let json = await office.verify("--json")

        #expect(outcome.code == .failed)
        #expect(outcome.output.hasPrefix(said), "\(outcome.output)")
        #expect(outcome.messages.hasPrefix("repricer: the audit trail does not hold: "))
        #expect(json.output.hasPrefix(#"{"is_intact":false,"#))
    }

    @Test func verify_ofATailCutWithCare_isFoundByTheKeptHead() async throws {
        let office = try await Office()
        let first = await office.verify().output.split(separator: " ").last?.dropLast() ?? ""
        try await office.tamper(
            """
            DELETE FROM repricer.audit_trail WHERE sequence > 4;
            UPDATE repricer.audit_head SET sequence = 4,
                hash = (SELECT hash FROM repricer.audit_trail WHERE sequence = 4);
            UPDATE repricer.batches SET state = 'awaiting_approval', decided_by = NULL, decided_at = NULL
            """)

        let blind = await office.verify()
        let knowing = await office.verify("--head", String(first))
        let hashAlone = await office.verify("--head", String(first.dropFirst(2)))

        #expect(blind.code == .done)
        #expect(knowing.code == .failed)
        #expect(knowing.output.contains("the kept head line 6 "))
        #expect(hashAlone.code == .failed)
    }

    @Test(arguments: ["abc", "6:", "-1:" + String(repeating: "a", count: 64), "1:2:3"])
    func verify_withAHeadThatIsNone_isAUsageError(_ head: String) async throws {
        let outcome = await run("audit", "verify", "--head", head)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("--head cannot be"))
    }

    @Test(arguments: [
        """
        INSERT INTO repricer.audit_trail VALUES (7, now(), now(), 'ben', 'approve', 'batch:x', '{}', 'a', 'b')
        """,
        "UPDATE repricer.audit_trail SET actor = 'x'", "DELETE FROM repricer.audit_trail",
        "TRUNCATE repricer.audit_trail", "UPDATE repricer.audit_head SET sequence = 0",
        "SELECT repricer.append_audit('ben', now(), 'approve', 'batch:x', '{}')",
        "SELECT repricer.finish_submission('0190a0a0-0000-7000-8000-000000000001', 'p0', 1, 0)",
    ])
    func trail_forItsUsers_isClosed(_ statement: String) async throws {
        let office = try await Office()
        let service = try await TestDatabase.login("serge", memberOf: ["repricer_service"])

        for url in [office.anaURL, service] {
            let error = await #expect(throws: PostgresError.self) {
                try await Office.statements(statement, as: url)
            }
            // 42501 no right, 55000 finished already.
            #expect(["42501", "55000"].contains(error?.sqlState?.code), "\(statement)")
        }
        #expect(await office.verify().code == .done)
    }

    @Test(arguments: [
        "UPDATE repricer.audit_trail SET actor = 'x' WHERE sequence = 1",
        "DELETE FROM repricer.audit_trail WHERE sequence = 1", "TRUNCATE repricer.audit_trail",
    ])
    func trail_forItsOwner_isAppendOnly(_ statement: String) async throws {
        let office = try await Office()

        let error = await #expect(throws: PostgresError.self) {
            try await Office.statements(statement, as: TestDatabase.url)
        }

        #expect(error?.message == "the audit trail is append-only")
        withExtendedLifetime(office) {}
    }

    @Test func decisions_madeAtOnce_makeOneChain() async throws {
        let office = try await Office()

        await withTaskGroup(of: ExitCode.self) { group in
            for index in 0..<8 {
                group.addTask {
                    await run(
                        "pause", "--all", "--reason", "\(index)",
                        environment: index < 4 ? office.ana : office.ben
                    ).code
                }
            }
            for await code in group { #expect(code == .done) }
        }
        let outcome = await office.verify()

        #expect(outcome.output.hasPrefix("14 lines, all as they were written\n"))
    }
}
