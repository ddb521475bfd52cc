/// The figures of a batch. They take a few tables, whatever its size. A forecast adds them up row by row, and `show`
/// reads the same figures from the database.
package struct BatchFigures: Sendable {
    /// How many changes are kept as the largest, and how many lines as examples.
    package static let examplesMax = 10

    /// The rows of one storefront and period that can be sent. Money is in milliunits.
    package struct MoneyKey: Hashable, Comparable, Sendable {
        package var currency: String
        package var storefront: String
        /// The period as Apple wrote it.
        package var period: String

        package init(currency: String, storefront: String, period: String) {
            self.currency = currency
            self.storefront = storefront
            self.period = period
        }

        package static func < (left: MoneyKey, right: MoneyKey) -> Bool {
            (left.currency, left.storefront, left.period)
                < (right.currency, right.storefront, right.period)
        }
    }

    /// The rows whose consent one rule leaves open.
    package struct NotKnown: Sendable, Equatable {
        package var rows = 0
        package var storefronts: Set<String> = []

        package init(rows: Int = 0, storefronts: Set<String> = []) {
            self.rows = rows
            self.storefronts = storefronts
        }
    }

    /// The rows that take effect in one week or month.
    package struct Dates: Sendable, Equatable {
        package var increases = 0
        package var decreases = 0
        package var rows: Int { increases + decreases }
    }

    /// The rows above 50 % whose threshold Apple has not published.
    package struct Uncertain: Sendable, Equatable {
        package var rows = 0
        /// The first of their lines.
        package var lines: [Int] = []
    }

    package var canGoCount = 0
    package var codes: [RowCode: Int] = [:]
    package var directions: [PlanRow.Direction: Int] = [:]
    package var consents: [Consent: Int] = [:]
    package var reasons: [ConsentReason: Int] = [:]
    /// The rules that leave the consent of rows open.
    package var notKnown: [ConsentReason: NotKnown] = [:]
    /// The rows by the Monday on which their week begins, and by the first day of their month.
    package private(set) var weeks: [CivilDate: Dates] = [:]
    package private(set) var months: [CivilDate: Dates] = [:]
    package var money: [MoneyKey: Money] = [:]
    package var increases = LargestMoves(.increase)
    package var decreases = LargestMoves(.decrease)
    package var warnings: [BatchWarning: BatchWarning.Rows] = [:]
    package var firstSendBy: Instant?
    package var lastEffectiveAt: Instant?

    package init() {}

    package var refusedCount: Int { codes.values.reduce(0, +) }
    package var rowCount: Int { canGoCount + refusedCount }

    /// Counts rows of a direction on the day on which they take effect, in UTC.
    package mutating func count(_ rows: Int, _ direction: PlanRow.Direction, on day: CivilDate) {
        // The day 1970-01-01 was a Thursday.
        let monday = CivilDate(
            daysSinceEpoch: day.daysSinceEpoch - (day.daysSinceEpoch + 3) % 7)
        let first = CivilDate(daysSinceEpoch: day.daysSinceEpoch - day.day + 1)
        switch direction {
        case .increase:
            weeks[monday, default: Dates()].increases += rows
            months[first, default: Dates()].increases += rows
        case .decrease:
            weeks[monday, default: Dates()].decreases += rows
            months[first, default: Dates()].decreases += rows
        }
    }
}
