import Foundation
import HTTP
import JOSE
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import Facts
@testable import RepricerCommands
@testable import SandboxStore

/// `config check` against the simulated App Store: whether it takes our key.
@Suite(.database) struct ConfigurationCheckTests {
    private static func line(_ outcome: Outcome) -> String {
        outcome.output.split(separator: "\n").first { $0.hasPrefix("app store") }.map(String.init)
            ?? outcome.output
    }

    @Test func configCheck_whenTheStoreTakesOurKey_saysSoAndOtherwiseWhatToCompare() async throws {
        let harness = try await ProcessHarness.open()
        defer { harness.close() }
        let otherKey = try harness.scratch.file("other.p8", try ES256PrivateKey.newPEM())
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: otherKey)
        let good = try await harness.command("config", "check", as: "repricerd")
        #expect(Self.line(good).contains("ok"), "\(good.output)")
        #expect(Self.line(good).hasSuffix("and takes our key"), "\(good.output)")

        for wrong in [
            ["REPRICER_KEY_ID": "ZZZZZZZZZZ"], ["REPRICER_KEY_FILE": otherKey],
            ["REPRICER_ISSUER_ID": "00000000-0000-0000-0000-000000000000"],
            ["REPRICER_BUNDLE_ID": "com.example.other"],
        ] {
            let outcome = try await harness.command(
                "config", "check", as: "repricerd", exits: .failed, with: wrong)
            #expect(Self.line(outcome).contains("FAILED"), "\(wrong): \(outcome.output)")
            #expect(
                outcome.messages.contains(
                    "REPRICER_KEY_ID: the App Store does not take our key (401"),
                "\(wrong): \(outcome.messages)")
            #expect(outcome.messages.contains("compare REPRICER_ISSUER_ID, REPRICER_KEY_ID,"))
        }

        try await harness.order(fault: "http_500", on: "status")
        let away = try await harness.command(
            "config", "check", as: "repricerd", exits: .unavailable)
        #expect(away.messages.contains("a signed call failed: "), "\(away.messages)")
        #expect(away.messages.contains("the key is not proved"))
    }

    /// `serve` could not start with them, and must not be the first to say so.
    @Test func configCheck_whereThisMachineCantListen_namesTheSetting() async throws {
        let harness = try await ProcessHarness.open()
        defer { harness.close() }
        let token = try harness.scratch.file("pages.token", "0123456789abcdef")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: token)
        for (name, variable, other) in [
            ("receiver", "REPRICER_LISTEN", [:]),
            ("pages", "REPRICER_PAGES_LISTEN", ["REPRICER_PAGES_TOKEN_FILE": token]),
        ] {
            // An address that is kept for documentation (RFC 5737).
            let away = other.merging([variable: "192.0.2.1:8099"]) { $1 }
            let outcome = try await harness.command(
                "config", "check", "--log-format", "json", as: "repricerd", exits: .failed,
                with: away)
            let line = outcome.output.split(separator: "\n").first { $0.hasPrefix(name) }
            #expect(line?.contains("FAILED") == true, "\(outcome.output)")
            #expect(
                outcome.messages.contains("names 192.0.2.1, where this machine can't listen"),
                "\(outcome.messages)")
            #expect(outcome.messages.hasPrefix("{"), "\(outcome.messages)")
        }
    }

    /// What a role is set to does not reach its members: each user of finance is looked at.
    @Test func financeUsers_withoutLimits_areNamedWithWhatToDo() async throws {
        // In one transaction: users are those of all databases, and other tests look at them, too.
        let steps = [
            "CREATE ROLE felice LOGIN", "GRANT repricer_finance_lead TO felice",
            "ALTER ROLE felice CONNECTION LIMIT 5", "ALTER ROLE felice SET statement_timeout = 0",
            "ALTER ROLE felice SET statement_timeout = '5min'", "GRANT repricer_service TO felice",
        ]
        let found = try await TestDatabase.withRollback { owner in
            var found: [[[Bool]]] = []
            for step in steps {
                _ = try owner.execute(SQL(unsafe: step))
                found.append(
                    try FinanceLoginQueries.logins(on: owner).filter { $0.name == "felice" }
                        .map { [$0.hasTimeout, $0.hasConnectionLimit] })
            }
            return found
        }
        let result = ConfigurationCheck.finance([
            .init(name: "felice", hasTimeout: false, hasConnectionLimit: false),
            .init(name: "fay", hasTimeout: true, hasConnectionLimit: true),
        ])
        let told = result.problems.map(\.description)

        #expect(
            found == [
                [], [[false, false]], [[false, true]], [[false, true]], [[true, true]], [],
            ])
        #expect(result.found == "2, of them 1 without limits")
        #expect(
            told == [
                "user felice: of finance has no statement_timeout and no connection limit: one report may keep the "
                    + "database busy for hours; limit them: ALTER ROLE \"felice\" CONNECTION LIMIT 5; ALTER ROLE \"felice\" SET "
                    + "statement_timeout = '5min'"
            ])
    }

    @Test func configCheck_ofWebhookFilesThatAreNotThere_namesBoth() async throws {
        let harness = try await ProcessHarness.open()
        defer { harness.close() }

        let outcome = try await harness.command(
            "config", "check", as: "repricerd", exits: .failed,
            with: [
                "REPRICER_WEBHOOK_URL": "http://127.0.0.1:1/hooks",
                "REPRICER_WEBHOOK_SECRET_FILE": "/nonexistent/secret",
                "REPRICER_WEBHOOK_CA_FILE": "/nonexistent/ca.pem",
            ])

        for variable in ["REPRICER_WEBHOOK_SECRET_FILE", "REPRICER_WEBHOOK_CA_FILE"] {
            #expect(outcome.messages.contains(variable), "\(outcome.messages)")
        }
    }

    /// `serve` follows the secret that it signs with.
    @Test func serve_whenTheSecretOfWebhooksChanges_readsItAnew() async throws {
        let harness = try await ProcessHarness.open()
        defer { harness.close() }
        try await harness.serve()
        let service = try #require(harness.service)

        _ = try harness.scratch.secret("secret", "another\n")
        service.send(signal: SIGHUP)

        try await service.said(until: "secret=REPRICER_WEBHOOK_SECRET_FILE")
    }

    @Test func configCheck_ofAnAddressThatIsNotTheStores_saysSo() async throws {
        let harness = try await ProcessHarness.open()
        defer { harness.close() }
        let server = try HTTPServer(host: "127.0.0.1", port: 0, log: .silent) { _ in
            .text(404, "no such page")
        }
        let port = try server.bind()
        let serving = Task { try await server.run() }
        defer { serving.cancel() }

        let outcome = try await harness.command(
            "config", "check", as: "repricerd", exits: .failed,
            with: ["REPRICER_API_BASE_URL": "http://127.0.0.1:\(port)"])

        #expect(outcome.messages.contains("this is not the App Store"), "\(outcome.messages)")
    }
}

/// `config check --for`: people have the database and nothing else.
@Suite(.database) struct PersonCheckTests {
    @Test func configCheck_ofAPersonsSettings_asksForTheDatabaseAlone() async throws {
        let fiona = [
            "REPRICER_DATABASE_URL": try await TestDatabase.login(
                "fiona", memberOf: ["repricer_finance"])
        ]
        let ana = [
            "REPRICER_DATABASE_URL": try await TestDatabase.login(
                "ana", memberOf: ["repricer_pricing"])
        ]
        let nobody = ["REPRICER_DATABASE_URL": try await TestDatabase.login("nobody", memberOf: [])]
        let repricerd = [
            "REPRICER_DATABASE_URL": try await TestDatabase.login(
                "repricerd", memberOf: ["repricer_service"])
        ]

        let finance = await run("config", "check", "--for", "finance", environment: fiona)
        let pricing = await run("config", "check", "--for", "pricing", environment: ana)
        let mistaken = await run("config", "check", "--for", "pricing", environment: repricerd)
        let service = await run("config", "check", environment: ana)
        let closed = await run("config", "check", "--for", "finance", environment: nobody)

        #expect(finance.code == .done, "\(finance.messages)")
        #expect(finance.output.contains("reports   ok"))
        #expect(pricing.code == .done, "\(pricing.messages)")
        #expect(mistaken.code == .failed)
        #expect(mistaken.messages.contains("no member of repricer_pricing"), "\(mistaken.messages)")
        #expect(service.messages.contains("REPRICER_KEY_FILE: is not set"))
        #expect(
            service.messages.contains(AppleRoot.file) && service.messages.contains(AppleRoot.sha256)
        )
        #expect(closed.code == .failed)
        #expect(closed.messages.contains("GRANT repricer_finance"))
    }

    /// A standby, or a primary that was demoted: whoever writes is told where to go, and reports are read.
    @Test func database_thatIsReadOnly_isNamedAsThat() async throws {
        func settings(_ name: String, _ role: String) async throws -> [String: String] {
            let url = try await TestDatabase.login(name, memberOf: [role])
            return [
                "REPRICER_DATABASE_URL": url + "&options=-c%20default_transaction_read_only%3Don"
            ]
        }
        let ana = try await settings("ana", "repricer_pricing")
        let fiona = try await settings("fiona", "repricer_finance")

        let pricing = await run("config", "check", "--for", "pricing", environment: ana)
        let finance = await run("config", "check", "--for", "finance", environment: fiona)
        let pause = await run("pause", "--all", "--reason", "x", environment: ana)
        let report = await run("report", "batch_summary", environment: fiona)

        #expect(pricing.code == .unavailable)
        #expect(pricing.messages.contains("names a database that is read-only"))
        #expect(finance.code == .done, "\(finance.messages)")
        #expect(pause.code == .unavailable)
        #expect(pause.messages.contains("the database is read-only: it is a standby"))
        #expect(pause.messages.contains("target_session_attrs=read-write"))
        #expect(report.code == .done, "\(report.messages)")
    }

    /// libpq takes what is neither form for the name of a database, and prints it.
    @Test(arguments: ["postgres//ana:s3cret@db/repricer", "jdbc:postgresql://db/repricer"])
    func database_ofATextThatIsNoConnectionString_isRefusedUnprinted(text: String) async {
        let outcome = await run("status", environment: ["REPRICER_DATABASE_URL": text])

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("neither a URI"))
        #expect(!outcome.messages.contains("db/repricer"))
    }

    /// Waiting helps nobody whose setting is wrong.
    @Test(arguments: ["sslmode=bogus", "port=abc", "target_session_attrs=bogus"])
    func database_ofAWordThatLibpqDoesNotKnow_isASettingThatIsWrong(pair: String) async {
        let outcome = await run(
            "status", environment: ["REPRICER_DATABASE_URL": "host=/nowhere \(pair)"])

        #expect(outcome.code == .failed, "\(outcome.messages)")
        #expect(outcome.messages.contains("cannot be used: invalid"))
    }

    /// What a schema of another release says of app and users may mean something else.
    @Test func configCheck_besideASchemaForNewerPrograms_saysNothingOfWhatIsInIt() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            INSERT INTO repricer.schema_migrations (version, name, checksum, is_breaking, applied_at, finished_at)
            VALUES (99, 'breaks', '', true, now(), now())
            """)
        await owner.close()
        let ana = [
            "REPRICER_DATABASE_URL": try await TestDatabase.login(
                "ana", memberOf: ["repricer_pricing"])
        ]

        let check = await run("config", "check", "--for", "pricing", environment: ana)

        #expect(check.code == .failed, "\(check.messages)")
        for name in ["app of the database", "finance users"] {
            let line = check.output.split(separator: "\n").first { $0.hasPrefix(name) } ?? ""
            #expect(line.contains("not tried"), "\(check.output)")
        }
    }
}

/// Files of settings that hold the database's password.
@Suite struct EnvironmentFileRightsTests {
    private static func print(_ text: String, mode: Int) async throws -> (Outcome, path: String) {
        let scratch = try ScratchFolder()
        let path = try scratch.file("some.env", text)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return (await run("config", "print", "--env-file", path), path)
    }

    @Test(arguments: [
        "REPRICER_DATABASE_URL=postgresql://ana:secret@db/repricer",
        "REPRICER_DATABASE_URL=\"host=db password = secret user=ana\"",
        "REPRICER_DATABASE_URL=postgresql://db/repricer?user=ana&password=secret",
        "PGPASSWORD=secret",
    ])
    func file_withAPassword_isRefusedWhenOthersMayReadIt(line: String) async throws {
        for mode in [0o644, 0o640, 0o604, 0o660] {
            let (refused, path) = try await Self.print("PGUSER=ana\n\(line)\n", mode: mode)
            let name = line.prefix { $0 != "=" }
            #expect(refused.code == .failed)
            #expect(refused.output.isEmpty)
            #expect(
                refused.messages
                    == "\(path):2: \(name) holds a password, and the file can be read by others (mode "
                    + "\(String(mode, radix: 8))); chmod 600 \(path)\n")
        }
        #expect(try await Self.print(line, mode: 0o600).0.code == .done)
    }

    @Test(arguments: [
        "REPRICER_DATABASE_URL=postgresql:///repricer?host=/run&user=ana", "PGPASSWORD=",
    ])
    func file_withoutAPassword_isReadAsItIs(line: String) async throws {
        #expect(try await Self.print(line, mode: 0o644).0.code == .done)
    }
}
