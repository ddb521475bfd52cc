/// A warning refuses no row. A person should examine it before anybody approves the batch.
package enum BatchWarning: String, Hashable, Sendable, CaseIterable {
    case moreThanThreefold = "more_than_threefold"
    case lessThanAThird = "less_than_a_third"
    case farAhead = "more_than_two_years_ahead"
    /// Each id of the file ends in 0. A spreadsheet keeps 15 digits of a number and writes zeros for the rest.
    case idsEndInZero = "ids_end_in_0"
    /// The rows can be sent, but are judged on facts older than a known renewal.
    case stale
    /// The rows have several seats. Their prices are for one seat, while sums count all seats.
    case severalSeats = "several_seats"
    /// The rows get another verdict if they are sent later than on their first day, though still in time.
    case turns = "consent_turns_before_send_by"
    /// The rows would miss their renewal at the allowed rate.
    case late
    /// The rows take effect before an open increase of another batch, which then needs consent.
    case makesOthersAsk = "makes_open_changes_need_consent"

    package static let farMonths = 24

    package struct Rows: Sendable, Equatable {
        package var count = 0
        /// The first of the lines, in the order of the file; empty where the warning is about all.
        package var lines: [Int] = []

        package init(count: Int = 0, lines: [Int] = []) {
            self.count = count
            self.lines = lines
        }

        package mutating func add(_ line: Int) {
            count += 1
            if lines.count < BatchFigures.examplesMax { lines.append(line) }
        }
    }

    /// The warnings about one row that can go, whatever the other rows say.
    static func of(_ row: PlanRow, farAt: Instant?) -> [BatchWarning] {
        var warnings: [BatchWarning] = []
        if let current = row.currentPrice, let new = row.newPrice {
            if isMoreThanThreefold(new, of: current) { warnings.append(.moreThanThreefold) }
            if isMoreThanThreefold(current, of: new) { warnings.append(.lessThanAThird) }
        }
        if let farAt, let effectiveAt = row.effectiveAt, effectiveAt > farAt {
            warnings.append(.farAhead)
        }
        if row.isStale { warnings.append(.stale) }
        if row.seats > 1 { warnings.append(.severalSeats) }
        if row.turn != nil { warnings.append(.turns) }
        return warnings
    }

    private static func isMoreThanThreefold(_ price: Int64, of other: Int64) -> Bool {
        let (threefold, overflow) = other.multipliedReportingOverflow(by: 3)
        return !overflow && price > threefold
    }
}
