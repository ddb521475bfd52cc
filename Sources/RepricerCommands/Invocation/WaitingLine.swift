import Reports
import ServiceKit
import Synchronization

/// One line on a terminal that says what a command does, and for how long, while it says nothing else: where one
/// statement does all the work, nobody knows how far it is. Whatever the command writes takes the line away first, and
/// begins the silence anew.
final class WaitingLine: Sendable {
    private static let pace: Duration = .milliseconds(500)

    /// Where it draws. What the command writes goes through `dependencies` instead.
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

    /// What the command writes and asks by, so that the line is never in its way.
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
            // On a thread of its own: a plan keeps all others busy.
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

    /// Says something else from now on. The time goes on.
    func tell(_ what: String) {
        state.withLock { $0.what = what }
        drawIfLate()
    }

    /// Says `what` while `body` runs, and how long that takes.
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
            // The last column stays free: a full line would wrap and could not be drawn over.
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
        // Both streams go to one screen, so nobody else may write between the two.
        try state.withLock { state throws(OutputError) in
            if state.isDrawn { bare.sayPlainly(Self.erasing) }
            state.isDrawn = false
            state.silentSince = .now
            // A bar that was taken away leaves a clean line.
            state.isAtStart = bytes.last == 0x0A || bytes.suffix(3) == [0x1B, 0x5B, 0x4A]
            try sink.write(bytes)
        }
    }

    /// Draws nothing while somebody reads a page or thinks of an answer.
    private func hold(_ isHeld: Bool) {
        if isHeld { clear() }
        state.withLock { state in
            state.isAtStart = !isHeld
            state.silentSince = .now
        }
    }
}

extension Invocation {
    /// Runs what may take long, and says so at a terminal: `what` begins with a verb, as "approving 12 changes".
    func telling<Value>(
        _ what: String, _ body: () async throws -> Value
    ) async throws -> Value {
        try await waiting.tell(what, body)
    }
}
