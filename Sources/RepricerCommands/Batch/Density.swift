/// The level of detail of a batch's figures. Each level shows less than the one before, and takes fewer lines.
enum Density: Int, CaseIterable, Comparable {
    case full
    /// Without empty lines.
    case tight
    /// Two currencies, the largest move of each direction, and lists cut to one line.
    case short
    /// What is not known, the dates and the warnings on one line each.
    case shortest

    /// The lines below the figures: the prompt and, where there is room, what to type next.
    private var linesBelow: Int { self == .shortest ? 1 : 2 }

    static func < (left: Density, right: Density) -> Bool { left.rawValue < right.rawValue }

    /// The most detailed text that fits on a screen with this many rows. Where none fits, or there is no screen, it is
    /// the full one.
    static func fitting(_ rows: Int?, _ text: (Density) -> String) -> String {
        guard let rows else { return text(.full) }
        for density in allCases {
            let said = text(density)
            let lines = said.utf8.lazy.filter { $0 == 0x0A }.count
            if lines + density.linesBelow <= rows { return said }
        }
        return text(.full)
    }
}
