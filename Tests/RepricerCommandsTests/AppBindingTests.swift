import Facts
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import RepricerCommands

/// A database belongs to one app and environment, for good.
@Suite(.database) struct AppBindingTests {
    private static func settings(_ bundle: String?, _ environment: String?) throws -> Configuration
    {
        var values: [String: String] = [:]
        values["REPRICER_BUNDLE_ID"] = bundle
        values["REPRICER_ENVIRONMENT"] = environment
        values["REPRICER_APP_APPLE_ID"] = "1234567890"
        return Configuration(settings: try Settings.load(environment: values, envFile: nil))
    }

    private static func connect() async throws -> PostgresConnection {
        try await PostgresConnection.connect(
            await TestDatabase.login("service", memberOf: ["repricer_service"]),
            applicationName: "test")
    }

    @Test func database_boundByItsFirstProgram_refusesEveryOtherApp() async throws {
        let connection = try await Self.connect()
        let ours = try Self.settings("com.example.app", "Production")

        try await AppCheck.check(ours, on: connection)
        try await AppCheck.bind(ours, on: connection)
        try await AppCheck.bind(ours, on: connection)

        for (bundle, environment, wrong) in [
            ("com.example.app", "Sandbox", "REPRICER_ENVIRONMENT"),
            ("com.example.other", "Production", "REPRICER_BUNDLE_ID"),
            ("com.example.other", "Sandbox", "REPRICER_BUNDLE_ID"),
            ("com.example.other", nil, "REPRICER_BUNDLE_ID"),
            (nil, "Sandbox", "REPRICER_ENVIRONMENT"),
        ] as [(String?, String?, String)] {
            let theirs = try Self.settings(bundle, environment)
            let refusal = await #expect(throws: CommandFailure.self) {
                try await AppCheck.bind(theirs, on: connection)
            }
            #expect(refusal?.code == .conflict)
            #expect(refusal?.message.hasPrefix(wrong + ": ") == true)
            #expect(
                refusal?.message.contains(
                    "is about com.example.app in Production, the settings name")
                    == true)
        }
        // A person's settings may name neither.
        try await AppCheck.check(Self.settings(nil, nil), on: connection)
        await connection.close()
    }

    @Test func service_cannotChangeTheBinding() async throws {
        let connection = try await Self.connect()
        try await AppCheck.bind(Self.settings("com.example.app", "Production"), on: connection)
        await #expect(throws: PostgresError.self) {
            try await connection.query("UPDATE repricer.app_binding SET bundle_id = 'x'")
        }
        await connection.close()
    }

    /// The settings that `init` writes for an analyst are right as they are: only the database knows nothing yet.
    @Test(arguments: [["plan", "a.csv"], ["submit", "a.csv", "--name", "spring"]])
    func planning_beforeTheServiceStarted_saysToStartIt(words: [String]) async throws {
        let url = try await TestDatabase.login("ana", memberOf: ["repricer_pricing"])

        let outcome = await run(words, environment: ["REPRICER_DATABASE_URL": url])

        #expect(outcome.code == .failed)
        #expect(
            outcome.messages.contains("the database does not know the app yet; start the service"),
            "\(outcome.messages)")
    }

    /// Who may read schema `report` alone asks there whose figures these are.
    @Test(arguments: [
        ["report", "money"], ["report", "--describe"], ["close-month", "2020-01"],
    ])
    func finance_withSettingsOfAnotherApp_isRefused(words: [String]) async throws {
        let service = try await Self.connect()
        try await AppCheck.bind(Self.settings("com.example.app", "Production"), on: service)
        await service.close()
        let url = try await TestDatabase.login(
            "fay", memberOf: ["repricer_finance", "repricer_finance_lead"])
        func outcome(_ more: [String: String]) async -> Outcome {
            await run(
                words,
                environment: more.merging(["REPRICER_DATABASE_URL": url]) { first, _ in first })
        }

        let sandbox = await outcome(["REPRICER_ENVIRONMENT": "Sandbox"])
        let other = await outcome(["REPRICER_BUNDLE_ID": "com.example.other"])
        let ours = await outcome(["REPRICER_BUNDLE_ID": "com.example.app"])
        let none = await outcome([:])

        for refused in [sandbox, other] {
            #expect(refused.code == .conflict, "\(refused.messages)")
            #expect(
                refused.messages.contains(
                    "this database is about com.example.app in Production"), "\(refused.messages)")
            #expect(refused.output == "")
        }
        #expect(ours.code == .done, "\(ours.messages)")
        // A month is closed once.
        #expect(none.code == (words[0] == "close-month" ? .conflict : .done), "\(none.messages)")
    }

    /// `report` says what the other commands say.
    @Test func login_thatTheDatabaseKeepsOut_isToldWhatItNeeds() async throws {
        let url = try await TestDatabase.login("eve", memberOf: [])
        let owner = try await TestDatabase.connect()
        let name = try await owner.query("SELECT current_database() AS name").one().text("name")
        try await owner.script("REVOKE CONNECT ON DATABASE \"\(name)\" FROM PUBLIC")
        await owner.close()

        let status = await run(["status"], environment: ["REPRICER_DATABASE_URL": url])
        let report = await run(["report", "money"], environment: ["REPRICER_DATABASE_URL": url])

        #expect(status.code == .approvalNeededOrRefused, "\(status.messages)")
        #expect(report.code == status.code)
        #expect(report.messages == status.messages)
    }
}
