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

    /// Until when it counts: 12 calendar months.
    var countsUntil: Instant { at.advanced(byMonths: 12) }
}

/// The increases of one subscription that may count against another, whoever made them.
struct IncreaseHistory: Hashable, Sendable {
    private var increases: [EarlierIncrease]

    init(_ increases: [EarlierIncrease] = []) {
        self.increases = increases.sorted(by: IncreaseHistory.isEarlier)
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

    /// The instants at which the increases stop counting.
    var ends: [Instant] { increases.map(\.countsUntil) }

    private static func isEarlier(_ left: EarlierIncrease, _ right: EarlierIncrease) -> Bool {
        (left.at, left.sku) < (right.at, right.sku)
    }
}
