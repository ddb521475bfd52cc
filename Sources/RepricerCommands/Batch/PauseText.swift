import Batches
import Facts
import Pricing

/// Who stopped what, when and why.
protocol Pausable {
    var isPaused: Bool { get }
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

extension Pausable {
    /// ` since 2026-12-01T00:00:00Z by ana: too many refusals`; empty where nobody noted anything.
    var whoAndWhy: String {
        [
            pausedAt.map { " since \($0.instantText)" }, pausedBy.map { " by \($0)" },
            pausedReason.map { ": \($0)" },
        ].compactMap { $0 }.joined()
    }

    /// null unless it is paused.
    var pauseJSON: JSONValue {
        guard isPaused else { return .null }
        return [
            "by": pausedBy, "at": pausedAt?.instantText, "reason": pausedReason,
            "halted_by": haltedBy,
        ]
    }
}

extension ServiceControlQueries.Everything {
    /// What stands still as a whole, the person's word first; none in ordinary times.
    var headlines: [(String, String)] {
        let pause = isPaused ? "everything\(whoAndWhy); `repricer resume --all`" : nil
        let halt = haltedAt.map {
            "everything since \($0.instantText): \(haltedReason ?? ""); one call a minute asks again"
        }
        let wait = catchUpSince.map { since in
            let reader = catchUpBy.map { "\(harmless($0)) recovers: `repricer recover`" }
            return "no call leaves until the notifications since \(since.instantText) are read; "
                + (reader ?? "the service reads them")
        }
        return [
            pause.map { ("PAUSED", $0) }, halt.map { ("HALTED", $0) },
            wait.map { ("CATCHING UP", $0) },
        ].compactMap { $0 }
    }

    var json: JSONValue {
        let halt: JSONValue = ["at": haltedAt?.instantText, "reason": haltedReason]
        return [
            "paused": isPaused, "pause": pauseJSON, "halted": isHalted,
            "halt": isHalted ? halt : nil,
            "catching_up_since": catchUpSince?.instantText, "recovered_by": catchUpBy,
        ]
    }
}

let storefrontColumns: [Column<ControlQueries.HaltedStorefront>] = [
    .key("storefront") { $0.storefront }, .key("halted_by") { $0.by }, .key("reason") { $0.reason },
    .key("at") { $0.at.instantText },
]

/// What a guard rail has counted, for a person and for a program.
struct GuardReading: Sendable, Equatable {
    let rail: GuardRail
    let count: GuardQueries.Count
    /// nil: just now.
    let countedAt: Int64?

    static let columns: [Column<GuardReading>] = [
        .shown(.left("HALT IF")) { $0.rail.text }, .key("guard") { $0.rail.figure.rawValue },
        .key("over_basis_points") { $0.rail.over }, .key("least") { $0.rail.least },
        .number("NOW", "count") { $0.count.count }, .number("OF", "of") { $0.count.all },
        .shown(.left("COUNTED")) { $0.countedAt?.instantText ?? "now" },
        .key("counted_at") { $0.countedAt?.instantText },
    ]
}
