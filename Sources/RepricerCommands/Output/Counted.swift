/// `1 change`, `2 changes`.
func many(_ count: some BinaryInteger, _ noun: String) -> String {
    "\(count) \(count == 1 ? noun : noun + "s")"
}

/// A sentence about rows says what one of them does, or several.
func rows(_ count: some BinaryInteger, _ one: String, _ several: String, _ rest: String) -> String {
    "\(many(count, "row")) \(count == 1 ? one : several) \(rest)"
}
