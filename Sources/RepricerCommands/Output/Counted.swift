import Reports

/// A sentence about rows, with the verb form for one row or for several.
func rows(_ count: some BinaryInteger, _ one: String, _ several: String, _ rest: String) -> String {
    "\(counted(count, "row")) \(count == 1 ? one : several) \(rest)"
}

/// The text on lines of at most so many columns; those after the first are indented.
func broken(_ text: String, columns: Int) -> String {
    brokenText(text, width: max(1, columns - 2)).joined(separator: "\n  ")
}
