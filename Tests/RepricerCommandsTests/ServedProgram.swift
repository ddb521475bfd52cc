import Foundation
import Synchronization
import Testing

/// `repricer serve --only receiver` as a process.
final class ServedProgram: Sendable {
    private let process: Mutex<Process>
    private let identifier: Int32
    private let messages = Pipe()

    /// Built beside the test bundle.
    static var executable: URL {
        URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appendingPathComponent("repricer")
    }

    init(roots: String, database: String, _ more: [String: String] = [:]) throws {
        let process = Process()
        process.executableURL = Self.executable
        process.arguments = ["serve", "--only", "receiver"]
        process.environment = [
            "REPRICER_DATABASE_URL": database, "REPRICER_BUNDLE_ID": "com.example.app",
            "REPRICER_ENVIRONMENT": "Sandbox", "REPRICER_ROOT_CERTIFICATES": roots,
            "REPRICER_LISTEN": "127.0.0.1:0",
        ].merging(more) { _, new in new }
        process.standardError = messages
        process.standardInput = FileHandle.nullDevice
        try process.run()
        identifier = process.processIdentifier
        self.process = Mutex(process)
    }

    /// Read from the log, once the program serves.
    func port() throws -> Int {
        let log = try log(until: "message=serving")
        let match = try #require(log.firstMatch(of: /message=listening port=([0-9]+)/))
        return try #require(Int(match.1))
    }

    /// What the program logged since the last call, once `text` is in it.
    @discardableResult
    func log(until text: String) throws -> String {
        var log = ""
        while !log.contains(text) {
            let more = messages.fileHandleForReading.availableData
            guard !more.isEmpty else { throw POSIXError(.ECHILD) }
            log += String(decoding: more, as: UTF8.self)
        }
        return log
    }

    func send(signal: Int32) { kill(identifier, signal) }

    /// As `kill -9`; returns when the process is gone.
    func killAtOnce() {
        kill(identifier, SIGKILL)
        process.withLock { $0.waitUntilExit() }
    }
}
