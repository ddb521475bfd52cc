import Batches
import Facts
import Pricing

/// Who stopped what, when and why.
protocol Pausable {
    var isPaused: Bool { get }
    var pausedBy: String? { get }
    var pausedAt: Int64? { get }
    var pausedReason: String? { get }
    /// What halted it, where no person paused it.
    var haltedBy: String? { get }
    /// The person who paused it while it was halted.
    var alsoPausedBy: String? { get }
    var alsoPausedAt: Int64? { get }
    var alsoPausedReason: String? { get }
    /// When the next probe may be sent, and the answer with which the latest one was refused.
    var probeAt: Int64? { get }
    var probeAnswer: String? { get }
}

extension BatchQueries.Batch: Pausable {
    /// Whether a code of the App Store's halted it, and not a guard.
    var isHaltedByCode: Bool {
        isPaused && haltedBy?.first.map { $0.isASCII && $0.isNumber } ?? false
    }
}
extension ServiceControlQueries.Everything: Pausable {
    var haltedBy: String? { nil }
    var alsoPausedBy: String? { nil }
    var alsoPausedAt: Int64? { nil }
    var alsoPausedReason: String? { nil }
    var probeAt: Int64? { nil }
    var probeAnswer: String? { nil }
}

extension Pausable {
    /// ` since 2026-12-01T00:00:00Z by ana: too many refusals`; empty where nothing was recorded.
    var whoAndWhy: String {
        [
            pausedAt.map { " since \($0.instantText)" }, pausedBy.map { " by \($0)" },
            pausedReason.map { ": \($0)" }, probeAnswer.map { "; \(alsoRefused($0))" },
            probeAt.map { "; the next call asks at \($0.instantText)" },
            alsoPausedBy.map { "; also paused\(alsoPausedSince) by \($0)" },
            alsoPausedReason.map { ": \($0)" },
        ].compactMap { $0 }.joined()
    }

    private var alsoPausedSince: String {
        alsoPausedAt.map { " since \($0.instantText)" } ?? ""
    }

    private var alsoPausedJSON: JSONValue {
        guard let alsoPausedBy else { return .null }
        return ["by": alsoPausedBy, "at": alsoPausedAt?.instantText, "reason": alsoPausedReason]
    }

    /// The JSON; null unless it is paused.
    var pauseJSON: JSONValue {
        guard isPaused else { return .null }
        return [
            "by": pausedBy, "at": pausedAt?.instantText, "reason": pausedReason,
            "halted_by": haltedBy, "probe_at": probeAt?.instantText, "probe_answer": probeAnswer,
            "also_paused": alsoPausedJSON,
        ]
    }
}

/// The answer with which the latest probe was refused.
private func alsoRefused(_ answer: String) -> String {
    "the latest call that asked was refused with \(answer)"
}

/// Kinds of call in the words of people.
private func plural(_ kind: String) -> String {
    switch StoreCall.Kind(rawValue: kind) {
    case .priceChange: "price changes"
    case .cancel: "cancellations"
    case .renewalExtension: "extensions"
    case .massExtension: "mass extensions"
    case nil: kind
    }
}

extension ServiceControlQueries.Everything {
    /// What is paused or halted as a whole, with a person's pause first; usually empty.
    var headlines: [(String, String)] {
        let pause = isPaused ? "everything\(whoAndWhy); `repricer resume --all`" : nil
        let halt = haltedAt.map {
            Self.halt(
                isServiceHalted(.cancel)
                    ? "everything" : plural(StoreCall.Kind.priceChange.rawValue),
                at: $0, haltedReason ?? "", haltedAnswer)
        }
        let wait = catchUpSince.map { since in
            let reader = catchUpBy.map { "\(harmless($0)) recovers: `repricer recover`" }
            return "no call leaves until the notifications since \(since.instantText) are read; "
                + (reader ?? "the service reads them")
                + (catchUpAnswer.map { "; the latest reading stopped: \(harmless($0))" } ?? "")
        }
        let kinds = haltedKinds.map {
            ("HALTED", Self.halt(plural($0.kind), at: $0.at, $0.reason, $0.answer))
        }
        return [pause.map { ("PAUSED", $0) }, halt.map { ("HALTED", $0) }].compactMap { $0 }
            + kinds + throttledKinds.map { ("THROTTLED", $0.text) }
            + unreachedKinds.map { ("UNREACHABLE", $0.text) }
            + [blocked.map { ("BLOCKED", $0) }].compactMap { $0 }
            + [wait.map { ("CATCHING UP", $0) }].compactMap { $0 }
    }

    private var blocked: String? {
        heldSince.map { since in
            let by = harmless(heldBy ?? "a session of this database user")
            return heldIsAll
                ? "changes are due since \(since.instantText) and none can be claimed: their rows are held by \(by)"
                : "rows are held since \(since.instantText) by \(by); what concerns them waits, and all else goes on"
        }
    }

    private static func halt(
        _ what: String, at: Int64, _ reason: String, _ answer: String?
    ) -> String {
        let latest = answer.map { "; \(alsoRefused($0))" } ?? ""
        return "\(what) since \(at.instantText): \(reason)\(latest); one call a minute asks again"
    }

    var json: JSONValue {
        let halt: JSONValue = [
            "at": haltedAt?.instantText, "reason": haltedReason, "answer": haltedAnswer,
        ]
        return [
            "paused": isPaused, "pause": pauseJSON, "halted": isHalted,
            "halt": isHalted ? halt : nil,
            "catching_up_since": catchUpSince?.instantText, "recovered_by": catchUpBy,
            "catching_up_answer": catchUpAnswer,
            "halted_kinds": haltedKinds.json(Self.haltColumns),
            "throttled_kinds": throttledKinds.json(Self.throttleColumns),
            "unreached_kinds": unreachedKinds.json(Self.unreachedColumns),
            "due_unclaimed_since": heldIsAll ? heldSince?.instantText : nil,
            "held_since": heldSince?.instantText, "held_by": heldBy,
        ]
    }

    private static let haltColumns: [Column<ServiceControlQueries.KindHalt>] = [
        .key("kind") { $0.kind }, .key("at") { $0.at.instantText }, .key("reason") { $0.reason },
        .key("answer") { $0.answer },
    ]

    private static let unreachedColumns: [Column<ServiceControlQueries.KindUnreached>] = [
        .key("kind") { $0.kind }, .key("since") { $0.since.instantText },
        .key("tried") { $0.tried.instantText }, .key("answer") { $0.answer },
    ]

    private static let throttleColumns: [Column<ServiceControlQueries.KindThrottle>] = [
        .key("kind") { $0.kind }, .key("since") { $0.since.instantText },
        .key("until") { $0.until.instantText }, .key("answer") { $0.answer },
    ]
}

extension ServiceControlQueries.KindUnreached {
    fileprivate var text: String {
        "\(plural(kind)) since \(since.instantText): no call leaves, the latest try was at \(tried.instantText): "
            + "\(harmless(answer)); nothing is lost, and each is tried again"
    }
}

extension ServiceControlQueries.KindThrottle {
    fileprivate var text: String {
        "\(plural(kind)) since \(since.instantText): the App Store gives no usable answers (the latest: \(harmless(answer))); "
            + "the next call leaves at \(until.instantText), or later, one at a time until one is answered"
    }
}

let storefrontColumns: [Column<ControlQueries.HaltedStorefront>] = [
    .key("batch") { $0.batchName }, .key("storefront") { $0.storefront },
    .key("halted_by") { $0.by }, .key("reason") { $0.reason }, .key("at") { $0.at.instantText },
    .key("probe_at") { $0.probeAt?.instantText }, .key("probe_answer") { $0.probeAnswer },
]

extension ControlQueries.HaltedStorefront {
    /// `isOfAll` says that it is listed with those of other batches.
    func text(isOfAll: Bool) -> String {
        let place = isOfAll ? "\(storefront) of batch \(harmless(batchName))" : storefront
        return [
            "\(place) since \(at.instantText): \(reason)",
            latestProbe,
            probeAt.map { "the next row asks at \($0.instantText)" },
            "`repricer resume BATCH` lets it go on at once",
        ].compactMap { $0 }.joined(separator: "; ")
    }
}

/// The count of a guard rail, for a person and for a program.
struct GuardReading: Sendable, Equatable {
    let rail: GuardRail
    let count: GuardQueries.Count
    /// When it was counted; nil for just now.
    let countedAt: Int64?

    static let columns: [Column<GuardReading>] = [
        .shown(.left("HALT IF")) { $0.rail.text }, .key("guard") { $0.rail.figure.rawValue },
        .key("over_basis_points") { $0.rail.over }, .key("least") { $0.rail.least },
        .number("NOW", "count") { $0.count.count }, .number("OF", "of") { $0.count.all },
        .shown(.left("COUNTED")) { $0.countedAt?.instantText ?? "now" },
        .key("counted_at") { $0.countedAt?.instantText },
    ]
}
