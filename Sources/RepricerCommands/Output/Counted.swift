import Reports

/// A sentence about rows says what one of them does, or several.
func rows(_ count: some BinaryInteger, _ one: String, _ several: String, _ rest: String) -> String {
    "\(counted(count, "row")) \(count == 1 ? one : several) \(rest)"
}
