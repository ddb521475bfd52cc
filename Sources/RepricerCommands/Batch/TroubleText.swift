import Batches
import Reports

/// What a person should see, as `status` shows it.
enum TroubleText {
    static let movedColumns: [Column<TroubleQueries.Moved>] = [
        .text("MOVED", "original_transaction_id") { $0.originalTransactionID },
        .text("ITEM", "sku") { $0.sku }, .text("STATE", "state") { $0.state },
        .shown(.left("FROM RENEWAL")) { renewal($0.from) }, .shown(.left("TO")) { renewal($0.to) },
        .key("from") { $0.from.instantText }, .key("to") { $0.to.instantText },
    ]

    /// A screen has room only for the day, which suffices because a renewal moves by whole periods.
    private static func renewal(_ at: Int64) -> String {
        String(at.instantText.prefix(Screen.columns == nil ? .max : 10))
    }

    private static let waveColumns: [Column<TroubleQueries.WaitingWave>] = [
        .key("batch_id") { $0.batchID }, .key("wave") { $0.number }, .key("label") { $0.label },
        .key("waits_for") { $0.waitsFor }, .key("due_rows") { $0.due },
        .key("overdue_rows") { $0.overdue },
        .key("first_send_by") { $0.firstSendBy.instantText },
    ]

    /// Only what exists is named.
    static func headlines(_ facts: StatusFacts) -> [(String, String)] {
        let trouble = facts.outlook.trouble
        let waves = facts.waitingWaves.map { wave in
            let place = facts.batch == nil ? " of \(wave.batchName)" : ""
            let words = waveDueWords(due: wave.due, overdue: wave.overdue)
            return (
                "WAITING",
                "wave \(wave.number) (\(wave.label))\(place) waits for \(wave.waitsFor); "
                    + words.before + wave.firstSendBy.instantText + words.after
            )
        }
        let late = facts.lateRows.reduce(0) { $0 + Int64($1.rows) }
        let troubles: [(String, Int64, String)] = [
            (
                // A finished batch is no alarm any more.
                facts.isFinal ? "were moved" : "moved", trouble.moved,
                facts.isFinal
                    ? "\(counted(trouble.moved, "row")) took effect, or ended, at a later renewal than was approved"
                    : rows(
                        trouble.moved, "takes", "take",
                        "effect at a later renewal than was approved")
            ),
            (
                "overdue", trouble.overdue,
                rows(
                    trouble.overdue, "is", "are",
                    "not sent, and the planned renewal can't be made any more")
            ),
            ("late", late, LateRows.sentence(late) + lateByBatch(facts)),
            (
                "parked", trouble.parked,
                rows(
                    trouble.parked, "waits", "wait",
                    "alone after a refusal or without an answer, to be tried again")
            ),
            (
                "drifted", trouble.drifted,
                rows(
                    trouble.drifted, "ended", "ended",
                    "unsent, since the facts had changed; plan again")
            ),
            (
                "missed", trouble.missed,
                rows(
                    trouble.missed, "ended", "ended",
                    "unsent, since no renewal was left for \(trouble.missed == 1 ? "it" : "them")")
            ),
        ]
        return waves + troubles.filter { $0.1 > 0 }.map { ($0.0, $0.2) }
    }

    /// The batches of the late rows, where all batches were requested.
    private static func lateByBatch(_ facts: StatusFacts) -> String {
        guard facts.batch == nil else { return "" }
        return ": "
            + facts.lateRows.map { "\(counted($0.rows)) of batch \(harmless($0.name))" }
            .joined(separator: ", ")
    }

    static func json(_ facts: StatusFacts) -> JSONValue {
        let trouble = facts.outlook.trouble
        return [
            "moved_rows": trouble.moved, "moved": facts.moved.json(movedColumns),
            "overdue_rows": trouble.overdue,
            "late_rows": facts.knowsLate ? facts.lateRows.reduce(0) { $0 + $1.rows } : nil,
            "parked_rows": trouble.parked, "drifted_rows": trouble.drifted,
            "missed_rows": trouble.missed,
            "waiting_waves": facts.waitingWaves.json(waveColumns),
        ]
    }
}
