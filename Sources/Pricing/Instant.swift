/// A point in time: UTC milliseconds since 1970-01-01. Every rule takes one; none asks a clock.
package struct Instant: Hashable, Comparable, Sendable {
    package var milliseconds: Int64

    package init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    package static func < (left: Instant, right: Instant) -> Bool {
        left.milliseconds < right.milliseconds
    }
}
