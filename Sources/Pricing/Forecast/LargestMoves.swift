/// One new price with the current one, shown as an example.
package struct PriceMove: Sendable, Equatable {
    package var line: Int
    package var originalTransactionID: String
    package var sku: String
    package var currency: String
    /// The current price in milliunits.
    package var currentPrice: Int64
    package var newPrice: Int64

    package init(
        line: Int, originalTransactionID: String, sku: String, currency: String,
        currentPrice: Int64, newPrice: Int64
    ) {
        self.line = line
        self.originalTransactionID = originalTransactionID
        self.sku = sku
        self.currency = currency
        self.currentPrice = currentPrice
        self.newPrice = newPrice
    }

    /// By how much the price moves, in hundredths of a percent; below 0 for a decrease. It is rounded away from zero,
    /// as the limits of approvers say it, so that both name one number. Nil where the current price is 0, and for a
    /// number that no percentage should be.
    package var basisPoints: Int64? { move(inPartsOf: 10_000) }

    /// The same in tenths of a percent.
    package var permille: Int64? { move(inPartsOf: 1000) }

    private func move(inPartsOf parts: Int64) -> Int64? {
        let (difference, isFar) = newPrice.subtractingReportingOverflow(currentPrice)
        let (scaled, isTooLarge) = difference.multipliedReportingOverflow(by: parts)
        guard !isFar, !isTooLarge, currentPrice > 0 else { return nil }
        let (whole, rest) = scaled.quotientAndRemainder(dividingBy: currentPrice)
        return whole + rest.signum()
    }
}

/// The largest moves in one direction, by percent and the largest first; among equal ones the first in the file.
package struct LargestMoves: Sendable, Equatable {
    package let direction: PlanRow.Direction
    package private(set) var moves: [PriceMove] = []

    package init(_ direction: PlanRow.Direction) {
        self.direction = direction
    }

    package mutating func add(_ move: PriceMove) {
        if moves.count == BatchFigures.examplesMax, let last = moves.last, !isLarger(move, last) {
            return
        }
        moves.insert(move, at: moves.firstIndex { isLarger(move, $0) } ?? moves.endIndex)
        if moves.count > BatchFigures.examplesMax { moves.removeLast() }
    }

    /// Whether the first grows, or shrinks, by a larger factor. It compares new / current exactly, by multiplying
    /// crosswise.
    private func isLarger(_ left: PriceMove, _ right: PriceMove) -> Bool {
        let first = left.newPrice.multipliedFullWidth(by: right.currentPrice)
        let second = right.newPrice.multipliedFullWidth(by: left.currentPrice)
        return switch direction {
        case .increase: (first.high, first.low) > (second.high, second.low)
        case .decrease: (first.high, first.low) < (second.high, second.low)
        }
    }
}
