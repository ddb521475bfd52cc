/// By how much and why renewal dates are extended, within Apple's limits.
package struct ExtensionTerms: Hashable, Sendable {
    /// Apple's `extendReasonCode`.
    package enum Reason: Int, Hashable, Sendable, CaseIterable {
        case undeclared = 0
        case customerSatisfaction = 1
        case other = 2
        case outage = 3

        /// The name as it is typed and shown.
        package var name: String {
            switch self {
            case .undeclared: "undeclared"
            case .customerSatisfaction: "customer-satisfaction"
            case .other: "other"
            case .outage: "outage"
            }
        }

        /// Reads the name, or Apple's number.
        package init?(argument: String) {
            let found = Self.allCases.first {
                $0.name == argument || String($0.rawValue) == argument
            }
            guard let found else { return nil }
            self = found
        }
    }

    /// Apple's `extendByDays`.
    package static let daysAllowed = 1...90

    package let days: Int
    package let reason: Reason

    /// Returns nil where Apple does not accept this number of days.
    package init?(days: Int, reason: Reason) {
        guard Self.daysAllowed.contains(days) else { return nil }
        self.days = days
        self.reason = reason
    }
}
