import Batches
import Pricing
import ServiceKit

/// The waves of a batch, for a person and for a program.
extension [ControlQueries.Wave] {
    var table: String {
        guard !isEmpty else { return "" }
        var table = Table([
            .left("WAVE"), .left("ROWS OF"), .right("ROWS"), .right("UNSENT"), .left("RELEASED"),
        ])
        for wave in self {
            table.add([
                "\(wave.number)", wave.label, "\(wave.rowCount)", "\(wave.unsentCount)",
                wave.releaseText,
            ])
        }
        return table.text
    }
}

extension ControlQueries.Wave {
    var rowCount: Int64 { states.values.reduce(0, +) }

    var unsentCount: Int64 {
        states[ChangeState.awaitingApproval.rawValue, default: 0]
            + states[ChangeState.queued.rawValue, default: 0]
    }

    fileprivate var releaseText: String {
        if let releasedAt { return RFC3339.format(releasedAt) }
        switch release {
        case "approval": return "with the approval"
        case "at": return plannedAt.map { "at \(RFC3339.format($0))" } ?? "-"
        case "after":
            let minutes = (afterMilliseconds ?? 0) / 60_000
            return "\(minutes) min after the one before"
        default: return "by hand: `repricer release`"
        }
    }

    var json: JSONValue {
        .object([
            "wave": .integer(number), "label": .string(label), "rows": .integer(rowCount),
            "unsent": .integer(unsentCount), "states": .counts(states),
            "release": .string(release), "release_at": .text(plannedAt.map(RFC3339.format)),
            "released_at": .text(releasedAt.map(RFC3339.format)),
        ])
    }
}
