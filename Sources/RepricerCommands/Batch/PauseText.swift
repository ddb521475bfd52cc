import Batches
import Facts
import Pricing
import ServiceKit

/// Who stopped what, when and why.
protocol Pausable {
    var pausedBy: String? { get }
    var pausedAt: Int64? { get }
    var pausedReason: String? { get }
    /// What paused it where no person did.
    var haltedBy: String? { get }
}

extension BatchQueries.Batch: Pausable {}
extension ServiceControlQueries.Everything: Pausable {
    var haltedBy: String? { nil }
}

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
            "reason": .text(pausedReason), "halted_by": .text(haltedBy),
        ])
    }
}

extension BatchQueries.Batch {
    /// null unless it is paused.
    var pauseJSON: JSONValue { isPaused ? members : .null }
}

extension ServiceControlQueries.Everything {
    /// What stands still as a whole, the person's word first; none in ordinary times.
    var headlines: [(String, String)] {
        var lines: [(String, String)] = []
        if isPaused {
            lines.append(("PAUSED", "everything\(whoAndWhy(of: self)); `repricer resume --all`"))
        }
        if let haltedAt {
            lines.append(
                (
                    "HALTED",
                    "everything since \(RFC3339.format(haltedAt)): \(haltedReason ?? ""); one call a minute "
                        + "asks again"
                ))
        }
        return lines
    }

    var json: JSONValue {
        let halt: JSONValue = .object([
            "at": .text(haltedAt.map(RFC3339.format)), "reason": .text(haltedReason),
        ])
        return .object([
            "paused": .bool(isPaused), "pause": isPaused ? members : .null,
            "halted": .bool(isHalted), "halt": isHalted ? halt : .null,
        ])
    }
}

extension ControlQueries.HaltedStorefront {
    var headline: String {
        "\(storefront) since \(RFC3339.format(at)): \(reason); `repricer resume` lets it go on"
    }

    var json: JSONValue {
        .object([
            "storefront": .string(storefront), "halted_by": .string(by), "reason": .string(reason),
            "at": .string(RFC3339.format(at)),
        ])
    }
}

/// What a guard rail has counted, for a person and for a program.
struct GuardReading: Sendable, Equatable {
    let rail: GuardRail
    let count: GuardQueries.Count
    /// nil: just now.
    let countedAt: Int64?

    static func table(of readings: [GuardReading]) -> String {
        guard !readings.isEmpty else { return "" }
        var table = Table([.left("HALT IF"), .right("NOW"), .right("OF"), .left("COUNTED")])
        for reading in readings {
            table.add([
                reading.rail.text, "\(reading.count.count)", "\(reading.count.all)",
                reading.countedAt.map(RFC3339.format) ?? "now",
            ])
        }
        return table.text
    }

    var json: JSONValue {
        .object([
            "guard": .string(rail.figure.rawValue), "over_basis_points": .integer(rail.over),
            "least": .integer(rail.least), "count": .integer(count.count),
            "of": .integer(count.all), "counted_at": .text(countedAt.map(RFC3339.format)),
        ])
    }
}
