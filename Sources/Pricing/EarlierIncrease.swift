/// An increase of any item of a subscription that may make a later increase need consent.
package struct EarlierIncrease: Hashable, Sendable {
    package var sku: String
    /// The renewal at which it took effect, or will take effect.
    package var at: Instant
    package var origin: Origin

    package enum Origin: Hashable, Sendable {
        /// It was charged, Apple shows it, or a person imported it.
        case past(PastIncrease.Source)
        /// It is an open change of ours, with this id.
        case change(String)
        /// It is a row of the same batch that can be sent.
        case line(Int)
    }

    /// How we know of it; nil for a future increase by a change or a row of ours.
    var source: PastIncrease.Source? {
        switch origin {
        case .past(let source): source
        case .change, .line: nil
        }
    }

    fileprivate var isSigned: Bool { source != .imported }

    /// Until when it counts: 12 calendar months. Of an imported increase only the day is known, and `at` is its first
    /// instant in UTC. Two days later that day is over in every time zone, so two days are added.
    var countsUntil: Instant {
        let end = at.advanced(byMonths: 12)
        return isSigned ? end : end.advanced(by: 2 * Instant.millisecondsPerDay)
    }

    private var latestAt: Instant {
        isSigned ? at : at.advanced(by: 2 * Instant.millisecondsPerDay)
    }

    /// Whether this imported increase, of which only the day is known, is the same as one that a statement or a change
    /// of ours dates exactly.
    fileprivate func isToldExactly(by other: EarlierIncrease) -> Bool {
        !isSigned && other.isSigned && sku == other.sku && other.at >= at && other.at < latestAt
    }
}

/// The increases of one subscription that may count against a later one, whoever made them.
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

    /// The latest increase before a renewal that still counts at the instant of a call; if none counts, the latest of
    /// all. An imported increase may count longer than a later one that was charged.
    func latest(before renewal: Instant, countingAt call: Instant) -> EarlierIncrease? {
        let latest = latest(before: renewal)
        guard let latest, latest.countsUntil <= call else { return latest }
        return increases.last { $0.at < renewal && $0.countsUntil > call } ?? latest
    }

    /// The instants at which the increases stop counting.
    var ends: [Instant] { increases.map(\.countsUntil) }

    /// Of two equal increases the signed one sorts last, so that it is the one that is named.
    private static func isEarlier(_ left: EarlierIncrease, _ right: EarlierIncrease) -> Bool {
        (left.at, left.sku, left.isSigned ? 1 : 0) < (right.at, right.sku, right.isSigned ? 1 : 0)
    }
}
