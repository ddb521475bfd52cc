/// An increase of any item of a subscription that may make a later increase need consent.
package struct EarlierIncrease: Hashable, Sendable {
    package var sku: String
    /// The renewal at which it took effect, or will take effect.
    package var at: Instant
    package var origin: Origin

    package enum Origin: Hashable, Sendable {
        /// It was charged, Apple shows it, or a person stated it.
        case past(PastIncrease.Source)
        /// It is an open change of ours, with this id.
        case change(String)
        /// It is a row of the same batch that can go.
        case line(Int)
    }

    /// Where it is known from; nil where a change or a row of ours will bring it.
    var source: PastIncrease.Source? {
        switch origin {
        case .past(let source): source
        case .change, .line: nil
        }
    }

    fileprivate var isSigned: Bool { source != .imported }

    /// Until when it counts: 12 calendar months. Of what a person states only the day is known, and `at` is its first
    /// instant in UTC. The day is over everywhere two days after that.
    var countsUntil: Instant {
        let end = at.advanced(byMonths: 12)
        return isSigned ? end : end.advanced(by: 2 * Instant.millisecondsPerDay)
    }

    private var latestAt: Instant {
        isSigned ? at : at.advanced(by: 2 * Instant.millisecondsPerDay)
    }

    /// Whether a person stated, by its day, the very increase that a statement or a change of ours tells exactly.
    fileprivate func isToldExactly(by other: EarlierIncrease) -> Bool {
        !isSigned && other.isSigned && sku == other.sku && other.at >= at && other.at < latestAt
    }
}

/// The increases of one subscription that may count against another, whoever made them.
struct IncreaseHistory: Hashable, Sendable {
    private var increases: [EarlierIncrease]

    init(_ increases: [EarlierIncrease] = []) {
        let told =
            increases.allSatisfy(\.isSigned)
            ? increases
            : increases.filter { one in !increases.contains { one.isToldExactly(by: $0) } }
        self.increases = told.sorted(by: IncreaseHistory.isEarlier)
    }

    mutating func add(_ increase: EarlierIncrease) {
        let place = increases.firstIndex { IncreaseHistory.isEarlier(increase, $0) }
        increases.insert(increase, at: place ?? increases.endIndex)
    }

    /// The latest increase that takes effect before a renewal. Increases at the same renewal do not count against
    /// each other.
    func latest(before renewal: Instant) -> EarlierIncrease? {
        increases.last { $0.at < renewal }
    }

    /// The latest of those that still count at the instant of a call, or where none does, of all. One that was imported
    /// may count longer than a later one that was charged.
    func latest(before renewal: Instant, countingAt call: Instant) -> EarlierIncrease? {
        let latest = latest(before: renewal)
        guard let latest, latest.countsUntil <= call else { return latest }
        return increases.last { $0.at < renewal && $0.countsUntil > call } ?? latest
    }

    /// The instants at which the increases stop counting.
    var ends: [Instant] { increases.map(\.countsUntil) }

    /// Of two equal increases the signed one sorts last, so it is the one that is named.
    private static func isEarlier(_ left: EarlierIncrease, _ right: EarlierIncrease) -> Bool {
        (left.at, left.sku, left.isSigned ? 1 : 0) < (right.at, right.sku, right.isSigned ? 1 : 0)
    }
}
