/// An increase of a subscription's item that an increase at a later renewal may have to answer for.
package struct EarlierIncrease: Hashable, Sendable {
    package var sku: String
    /// The renewal at which it took effect, or will.
    package var at: Instant
    package var origin: Origin

    package enum Origin: Hashable, Sendable {
        /// It was charged, or Apple shows it, or a person told of it.
        case past(PastIncrease.Source)
        /// An open change of ours, by its id.
        case change(String)
        /// A row of the same batch that can go.
        case line(Int)
    }

    /// Who tells of it; nil where it is to come by a change or a row of ours.
    var source: PastIncrease.Source? {
        switch origin {
        case .past(let source): source
        case .change, .line: nil
        }
    }

    fileprivate var isSigned: Bool { source != .imported }

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

    /// The latest that takes effect before a renewal: those at the same one don't count against each other.
    func latest(before renewal: Instant) -> EarlierIncrease? {
        increases.last { $0.at < renewal }
    }

    /// When the increases stop to count.
    var ends: [Instant] { increases.map(\.countsUntil) }

    /// Of two that tell the same, the one that nobody had to import is the later, and so the one that is named.
    private static func isEarlier(_ left: EarlierIncrease, _ right: EarlierIncrease) -> Bool {
        (left.at, left.sku, left.isSigned ? 1 : 0) < (right.at, right.sku, right.isSigned ? 1 : 0)
    }
}
