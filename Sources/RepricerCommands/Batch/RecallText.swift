import Batches
import Pricing
import Reports

/// Which changes that Apple has can still be undone, and until when, and which cannot.
struct Recall: Sendable {
    let takeable: [UndoQueries.Takeable]
    let beyond: [UndoQueries.Beyond]
    let now: Instant

    var rows: Int64 { takeable.reduce(0) { $0 + $1.rows } }

    static let itemColumns: [Column<UndoQueries.Takeable>] = [
        .text("ITEM", "sku") { $0.sku }, .text("CURRENCY", "currency") { $0.currency },
        .count("ROWS", "rows") { $0.rows },
        .shown(.left("ALL UNTIL")) { until($0.firstUntil) },
        .key("first_until") { $0.firstUntil.instantText },
        .shown(.left("THE LAST UNTIL")) { until($0.lastUntil) },
        .key("last_until") { $0.lastUntil.instantText },
    ]

    /// A screen has room only for the minute. Cutting the seconds never shows a later time.
    private static func until(_ at: Int64) -> String {
        Screen.columns == nil ? at.instantText : at.instantText.prefix(16) + "Z"
    }

    private static let beyondColumns: [Column<UndoQueries.Beyond>] = [
        .key("day") { $0.day }, .key("state") { $0.state },
        .key("obstacle") { $0.obstacle.rawValue },
        .key("rows") { $0.rows },
    ]

    /// `until 2026-12-01T00:00:00Z, the last until …`; empty where there is nothing.
    var untilText: String {
        guard let first = takeable.map(\.firstUntil).min(),
            let last = takeable.map(\.lastUntil).max()
        else { return "" }
        return "until \(first.instantText)"
            + (first == last ? "" : ", the last of them until \(last.instantText)")
    }

    /// One line each: first those whose outcome is open, then those that can no longer be taken back.
    var beyondText: String {
        let sorted = beyond.filter(\.isOpen) + beyond.filter { !$0.isOpen }
        return sorted.map { $0.text(today: now.day.text) }.joined()
    }

    /// The states of those that can no longer be taken back.
    private var pastRecall: [String: Int64] {
        beyond.filter { !$0.isOpen }.reduce(into: [:]) { $0[$1.state, default: 0] += $1.rows }
    }

    var json: JSONValue {
        [
            "undo": [
                "rows": rows, "first_until": takeable.map(\.firstUntil).min()?.instantText,
                "last_until": takeable.map(\.lastUntil).max()?.instantText,
                "items": takeable.json(Self.itemColumns),
            ] as JSONValue, "past_recall": pastRecall,
            "communicated_on": beyond.json(Self.beyondColumns),
        ]
    }
}

extension UndoQueries.Beyond {
    /// Whether an undo may still take it back, or already does.
    fileprivate var isOpen: Bool { obstacle == .inFlight || obstacle == .undoUnderWay }

    fileprivate func text(today: String) -> String {
        switch obstacle {
        case .inFlight:
            "in flight: \(counted(rows)) \(spaced(state)); `repricer undo` can take them back once they are scheduled\n"
        case .undoUnderWay:
            "being taken back: \(counted(rows)) \(spaced(state)), by an undo under way\n"
        case .isAnUndo, .notSent, .alreadyEffective, .alreadyCommunicated, .hasEnded:
            "past recall: \(counted(rows)) \(spaced(state)), "
                + (day.map { "the customer \(verb(on: $0, today)) told on \($0)" }
                    ?? "nobody is told") + "\n"
        }
    }

    /// Of a scheduled change only the plan is known: Apple has not said that it told the customer.
    private func verb(on day: String, _ today: String) -> String {
        day >= today ? "is" : state == ChangeState.scheduled.rawValue ? "was to be" : "was"
    }
}
