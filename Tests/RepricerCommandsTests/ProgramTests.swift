import Foundation
import Testing

/// The program itself, as a process: exit codes, streams, settings from the real environment.
@Suite struct ProgramTests {
    private struct Ended: Equatable {
        let code: Int32
        let output: String
        let messages: String
    }

    private func program(
        _ arguments: [String], environment: [String: String] = [:]
    ) throws -> Ended {
        let process = Process()
        // Built beside the test bundle.
        let folder = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent()
        process.executableURL = folder.appendingPathComponent("repricer")
        process.arguments = arguments
        process.environment = environment
        let (output, messages) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = messages
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let written = output.fileHandleForReading.readDataToEndOfFile()
        let said = messages.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Ended(
            code: process.terminationStatus, output: String(decoding: written, as: UTF8.self),
            messages: String(decoding: said, as: UTF8.self))
    }

    @Test func program_whenDone_writesDataOnOutputAndExits0() throws {
        #expect(
            try program(["version"]) == Ended(code: 0, output: "repricer 0.1.0\n", messages: ""))
    }

    @Test func program_onAWrongCommandLine_writesMessagesOnlyAndExits2() throws {
        let ended = try program(["verison"])

        #expect(ended.code == 2)
        #expect(ended.output.isEmpty)
        #expect(
            ended.messages
                == "repricer: unknown command \"verison\"; did you mean \"version\"?\n"
                + "usage: repricer COMMAND [ARGUMENT...]\n")
    }

    @Test func program_readsTheEnvironmentOverTheFile() throws {
        let path = NSTemporaryDirectory() + UUID().uuidString + ".env"
        try "REPRICER_KEY_ID=fromfile\nREPRICER_LISTEN=0.0.0.0:1\n".write(
            toFile: path, atomically: true, encoding: .utf8)

        let ended = try program(
            ["config", "print", "--env-file", path], environment: ["REPRICER_KEY_ID": "fromenv"])

        #expect(ended.code == 0)
        #expect(ended.output.contains("fromenv"))
        #expect(!ended.output.contains("fromfile"))
        #expect(ended.output.contains("\(path):2"))
    }

    @Test func program_whenTheDatabaseIsAway_exits6() throws {
        let ended = try program(
            ["status"], environment: ["REPRICER_DATABASE_URL": "host=/nonexistent"])

        #expect(ended.code == 6)
        #expect(ended.output.isEmpty)
        #expect(ended.messages.hasPrefix("repricer: the database cannot be reached: "))
    }
}
