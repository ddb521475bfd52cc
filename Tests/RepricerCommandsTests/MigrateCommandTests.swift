import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

@Suite(.database) struct MigrateCommandTests {
    @Test func migrate_ofAnEmptyDatabase_appliesEachFileOnce() async throws {
        let environment = ["REPRICER_DATABASE_URL": try await TestDatabase.makeEmptyDatabase()]
        let folder = RepositoryFiles.path("Migrations")

        let before = await run("plan", "/dev/null", environment: environment)
        let pending = await run(
            "migrate", "status", "--migrations", folder, environment: environment)
        let first = await run("migrate", "--migrations", folder, environment: environment)
        let second = await run("migrate", "--migrations", folder, environment: environment)
        let after = await run(
            "migrate", "status", "--migrations", folder, environment: environment)

        #expect(before.code != .done)
        #expect(pending.code == .failed)
        #expect(pending.output.contains("pending"))
        #expect(first.code == .done)
        #expect(first.output.hasPrefix("applied 0001_"))
        #expect(second.output.isEmpty)
        #expect(second.messages.contains("nothing to do"))
        #expect(after.code == .done)
        #expect(!after.output.contains("pending"))
    }

    @Test func migrate_ofADatabaseThatIsNotUTF8_appliesNothing() async throws {
        let admin = try await TestDatabase.connect()
        let name = "latin_\(UInt32.random(in: .min ... .max))"
        try await admin.script(
            "CREATE DATABASE \(name) TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        let url = TestDatabase.url.replacing(/\/\/\/[^?]+/, with: "///\(name)")

        let outcome = await run(
            "migrate", "--migrations", RepositoryFiles.path("Migrations"),
            environment: ["REPRICER_DATABASE_URL": url])
        try await admin.script("DROP DATABASE \(name)")
        await admin.close()

        #expect(outcome.code == .approvalNeededOrRefused)
        #expect(outcome.output.isEmpty)
        #expect(
            outcome.messages.contains("a database of the encoding UTF8: \(name) has LATIN1"),
            "\(outcome.messages)")
    }

    /// A backup reads the tables for hours. The schema is complete without the months to come, which `serve` makes.
    @Test func migrate_besideALongRead_doesNotFailForTheComingMonths() async throws {
        let url = try await TestDatabase.makeEmptyDatabase()
        let words = [
            "migrate", "--migrations", RepositoryFiles.path("Migrations"), "--patience", "1s",
        ]
        let environment = ["REPRICER_DATABASE_URL": url]
        let first = await run(words, environment: environment)
        let reader = try await PostgresConnection.connect(url, applicationName: "backup")
        try await reader.script(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM repricer.notifications, repricer.price_change_history"
        )

        let beside = await run(words, environment: environment) {
            $0.realClock = ManualClock(1_830_000_000_000)
        }
        try await reader.script("ROLLBACK")
        await reader.close()
        let after = await run(words, environment: environment) {
            $0.realClock = ManualClock(1_830_000_000_000)
        }

        #expect(first.code == .done)
        #expect(beside.code == .done, "\(beside.messages)")
        #expect(beside.messages.contains("the coming months are not made"), "\(beside.messages)")
        #expect(after.code == .done && !after.messages.contains("not made"), "\(after.messages)")
    }

    /// It binds the database for good: a word that is wrong is not taken for none.
    @Test(arguments: [
        ("REPRICER_ENVIRONMENT", "production"), ("REPRICER_BUNDLE_ID", "a b"),
        ("REPRICER_CLOCK", "abc"),
    ])
    func migrate_withASettingThatIsWrong_appliesNothing(variable: String, value: String)
        async throws
    {
        let environment = [
            "REPRICER_DATABASE_URL": try await TestDatabase.makeEmptyDatabase(), variable: value,
        ]

        let outcome = await run(
            "migrate", "--migrations", RepositoryFiles.path("Migrations"), environment: environment)

        #expect(outcome.code == .failed)
        #expect(outcome.output.isEmpty)
        #expect(outcome.messages.contains("\(variable): "))
    }

    /// A right of the database, which no clone has: so it is asked of one that was migrated.
    @Test func migrate_ofAnEmptyDatabase_letsOnlyMembersConnect() async throws {
        let url = try await TestDatabase.makeEmptyDatabase()
        _ = await run(
            "migrate", "--migrations", RepositoryFiles.path("Migrations"),
            environment: ["REPRICER_DATABASE_URL": url])
        func outcome(
            of verb: [String], as name: String, in roles: [String]
        ) async throws -> Outcome {
            _ = try await TestDatabase.login(name, memberOf: roles)
            let user = url.replacing("user=postgres", with: "user=\(TestDatabase.loginName(name))")
            return await run(
                verb, environment: ["REPRICER_DATABASE_URL": user])
        }

        let stranger = try await outcome(of: ["status"], as: "stranger", in: [])
        for role in ["repricer_pricing", "repricer_service", "repricer_finance"] {
            let outcome = try await outcome(of: ["report", "batch_summary"], as: role, in: [role])
            #expect(outcome.code == .done, "\(role): \(outcome.messages)")
        }

        #expect(stranger.code == .approvalNeededOrRefused)
        #expect(stranger.messages.contains("permission denied for database"))
        #expect(stranger.messages.contains("needs GRANT repricer_pricing"))
    }

    /// It would fill the disk, and no retention would empty it.
    @Test(arguments: ["TEMPORARY TABLE t", "TABLE t", "TABLE report.t", "SCHEMA s"])
    func finance_makesNoTable(what: String) async throws {
        let url = try await TestDatabase.makeEmptyDatabase()
        _ = await run(
            "migrate", "--migrations", RepositoryFiles.path("Migrations"),
            environment: ["REPRICER_DATABASE_URL": url])
        _ = try await TestDatabase.login("fiona", memberOf: ["repricer_finance"])
        let fiona = try await PostgresConnection.connect(
            url.replacing("user=postgres", with: "user=\(TestDatabase.loginName("fiona"))"),
            applicationName: "test")

        let error = await #expect(throws: PostgresError.self) {
            try await fiona.script("CREATE \(what)\(what.hasSuffix("t") ? " (a integer)" : "")")
        }
        await fiona.close()
        #expect(error?.sqlState == .insufficientPrivilege, "\(String(describing: error))")
    }

    /// Whoever reads a report by plain SQL has a session that no product has set up.
    @Test func migrate_ofAnEmptyDatabase_letsNoReportBeCompiled() async throws {
        let url = try await TestDatabase.makeEmptyDatabase()
        _ = await run(
            "migrate", "--migrations", RepositoryFiles.path("Migrations"),
            environment: ["REPRICER_DATABASE_URL": url])

        let owner = try await PostgresConnection.connect(url, applicationName: "test")
        let settings = try await owner.query(
            """
            SELECT s.setconfig::text AS settings FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
            WHERE s.setrole = 0 AND d.datname = current_database()
            """
        ).map { try $0.text("settings") }
        await owner.close()

        #expect(settings == ["{jit=off}"])
    }

    /// Half-way it would leave the database open to everybody: the server only warns then.
    @Test func migrate_withoutTheRights_namesEachAndTheStatementThatGivesIt() async throws {
        let url = try await TestDatabase.makeEmptyDatabase()
        _ = try await TestDatabase.login("ana", memberOf: [])
        let name = TestDatabase.loginName("ana")
        let environment = [
            "REPRICER_DATABASE_URL": url.replacing("user=postgres", with: "user=\(name)")
        ]
        let folder = RepositoryFiles.path("Migrations")
        let admin = try await TestDatabase.connect()

        let first = await run("migrate", "--migrations", folder, environment: environment)
        let statements = try #require(first.messages.split(separator: "of the database: ").last)
        try await admin.script(String(statements))
        let second = await run("migrate", "--migrations", folder, environment: environment)
        await admin.close()

        #expect(first.code == .approvalNeededOrRefused)
        #expect(first.output.isEmpty)
        #expect(first.messages.contains("lacks CREATEROLE"))
        #expect(first.messages.contains("ALTER ROLE \(name) CREATEROLE;"), "\(first.messages)")
        #expect(first.messages.contains("OWNER TO \(name);"))
        #expect(second.code == .done, "\(second.messages)")
    }

    /// Who owns the database alone may not read what another owner has made in it.
    @Test func migrate_ofAnothersSchema_namesItsOwnerAndNotARoleOfAnalysts() async throws {
        let url = try await TestDatabase.makeEmptyDatabase()
        let folder = RepositoryFiles.path("Migrations")
        _ = await run(
            "migrate", "--migrations", folder, environment: ["REPRICER_DATABASE_URL": url])
        _ = try await TestDatabase.login("ana", memberOf: [])
        let name = TestDatabase.loginName("ana")
        let database = try #require(url.firstMatch(of: /postgresql:\/\/\/(?<name>[^?]+)/)).name
        let admin = try await TestDatabase.connect()
        try await admin.script("ALTER DATABASE \(database) OWNER TO \(name)")
        await admin.close()

        let outcome = await run(
            "migrate", "--migrations", folder,
            environment: [
                "REPRICER_DATABASE_URL": url.replacing("user=postgres", with: "user=\(name)")
            ])

        #expect(outcome.code == .approvalNeededOrRefused)
        #expect(
            outcome.messages.contains("ownership of the schema repricer, which postgres made"),
            "\(outcome.messages)")
        // A member of a superuser would be one.
        #expect(outcome.messages.contains("run it as postgres, who is a superuser"))
        #expect(!outcome.messages.contains("GRANT postgres"))
        #expect(!outcome.messages.contains("repricer_pricing"))
    }

    @Test(arguments: ["dbname=no_such", "user=no_such"])
    func command_ofWhatIsNotThere_saysHowItIsMade(_ other: String) async throws {
        let parts = other.split(separator: "=")
        let url = TestDatabase.url.replacing(
            parts[0] == "user" ? /user=[a-z]+/ : /\/\/\/[^?]+/,
            with: parts[0] == "user" ? other : "///\(parts[1])")
        let outcome = await run(
            "migrate", "--migrations", RepositoryFiles.path("Migrations"),
            environment: ["REPRICER_DATABASE_URL": url])

        #expect(outcome.code == .unavailable)
        #expect(
            outcome.messages.contains("does not exist; correct REPRICER_DATABASE_URL"),
            "\(outcome.messages)")
    }

    @Test func command_onAnEmptyDatabase_asksForMigrate() async throws {
        let environment = ["REPRICER_DATABASE_URL": try await TestDatabase.makeEmptyDatabase()]

        let outcome = await run("status", environment: environment)

        #expect(outcome.code == .failed)
        #expect(
            outcome.messages
                == "repricer: schema: the database is not migrated; run `repricer migrate` as the "
                + "owner of the database\n")
    }

    @Test(arguments: ["status", "migrate", "timeline", "report"])
    func command_whenTheDatabaseIsAway_exits6(_ verb: String) async {
        let rest = ["timeline": ["1"], "report": ["batch_summary"]][verb] ?? []

        let outcome = await run(
            [verb] + rest,
            environment: [
                "REPRICER_DATABASE_URL": "host=/nonexistent user=x dbname=y",
                "REPRICER_MIGRATIONS": RepositoryFiles.path("Migrations"),
            ])

        #expect(outcome.code == .unavailable, "\(outcome.messages)")
        #expect(outcome.messages.split(separator: "\n").count == 1)
    }

    /// A service's log stays JSON to its last line.
    @Test func failure_whereLogLinesAreJSON_isOneOfThem() async throws {
        let outcome = await run(
            ["status", "--log-format", "json"],
            environment: ["REPRICER_DATABASE_URL": "host=/nonexistent user=x dbname=y"])

        let lines = outcome.messages.split(separator: "\n")
        let line = try JSONSerialization.jsonObject(with: Data(#require(lines.first).utf8))
        let object = try #require(line as? [String: Any])
        #expect(outcome.code == .unavailable)
        #expect(lines.count == 1)
        #expect(object["level"] as? String == "error")
        #expect((object["message"] as? String)?.hasPrefix("the database cannot be reached") == true)
    }

    @Test func migrations_areFoundAboveTheProgram() throws {
        let memory = OutputMemory()
        let harness = Dependencies(
            programPath: RepositoryFiles.path(".build/debug/repricer"), workingDirectory: "/",
            output: memory.sink, messages: memory.sink)

        let folder = try MigrationsFolder.find(
            option: nil, configuration: Configuration(), dependencies: harness)

        #expect(folder == RepositoryFiles.path("Migrations"))
    }

    /// Another program's folder of the same name lies nearer to the program than ours.
    @Test func migrations_ofAnotherProgram_arePassedOver() async throws {
        let above = NSTemporaryDirectory() + "repricer-" + UUID().uuidString
        let near = above + "/service"
        defer { try? FileManager.default.removeItem(atPath: above) }
        for (folder, file) in [
            (above, MigrationsFolder.firstFile), (near, "0001_customers.sql"),
        ] {
            try FileManager.default.createDirectory(
                atPath: folder + "/Migrations", withIntermediateDirectories: true)
            try "-- breaking: no\nSELECT 1;\n".write(
                toFile: folder + "/Migrations/" + file, atomically: true, encoding: .utf8)
        }
        let environment = ["REPRICER_DATABASE_URL": try await TestDatabase.makeEmptyDatabase()]

        let outcome = await run("migrate", environment: environment) {
            $0.programPath = near + "/repricer"
        }

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output == "applied \(MigrationsFolder.firstFile)\n")
        #expect(outcome.messages == "repricer: schema version 1, as \(above)/Migrations has it\n")
    }

    @Test func migrations_whenNowhere_areAskedFor() async {
        let outcome = await run("migrate")

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("give --migrations DIR or set REPRICER_MIGRATIONS"))
    }

    @Test func migrate_ofAnEmptyFolder_fails() async throws {
        let folder = try ScratchFolder()

        let outcome = await run("migrate", "--migrations", folder.path)

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("migrations.none"))
    }
}
