/// One line on a terminal that is drawn again and again; on anything else, nothing.
struct ProgressBar {
    private let dependencies: Dependencies
    private let isShown: Bool

    init(dependencies: Dependencies, isQuiet: Bool) {
        self.dependencies = dependencies
        isShown =
            dependencies.isMessagesTerminal && !isQuiet
            && dependencies.environment["TERM"] != "dumb"
    }

    /// `done` of `total`, and what to say beside it.
    func draw(done: Int64, total: Int64, note: String) {
        guard isShown else { return }
        // Back to the line's start, and erase what a longer line left behind.
        dependencies.sayPlainly(
            "\r\u{1B}[K" + Self.line(done: done, total: total, note: note, columns: columns))
    }

    /// Removes the line, so that what is printed next begins on a clean one.
    func clear() {
        guard isShown else { return }
        dependencies.sayPlainly("\r\u{1B}[K")
    }

    private var columns: Int { max(20, dependencies.terminalColumns()) }

    static func line(done: Int64, total: Int64, note: String, columns: Int) -> String {
        let share = total > 0 ? Double(min(max(done, 0), total)) / Double(total) : 0
        let width = max(4, min(40, columns - note.count - 12))
        let filled = Int(share * Double(width))
        let bar =
            String(repeating: "#", count: filled) + String(repeating: ".", count: width - filled)
        // Rounded down: 100 % is said only when all is done.
        let percent = String(Int(share * 100))
        let padded = String(repeating: " ", count: max(0, 3 - percent.count)) + percent
        // The last column stays free: a full line would wrap and could not be erased.
        return String("[\(bar)] \(padded) %  \(note)".prefix(columns - 1))
    }
}
