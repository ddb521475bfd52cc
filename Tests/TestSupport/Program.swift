package import Foundation
import Glibc
import Synchronization

/// A program as a process. It is killed when nobody holds it any more.
package final class Program: Sendable {
    /// How it ended, and what it wrote.
    package struct End: Equatable, Sendable {
        /// nil: a signal ended it.
        package var code: Int32?
        package var output: String
        package var messages: String

        package init(code: Int32?, output: String, messages: String) {
            self.code = code
            self.output = output
            self.messages = messages
        }
    }

    private let identifier: Int32
    private let output: Collector
    private let messages: Collector
    private let fate = Fate()

    /// A product of this package, which is built beside the test bundle.
    package static func built(_ name: String) -> URL {
        URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appendingPathComponent(name)
    }

    /// Starts it, with nothing to read.
    package init(
        _ executable: URL, _ arguments: [String], environment: [String: String]
    ) throws {
        let process = Process()
        process.executableURL = executable
        process.arguments = arguments
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        let (output, messages) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = messages
        process.terminationHandler = { [fate] in
            fate.end($0.terminationReason == .exit ? $0.terminationStatus : nil)
        }
        try process.run()
        identifier = process.processIdentifier
        self.output = Collector(output.fileHandleForReading)
        self.messages = Collector(messages.fileHandleForReading)
    }

    deinit { kill() }

    /// Runs it to its end.
    package static func run(
        _ executable: URL, _ arguments: [String], environment: [String: String] = [:],
        within time: Duration = .seconds(60)
    ) async throws -> End {
        try await Program(executable, arguments, environment: environment).end(within: time)
    }

    /// Runs a command of the system, as whoever tests would, and blocks until its end: for suites that have a thread of
    /// their own.
    ///
    /// - Returns: its output.
    /// - Throws: `CommandFailed` unless it exits with 0.
    @discardableResult
    package static func command(_ words: [String], in folder: String? = nil) throws -> Data {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = words
        process.currentDirectoryURL = folder.map { URL(fileURLWithPath: $0) }
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw CommandFailed(words: words) }
        return data
    }

    package func send(signal: Int32) {
        fate.unlessOver { Glibc.kill(identifier, signal) }
    }

    /// As `kill -9`; it may still be there for a moment.
    package func kill() { send(signal: SIGKILL) }

    /// Waits for its end, and for all it wrote.
    package func end(within time: Duration = .seconds(60)) async throws -> End {
        do {
            try await eventually("the end of the program", within: time) {
                fate.isOver && output.isWhole && messages.isWhole
            }
        } catch is NeverCame {
            throw NeverCame(what: "the end of the program, which said: \(messages.text)")
        }
        return End(code: fate.code, output: output.text, messages: messages.text)
    }

    /// What it said on standard error so far.
    package var saidSoFar: String { messages.text }

    /// What it said on standard error after what the last call returned, up to and with `text`, for which it waits.
    @discardableResult
    package func said(until text: String) async throws -> String {
        var found = ""
        do {
            try await eventually(text) {
                // Asked in this order, for it may say so with its last breath.
                let isWhole = messages.isWhole
                if let said = messages.take(until: text) {
                    found = said
                    return true
                }
                if isWhole { throw NeverCame(what: text) }
                return false
            }
        } catch is NeverCame {
            throw NeverCame(what: "\"\(text)\" of a program, which said: \(messages.text)")
        }
        return found
    }
}

/// A command of the system did not do what a test needs.
package struct CommandFailed: Error {
    package var words: [String]
}

/// Whether a process is over. Its identifier may belong to another one then.
private final class Fate: Sendable {
    private let state = Mutex((isOver: false, code: Int32?.none))

    var isOver: Bool { state.withLock { $0.isOver } }
    var code: Int32? { state.withLock { $0.code } }

    func end(_ code: Int32?) {
        state.withLock { $0 = (true, code) }
    }

    func unlessOver(_ body: () -> Void) {
        state.withLock { if !$0.isOver { body() } }
    }
}

/// Reads one stream of a process on a thread of its own.
private final class Collector: Sendable {
    private let state = Mutex((data: Data(), taken: 0, isWhole: false))

    init(_ handle: FileHandle) {
        Thread.detachNewThread { [self] in
            while true {
                let more = handle.availableData
                state.withLock {
                    $0.data += more
                    $0.isWhole = more.isEmpty
                }
                if more.isEmpty { return }
            }
        }
    }

    var isWhole: Bool { state.withLock { $0.isWhole } }
    var text: String { state.withLock { String(decoding: $0.data, as: UTF8.self) } }

    /// What came after what was taken already, up to and with `text`; nil if that did not come yet.
    func take(until text: String) -> String? {
        state.withLock { state in
            let new = state.data.dropFirst(state.taken)
            guard let range = new.firstRange(of: Data(text.utf8)) else { return nil }
            state.taken = range.upperBound
            return String(decoding: new[..<range.upperBound], as: UTF8.self)
        }
    }
}
