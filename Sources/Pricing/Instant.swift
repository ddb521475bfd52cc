/// A point in time, in UTC milliseconds since 1970-01-01. Every rule takes one as a parameter, and none reads a clock.
package struct Instant: Hashable, Comparable, Sendable {
    package var milliseconds: Int64

    package init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    /// An instant before any renewal.
    package static let distantPast = Instant(milliseconds: .min)
    static let distantFuture = Instant(milliseconds: .max)

    package static func < (left: Instant, right: Instant) -> Bool {
        left.milliseconds < right.milliseconds
    }
}
