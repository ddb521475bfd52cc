import Reports
import Synchronization

/// A few lines on a terminal that are drawn again and again; on anything else, nothing.
final class ProgressBar: Sendable {
    private static let barMax = 40
    private static let barMin = 10
    /// The most lines. More would scroll the first ones out of a small window, where they cannot be redrawn.
    private static let linesMax = 16

    private let dependencies: Dependencies
    private let isShown: Bool
    private let state: Mutex<State>

    private struct State {
        /// How many lines are drawn at the moment.
        var drawn = 0
        var nextAt: ContinuousClock.Instant
    }

    private static let pace: Duration = .milliseconds(200)

    init(dependencies: Dependencies, isQuiet: Bool) {
        self.dependencies = dependencies
        state = Mutex(State(nextAt: .now + dependencies.progressAfter))
        isShown =
            dependencies.isMessagesTerminal && !isQuiet
            && dependencies.environment["TERM"] != "dumb"
    }

    /// Draws `done` of `total`, with a note beside it.
    func draw(done: Int64, total: Int64, note: String) {
        draw { Self.lines(done: done, total: total, note: note, columns: $0) }
    }

    /// Draws it once the work takes longer than `progressAfter`, and then a few times a second.
    func drawIfLate(done: Int64, total: Int64, note: String) {
        let now = ContinuousClock.now
        let isDue = state.withLock { state in
            guard now >= state.nextAt else { return false }
            state.nextAt = now + Self.pace
            return true
        }
        if isDue { draw(done: done, total: total, note: note) }
    }

    /// The same for a file: `read` of `size` bytes; nil for an unknown size.
    func drawIfLate(read: Int64, of size: Int64?) {
        let megabytes = { (bytes: Int64) in counted((bytes + 500_000) / 1_000_000) }
        drawIfLate(
            done: read, total: size ?? 0,
            note: megabytes(read) + (size.map { " of \(megabytes($0))" } ?? "") + " MB read")
    }

    /// Lines of a screen so many columns wide, over those of the drawing before.
    func draw(_ lines: (_ columns: Int) -> [String]) {
        guard isShown else { return }
        // The last column stays free, because a full line would wrap and could not be redrawn.
        let size = dependencies.terminalSize()
        let most = max(1, min(Self.linesMax, size.rows - 1))
        let width = max(10, size.columns - 1)
        var shown = lines(width).flatMap {
            Paint.plain($0).count <= width ? [$0] : brokenText($0, width: width)
        }
        if shown.count > most { shown = shown.prefix(most - 1) + ["…"] }
        let before = state.withLock { state in
            defer { state.drawn = shown.count }
            return state.drawn
        }
        dependencies.sayPlainly(Self.erasing(before) + shown.joined(separator: "\n"))
    }

    /// Removes the lines, so that what is printed next begins on a clean one.
    func clear() {
        let before = state.withLock { state in
            defer { state.drawn = 0 }
            return state.drawn
        }
        if isShown, before > 0 { dependencies.sayPlainly(Self.erasing(before)) }
    }

    /// The codes that move the cursor to the start of the drawn lines and erase them.
    private static func erasing(_ lines: Int) -> String {
        "\r" + (lines > 1 ? "\u{1B}[\(lines - 1)A" : "") + "\u{1B}[J"
    }

    /// The lines of a bar. The note stands beside the bar where there is room, otherwise below it, so that no word is
    /// lost. There is no bar for an unknown total. `noteColumns` is the width of the longest note where several bars
    /// are drawn below each other.
    static func lines(
        done: Int64, total: Int64, note: String, noteColumns: Int = 0, columns: Int
    ) -> [String] {
        guard total > 0 else { return brokenText(note, width: columns) }
        // Brackets, percentage and blanks take eleven.
        let beside = columns - max(note.count, noteColumns) - 11
        guard beside < barMin else {
            return [bar(done: done, total: total, width: min(barMax, beside)) + "  " + note]
        }
        let alone = bar(done: done, total: total, width: max(1, min(barMax, columns - 9)))
        return [alone] + brokenText(note, width: columns)
    }

    /// `[####....]  50 %`
    static func bar(done: Int64, total: Int64, width: Int) -> String {
        let share = total > 0 ? Double(min(max(done, 0), total)) / Double(total) : 0
        let filled = Int(share * Double(width))
        let bar =
            String(repeating: "#", count: filled) + String(repeating: ".", count: width - filled)
        // Rounded down, so that 100 % is shown only when all is done.
        let percent = String(Int(share * 100))
        return "[\(bar)] \(String(repeating: " ", count: max(0, 3 - percent.count)))\(percent) %"
    }
}
