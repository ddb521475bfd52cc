import Foundation
import TestSupport
import Testing

/// The program itself, as a process: exit codes, streams, settings from the real environment.
@Suite struct ProgramTests {
    private func program(
        _ arguments: [String], environment: [String: String] = [:]
    ) async throws -> Program.End {
        try await Program.run(
            Program.built("repricer"), arguments, environment: environment)
    }

    @Test func program_whenDone_writesDataOnOutputAndExits0() async throws {
        #expect(
            try await program(["version"])
                == Program.End(
                    code: 0, output: "repricer 0.1.0 (commit not known, schema 20)\n", messages: ""
                ))
    }

    @Test func program_onAWrongCommandLine_writesMessagesOnlyAndExits2() async throws {
        let ended = try await program(["verison"])

        #expect(ended.code == 2)
        #expect(ended.output.isEmpty)
        #expect(
            ended.messages
                == "repricer: unknown command \"verison\"; did you mean \"version\"?\n"
                + "usage: repricer COMMAND [ARGUMENT...]\n")
    }

    @Test func program_readsTheEnvironmentOverTheFile() async throws {
        let scratch = try ScratchFolder()
        let path = try scratch.file(
            "service.env", "REPRICER_KEY_ID=fromfile\nREPRICER_LISTEN=0.0.0.0:1\n")

        let ended = try await program(
            ["config", "print", "--env-file", path], environment: ["REPRICER_KEY_ID": "fromenv"])

        #expect(ended.code == 0)
        #expect(ended.output.contains("fromenv"))
        #expect(!ended.output.contains("fromfile"))
        #expect(ended.output.contains("\(path):2"))
    }

    @Test func program_whenTheDatabaseIsAway_exits6() async throws {
        let ended = try await program(
            ["status"], environment: ["REPRICER_DATABASE_URL": "host=/nonexistent"])

        #expect(ended.code == 6)
        #expect(ended.output.isEmpty)
        #expect(ended.messages.hasPrefix("repricer: the database cannot be reached: "))
    }
}
