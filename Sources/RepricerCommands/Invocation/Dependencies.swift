import Glibc
package import ServiceKit

/// Everything outside the process that a command uses. Tests build one in memory; the program builds `live()`.
package struct Dependencies: Sendable {
    package var environment: [String: String] = [:]
    /// The real path of the running program, used to find files installed beside it; nil when unknown.
    package var programPath: String?
    package var workingDirectory = "/"
    /// The machine's clock. Commands read the configured clock, which may be based on it.
    package var realClock: any WallClock = SystemClock()
    /// Standard output, for data that a script reads.
    package var output: OutputSink
    /// Standard error, for messages that a person reads.
    package var messages: OutputSink
    package var isInputTerminal = false
    /// The next line that a person types; nil at the end of the input.
    package var readAnswer: @Sendable () -> String? = { nil }
    package var isOutputTerminal = false
    package var isMessagesTerminal = false
    /// Work that takes less time than this shows no progress.
    package var progressAfter: Duration = .seconds(2)
    /// It is read again for each drawing, because a window can change.
    package var terminalSize: @Sendable () -> (columns: Int, rows: Int) = { (80, 24) }
    /// Shows a text in a pager. Returns false where the pager cannot be run.
    package var page: @Sendable (_ command: String, _ text: String) -> Bool = { _, _ in false }
    /// SIGTERM and SIGINT. From the first call on they no longer end the process by themselves.
    package var terminations: @Sendable () -> AsyncStream<Int32> = { AsyncStream { _ in } }
    /// How a command waits, in real time, before it tries again what another session holds.
    package var wait: Rounds.Wait = { try await Task.sleep(for: $0) }

    /// How long a command waits for a lock of another session. A decision on a large batch holds it for a minute or
    /// two.
    package var lockWait: Duration = .seconds(180)

    /// Writes one line `repricer: …` for a person, broken between words on a terminal. A failure is ignored, because
    /// there is nowhere to report it.
    package func say(_ message: String) {
        let line = "repricer: \(message)"
        guard isMessagesTerminal else { return sayPlainly(line + "\n") }
        sayPlainly(broken(line, columns: terminalSize().columns) + "\n")
    }

    package func sayPlainly(_ text: String) {
        // If standard error itself fails, there is nowhere to report it.
        try? messages.write(text)
    }
}

extension Dependencies {
    /// The process's own dependencies.
    package static func live() -> Dependencies {
        Dependencies(
            environment: processEnvironment(), programPath: realPath("/proc/self/exe"),
            workingDirectory: realPath(".") ?? "/", output: .descriptor(STDOUT_FILENO),
            messages: .descriptor(STDERR_FILENO),
            isInputTerminal: isatty(STDIN_FILENO) == 1, readAnswer: { readLine() },
            isOutputTerminal: isatty(STDOUT_FILENO) == 1,
            isMessagesTerminal: isatty(STDERR_FILENO) == 1,
            terminalSize: { sizeOfTerminal() }, page: { Pager.run($0, $1) },
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

/// The size of the stream that is a terminal, or else 80 by 24.
private func sizeOfTerminal() -> (columns: Int, rows: Int) {
    for descriptor in [STDOUT_FILENO, STDERR_FILENO] {
        var size = winsize()
        if ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 {
            return (Int(size.ws_col), Int(size.ws_row))
        }
    }
    return (80, 24)
}
