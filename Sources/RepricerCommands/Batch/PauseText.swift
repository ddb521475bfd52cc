import Ledger
import ServiceKit

/// Who stopped what, when and why.
protocol Pausable {
    var pausedBy: String? { get }
    var pausedAt: Int64? { get }
    var pausedReason: String? { get }
}

extension BatchQueries.Batch: Pausable {}
extension ControlQueries.Everything: Pausable {}

/// ` since 2026-12-01T00:00:00Z by ana: too many refusals`; empty where nobody noted anything.
func whoAndWhy(of pause: some Pausable) -> String {
    [
        pause.pausedAt.map { " since \(RFC3339.format($0))" },
        pause.pausedBy.map { " by \($0)" },
        pause.pausedReason.map { ": \($0)" },
    ].compactMap { $0 }.joined()
}

extension Pausable {
    fileprivate var members: JSONValue {
        .object([
            "by": .text(pausedBy), "at": .text(pausedAt.map(RFC3339.format)),
            "reason": .text(pausedReason),
        ])
    }
}

extension BatchQueries.Batch {
    /// null unless it is paused.
    var pauseJSON: JSONValue { isPaused ? members : .null }
}

extension ControlQueries.Everything {
    var json: JSONValue {
        .object(["paused": .bool(isPaused), "pause": isPaused ? members : .null])
    }
}
