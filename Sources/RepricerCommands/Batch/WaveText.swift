import Batches
import Pricing
import ServiceKit

/// The waves of a batch, for a person and for a program.
func waveColumns(of batch: BatchQueries.Batch?) -> [Column<ControlQueries.Wave>] {
    [
        .shown(.left("WAVE")) { "\($0.number)" }, .key("wave") { $0.number },
        .text("ROWS OF", "label") { $0.label },
        .count("ROWS", "rows") { $0.states.values.reduce(0, +) },
        .count("UNSENT", "unsent") { wave in
            [ChangeState.awaitingApproval, .queued].reduce(0) {
                $0 + wave.states[$1.rawValue, default: 0]
            }
        }, .key("states") { $0.states }, .key("release") { $0.release },
        .key("release_at") { $0.plannedAt?.instantText },
        .key("released_at") { $0.releasedAt?.instantText },
        .shown(.left("RELEASED")) { $0.releaseText(of: batch) },
    ]
}

extension ControlQueries.Wave {
    fileprivate func releaseText(of batch: BatchQueries.Batch?) -> String {
        if let releasedAt { return releasedAt.instantText }
        if batch?.isWithdrawn == true { return "never, the batch is withdrawn" }
        switch release {
        case "approval": return "with the approval"
        case "at": return plannedAt.map { "at \($0.instantText)" } ?? "-"
        case "after":
            return "\(waitText) after the one before"
        default: return "by hand: `repricer release BATCH`"
        }
    }
}
