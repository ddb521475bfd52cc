import Glibc
package import ServiceKit

/// All that a command touches outside itself. Tests build one in memory; the program builds `live()`.
package struct World: Sendable {
    package var environment: [String: String]
    /// Real path of the running program, to find what is installed beside it; nil when unknown.
    package var programPath: String?
    package var workingDirectory: String
    /// The machine's clock; commands ask the configured one, which may run on it.
    package var realClock: any WallClock
    /// Data: what a script reads.
    package var output: OutputSink
    /// Messages: what a person reads.
    package var messages: OutputSink
    /// Up to so many bytes of standard input; empty at its end.
    package var readInput: @Sendable (Int) throws(InputError) -> [UInt8]
    package var isOutputTerminal: Bool
    package var isMessagesTerminal: Bool
    /// Asked anew for each drawing, since a window can change.
    package var terminalColumns: @Sendable () -> Int
    /// SIGTERM and SIGINT; from the first call on they no longer end the process by themselves.
    package var terminations: @Sendable () -> AsyncStream<Int32>

    package init(
        environment: [String: String] = [:], programPath: String? = nil,
        workingDirectory: String = "/", realClock: any WallClock = SystemClock(),
        output: OutputSink, messages: OutputSink,
        readInput: @escaping @Sendable (Int) throws(InputError) -> [UInt8] = { _ in [] },
        isOutputTerminal: Bool = false, isMessagesTerminal: Bool = false,
        terminalColumns: @escaping @Sendable () -> Int = { 80 },
        terminations: @escaping @Sendable () -> AsyncStream<Int32> = { AsyncStream { _ in } }
    ) {
        self.environment = environment
        self.programPath = programPath
        self.workingDirectory = workingDirectory
        self.realClock = realClock
        self.output = output
        self.messages = messages
        self.readInput = readInput
        self.isOutputTerminal = isOutputTerminal
        self.isMessagesTerminal = isMessagesTerminal
        self.terminalColumns = terminalColumns
        self.terminations = terminations
    }

    /// Writes one line `repricer: …` for a person. A stream that is gone cannot be told so.
    package func say(_ message: String) {
        sayPlainly("repricer: \(message)\n")
    }

    package func sayPlainly(_ text: String) {
        // Nothing is left to report on when standard error itself is gone.
        try? messages.write(text)
    }
}

/// Standard input that cannot be read.
package struct InputError: Error, Equatable, CustomStringConvertible {
    package let reason: String

    package init(reason: String) {
        self.reason = reason
    }

    package var description: String { "standard input cannot be read: \(reason)" }
}

extension World {
    /// The process's own world.
    package static func live() -> World {
        World(
            environment: processEnvironment(), programPath: realPath("/proc/self/exe"),
            workingDirectory: realPath(".") ?? "/", output: .descriptor(STDOUT_FILENO),
            messages: .descriptor(STDERR_FILENO),
            readInput: { limit throws(InputError) in try readStandardInput(limit) },
            isOutputTerminal: isatty(STDOUT_FILENO) == 1,
            isMessagesTerminal: isatty(STDERR_FILENO) == 1,
            terminalColumns: { columns(of: STDERR_FILENO) },
            terminations: { Signals.terminations() })
    }
}

private func processEnvironment() -> [String: String] {
    var values: [String: String] = [:]
    var cursor = environ
    while let entry = cursor.pointee {
        let line = String(cString: entry)
        if let split = line.firstIndex(of: "=") {
            values[String(line[..<split])] = String(line[line.index(after: split)...])
        }
        cursor += 1
    }
    return values
}

private func realPath(_ path: String) -> String? {
    guard let resolved = realpath(path, nil) else { return nil }
    defer { free(resolved) }
    return String(cString: resolved)
}

private func readStandardInput(_ limit: Int) throws(InputError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: max(1, limit))
    while true {
        let count = read(STDIN_FILENO, &bytes, bytes.count)
        if count >= 0 { return Array(bytes.prefix(count)) }
        if errno == EINTR { continue }
        throw InputError(reason: String(cString: strerror(errno)))
    }
}

private func columns(of descriptor: Int32) -> Int {
    var size = winsize()
    guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
}
