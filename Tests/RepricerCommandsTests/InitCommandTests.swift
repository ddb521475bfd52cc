import Foundation
import Synchronization
import TestSupport
import Testing

@testable import RepricerCommands

/// `init`: what a first day needs, written once.
@Suite struct InitCommandTests {
    private static let options = [
        "--environment", "Production", "--bundle-id", "com.example.app", "--app-apple-id", "123",
        "--issuer-id", "57246542-96fe-1a63-e053-0824d011072a", "--key-id", "2X9R4HXF34",
        "--key-file", "keys/AuthKey 1.p8", "--database",
        "postgresql://db.example.com/prices?sslmode=require",
        "--analyst", "ana", "--approver", "ben", "--finance", "fiona",
    ]
    private static let names = [
        "1-database.sql", "2-logins.sql", "owner.env", "service.env", "analyst.env", "approver.env",
        "finance.env",
    ]

    private static func text(_ folder: ScratchFolder, _ name: String) throws -> String {
        try String(contentsOfFile: "\(folder.path)/setup/\(name)", encoding: .utf8)
    }

    private static func answering(_ lines: [String]) -> @Sendable () -> String? {
        let rest = Mutex(lines[...])
        return { rest.withLock { $0.popFirst() } }
    }

    @Test func init_withOptions_writesFilesThatEachHoldWhatTheyNeed() async throws {
        let folder = try ScratchFolder()

        let outcome = await run(["init", "setup"] + Self.options) {
            $0.workingDirectory = folder.path
        }

        #expect(outcome.code == .done, "\(outcome.messages)")
        for name in Self.names {
            let path = "\(folder.path)/setup/\(name)"
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
            #expect(mode as? Int == 0o600, "\(name)")
            #expect(outcome.output.contains(name))
        }
        let settings = try Self.text(folder, "service.env")
        #expect(settings.contains("\nREPRICER_KEY_FILE=\"\(folder.path)/keys/AuthKey 1.p8\"\n"))
        var passwords: Set<Substring> = []
        for (file, user, more) in [
            ("analyst", "ana", false), ("approver", "ben", false), ("finance", "fiona", false),
            ("owner", "repricer_owner", false), ("service", "repricerd", true),
        ] {
            let lines = try Self.text(folder, "\(file).env").split(separator: "\n")
                .filter { !$0.hasPrefix("#") }
            let line = try #require(lines.first { $0.hasPrefix("REPRICER_DATABASE_URL=") })
            let address = try #require(
                line.wholeMatch(
                    of:
                        /REPRICER_DATABASE_URL=postgresql:\/\/(.+):([A-Za-z0-9_-]{24})@db.example.com\/prices\?sslmode=require/
                ))
            #expect(address.1 == user)
            #expect(more || lines.count == 1)
            passwords.insert(address.2)
        }
        #expect(passwords.count == 5)
        let read = await run("config", "print", "--env-file", "\(folder.path)/setup/service.env")
        #expect(read.code == .done)
        #expect(read.output.contains("\(folder.path)/keys/AuthKey 1.p8"))
        #expect(
            try Self.text(folder, "2-logins.sql").contains(
                "CONNECTION LIMIT 5 IN ROLE repricer_finance"))
        let sql = try Self.text(folder, "1-database.sql") + Self.text(folder, "2-logins.sql")
        #expect(sql.matches(of: /PASSWORD 'SCRAM-SHA-256\$4096:/).count == 5)
        #expect(!passwords.contains { sql.contains($0) })
        #expect(
            outcome.output.contains(
                "psql -f setup/1-database.sql 'postgresql://db.example.com/postgres?sslmode=require'"
            ))
        #expect(outcome.output.contains(AppleRoot.sha256))
        #expect(outcome.output.contains("repricer migrate --env-file setup/owner.env"))
    }

    /// No answer was in vain because a folder above is missing; and what fails in the middle is not in the way of the
    /// next try.
    @Test func init_makesTheFoldersAbove_andLeavesNoHalfOfTheFiles() async throws {
        let folder = try ScratchFolder()
        let files = FileManager.default

        let deep = await run(["init", "a/b/setup"] + Self.options) {
            $0.workingDirectory = folder.path
        }
        try files.createDirectory(
            atPath: folder.path + "/half", withIntermediateDirectories: false)
        try files.createSymbolicLink(
            atPath: folder.path + "/half/finance.env", withDestinationPath: "/nowhere/x")
        let half = await run(["init", "half"] + Self.options) { $0.workingDirectory = folder.path }

        #expect(deep.code == .done, "\(deep.messages)")
        #expect(files.fileExists(atPath: folder.path + "/a/b/setup/service.env"))
        #expect(half.code == .failed)
        #expect(!files.fileExists(atPath: folder.path + "/half/service.env"))
    }

    @Test(arguments: [
        ("--analyst", "user"), ("--approver", "public"), ("--finance", "pg_monitor"),
        ("--service", "repricer_service"), ("--owner", "postgres"),
        ("--database", "postgresql://db.example.com/select"),
    ])
    func init_withANameThatPostgreSQLKeeps_writesNothing(option: String, name: String) async throws
    {
        let folder = try ScratchFolder()

        var options = Self.options
        if let place = options.firstIndex(of: option) {
            options.removeSubrange(place...place + 1)
        }

        let outcome = await run(["init", "setup", option, name] + options) {
            $0.workingDirectory = folder.path
        }

        #expect(outcome.code != .done)
        #expect(outcome.messages.contains("cannot be \"\(name)\""), "\(outcome.messages)")
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/setup/service.env"))
    }

    @Test func init_onATerminal_asksForTheRest_andAgainAfterAWrongAnswer() async throws {
        let folder = try ScratchFolder()

        let outcome = await run("init", "setup", "--bundle-id", "com.example.app") {
            $0.workingDirectory = folder.path
            $0.isInputTerminal = true
            $0.readAnswer = Self.answering([
                "Prod", "sandbox", "", "57246542-96fe-1a63-e053-0824d011072a", "2X9R4HXF34",
                " key.p8 ", "", "ana", "ana", "ben", "",
            ])
        }

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.messages.contains("\"Prod\" is neither Sandbox nor Production"))
        #expect(outcome.messages.contains("cannot be \"ana\", who has another part already"))
        // Apple's test environment has no app id to ask for.
        #expect(!outcome.messages.contains("Apple ID"))
        #expect(
            try Self.text(folder, "finance.env").contains(
                /postgresql:\/\/finance:[^@]+@localhost\/repricer\n/))
        #expect(try Self.text(folder, "service.env").contains("REPRICER_ENVIRONMENT=Sandbox\n"))
    }

    /// No shell reads an answer, and one reads what is printed.
    @Test func init_ofPathsThatAShellWouldRead_meansWhatAPersonMeans() async throws {
        let folder = try ScratchFolder()

        let outcome = await run(
            "init", "my setup", "--environment", "Sandbox", "--bundle-id", "com.example.app",
            environment: ["HOME": "/home/ana"]
        ) {
            $0.workingDirectory = folder.path
            $0.isInputTerminal = true
            $0.readAnswer = Self.answering([
                "57246542-96fe-1a63-e053-0824d011072a", "2X9R4HXF34", "~/key.p8", "", "", "", "",
            ])
        }

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output.contains("repricer migrate --env-file 'my setup/owner.env'\n"))
        #expect(
            outcome.output.contains("sudo -u postgres psql postgres < 'my setup/1-database.sql'\n"))
        let settings = try String(
            contentsOfFile: "\(folder.path)/my setup/service.env", encoding: .utf8)
        #expect(settings.contains("REPRICER_KEY_FILE=/home/ana/key.p8\n"))
    }

    @Test func init_whereAFileIsThere_writesNothing() async throws {
        let folder = try ScratchFolder()
        try FileManager.default.createDirectory(
            atPath: "\(folder.path)/setup", withIntermediateDirectories: true)
        _ = try folder.file("setup/analyst.env", "mine\n")

        let outcome = await run(["init", "\(folder.path)/setup"] + Self.options)

        #expect(outcome.code == .conflict)
        #expect(outcome.messages.contains("setup/analyst.env is there already"))
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/setup") == [
                "analyst.env"
            ])
        #expect(try Self.text(folder, "analyst.env") == "mine\n")
    }

    @Test func init_whereNobodyCanBeAsked_namesAllThatIsMissing() async throws {
        let outcome = await run("init", "/nonexistent/setup", "--environment", "Production")

        #expect(outcome.code == .usage)
        #expect(
            outcome.messages.hasPrefix(
                "repricer: init: nobody can be asked here; give --bundle-id, --app-apple-id, --issuer-id, --key-id, --key-file\n"
            ))
    }

    @Test(arguments: [
        ("--bundle-id", "a b", "is no bundle identifier"),
        ("--app-apple-id", "x", "is no positive whole number"),
        ("--analyst", "Ana Maria", "is of small letters"),
        ("--analyst", "repricerd", "has another part already"),
        ("--database", "postgresql://ana:secret@db/x", "without user and password"),
        ("--database", "host=db dbname=x", "without user and password"),
        ("--database", "postgresql://db/$(reboot)", "without user and password"),
    ])
    func init_ofAWrongOption_saysWhatIsWrong(_ option: String, _ value: String, _ wrong: String)
        async
    {
        var options = Self.options
        if let place = options.firstIndex(of: option) { options[place + 1] = value }

        let outcome = await run(["init", "/nonexistent/setup"] + options)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains(wrong), "\(outcome.messages)")
    }

    /// The part that meets the name takes its default.
    @Test(arguments: [("--service", "repricer_owner"), ("--analyst", "repricer_owner")])
    func init_ofANameThatAnotherPartTakesByDefault_writesNothing(
        _ option: String, _ name: String
    ) async {
        var options = Self.options
        if let place = options.firstIndex(of: option) {
            options[place + 1] = name
        } else {
            options += [option, name]
        }

        let outcome = await run(["init", "/nonexistent/setup"] + options)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains(option), "\(outcome.messages)")
        #expect(outcome.messages.contains("each needs a user of its own"), "\(outcome.messages)")
    }

    @Test func init_intoAFolderThatCannotBeMade_saysSo() async {
        let outcome = await run(["init", "/proc/setup"] + Self.options)

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("/proc/setup cannot be written: "))
    }

    @Test func init_whenTheAnswersEnd_writesNothing() async throws {
        let folder = try ScratchFolder()

        let outcome = await run("init", "setup") {
            $0.workingDirectory = folder.path
            $0.isInputTerminal = true
            $0.readAnswer = { nil }
        }

        #expect(outcome.code == .interrupted)
        #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/setup"))
    }
}
