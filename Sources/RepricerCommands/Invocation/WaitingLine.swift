import Reports
import ServiceKit
import Synchronization

/// One line on a terminal that shows what a silent command is doing, and for how long: where one statement does all the
/// work, there is no progress to show. Any output of the command first erases the line, and starts the time again.
final class WaitingLine: Sendable {
    private static let pace: Duration = .milliseconds(500)

    /// The dependencies by which it draws. The command writes through `dependencies` instead.
    private let bare: Dependencies
    private let isShown: Bool
    private let state: Mutex<State>

    private struct State {
        var what: String
        var since = ContinuousClock.now
        var silentSince = ContinuousClock.now
        var nextAt = ContinuousClock.now
        var isDrawn = false
        /// Whether what was written last ends a line, so that nothing is drawn into a question, a bar or a page.
        var isAtStart = true
        var isWatched = false
    }

    /// - Parameter what: What is said until the command says more of itself.
    init(_ what: String, _ dependencies: Dependencies, isQuiet: Bool) {
        bare = dependencies
        state = Mutex(State(what: what))
        isShown =
            dependencies.isMessagesTerminal && !isQuiet
            && dependencies.environment["TERM"] != "dumb"
    }

    /// The dependencies by which the command writes and asks, so that the line never interferes.
    var dependencies: Dependencies {
        guard isShown else { return bare }
        let bare = bare
        var own = bare
        own.messages = OutputSink { [self] bytes throws(OutputError) in
            try write(bytes, to: bare.messages)
        }
        if bare.isOutputTerminal {
            own.output = OutputSink { [self] bytes throws(OutputError) in
                try write(bytes, to: bare.output)
            }
        }
        own.readAnswer = { [self] in
            defer { hold(false) }
            return bare.readAnswer()
        }
        own.page = { [self] command, text in
            hold(true)
            defer { hold(false) }
            return bare.page(command, text)
        }
        return own
    }

    /// Runs `body`, and shows the line for as long as that takes.
    func watch<Value>(_ body: () async throws -> Value) async throws -> Value {
        let isFirst = state.withLock { state in
            defer { state.isWatched = true }
            return !state.isWatched
        }
        guard isShown, isFirst else { return try await body() }
        defer {
            clear()
            state.withLock { $0.isWatched = false }
        }
        drawIfLate()
        return try await withThrowingTaskGroup(of: Void.self) { group in
            // It runs on its own thread, because a plan keeps all others busy.
            group.addTask(executorPreference: Alarm.shared) { [self] in
                while true {
                    try await Alarm.shared.wait(for: Self.pace)
                    drawIfLate()
                }
            }
            defer { group.cancelAll() }
            return try await body()
        }
    }

    /// Changes the text. The time continues.
    func tell(_ what: String) {
        state.withLock { $0.what = what }
        drawIfLate()
    }

    /// Shows `what`, and for how long, while `body` runs.
    func tell<Value>(_ what: String, _ body: () async throws -> Value) async throws -> Value {
        let before = state.withLock { state in
            defer { (state.what, state.since) = (what, .now) }
            return (state.what, state.since)
        }
        defer {
            clear()
            state.withLock { ($0.what, $0.since) = before }
        }
        drawIfLate()
        return try await watch(body)
    }

    private func drawIfLate() {
        guard isShown else { return }
        let now = ContinuousClock.now
        state.withLock { state in
            guard state.isWatched, state.isAtStart, now >= state.nextAt,
                now - state.silentSince >= bare.progressAfter
            else { return }
            state.nextAt = now + min(Self.pace, bare.progressAfter)
            let seconds = (now - state.since).components.seconds
            let time = seconds < 120 ? "\(seconds) s" : "\(seconds / 60) min"
            // The last column stays free, because a full line would wrap and could not be redrawn.
            let width = max(10, bare.terminalSize().columns - 1)
            let text = String("\(state.what), \(time)".prefix(width))
            bare.sayPlainly((state.isDrawn ? Self.erasing : "") + text)
            state.isDrawn = true
        }
    }

    private static let erasing = "\r\u{1B}[J"

    private func clear() {
        state.withLock { state in
            if state.isDrawn { bare.sayPlainly(Self.erasing) }
            state.isDrawn = false
        }
    }

    private func write(_ bytes: [UInt8], to sink: OutputSink) throws(OutputError) {
        // Both streams go to the same screen, so nothing may be written between the two steps.
        try state.withLock { state throws(OutputError) in
            if state.isDrawn { bare.sayPlainly(Self.erasing) }
            state.isDrawn = false
            state.silentSince = .now
            // An erased bar leaves a clean line.
            state.isAtStart = bytes.last == 0x0A || bytes.suffix(3) == [0x1B, 0x5B, 0x4A]
            try sink.write(bytes)
        }
    }

    /// Stops drawing while a person reads a page or types an answer.
    private func hold(_ isHeld: Bool) {
        if isHeld { clear() }
        state.withLock { state in
            state.isAtStart = !isHeld
            state.silentSince = .now
        }
    }
}

extension Invocation {
    /// Runs work that may take long, and shows `what` at a terminal meanwhile. `what` begins with a verb, such as
    /// "approving 12 changes".
    func telling<Value>(
        _ what: String, _ body: () async throws -> Value
    ) async throws -> Value {
        try await waiting.tell(what, body)
    }
}
