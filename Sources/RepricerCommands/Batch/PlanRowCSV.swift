import Batches
import Pricing

/// The rows of a plan as CSV, with the keys of the JSON except the rules. The elements of a list are separated by
/// blanks.
enum PlanRowCSV {
    private static let columns: [(name: String, value: @Sendable (PlanRow) -> String?)] = [
        ("line", { $0.line > 0 ? "\($0.line)" : nil }),
        ("original_transaction_id", { $0.originalTransactionID }), ("sku", { $0.sku }),
        ("code", { $0.code?.rawValue }), ("direction", { $0.direction?.rawValue }),
        ("currency", { $0.currency }), ("storefront", { $0.storefront }),
        ("period", { $0.period }),
        ("current_price_milliunits", { $0.currentPrice.map(String.init) }),
        ("new_price_milliunits", { $0.newPrice.map(String.init) }),
        ("seats", { $0.knownSeats.map(String.init) }),
        ("consent", { $0.consent?.rawValue }), ("reasons", { list($0.reasons.map(\.rawValue)) }),
        ("not_known", { list($0.notKnown.map(\.rawValue)) }),
        ("consent_turns_at", { $0.turn?.at.text }),
        ("consent_turns_to", { $0.turn?.consent.rawValue }),
        ("judged_at", { $0.judgedAt?.text }), ("facts_at", { $0.factsAt?.text }),
        ("known_since", { $0.knownSince?.text }), ("stale", { "\($0.isStale)" }),
        ("faults", { list($0.faults.map(\.rawValue)) }),
        ("at_risk_milliunits", { $0.atRisk.map(String.init) }),
        ("at_risk_elsewhere", { list($0.atRiskElsewhere.map(charge)) }),
        ("renewal_at", { $0.renewalAt?.text }), ("notice_at", { $0.noticeAt?.text }),
        ("send_after", { $0.sendAfter?.text }), ("send_by", { $0.sendBy?.text }),
        ("effective_at", { $0.effectiveAt?.text }),
        ("threshold_source", { $0.thresholdSource?.rawValue }),
        ("dependent_skus", { list($0.dependentSKUs) }),
        ("expected_price_milliunits", { $0.expectedPrice.map(String.init) }),
        ("effective_on_or_after", { $0.effectiveOnOrAfter?.text }),
        ("message", { $0.fault?.message }), ("remedy", { $0.fault?.remedy }),
    ]

    static func header(_ waves: WavePlan?) -> String {
        CSVText.record(columns.map(\.name) + (waves == nil ? [] : ["wave"]))
    }

    static func record(_ row: PlanRow, _ waves: WavePlan?) -> String {
        let cells = columns.map { $0.value(row) ?? "" }
        let wave = waves.map { [self.wave(row, $0).map(String.init) ?? ""] } ?? []
        return CSVText.record(cells + wave)
    }

    /// The row's wave; nil for a refused row.
    static func wave(_ row: PlanRow, _ waves: WavePlan) -> Int? {
        guard row.fault == nil else { return nil }
        return waves.wave(
            ofSubscription: row.originalTransactionID, storefront: row.storefront)
    }

    private static func list(_ elements: [String]) -> String {
        elements.joined(separator: " ")
    }

    /// The charge as `SUBSCRIPTION/SKU:MILLIUNITS:CURRENCY:PERIOD`.
    private static func charge(_ charge: ItemCharge) -> String {
        "\(charge.originalTransactionID)/\(charge.sku):\(charge.amount):\(charge.currency):"
            + charge.period
    }
}
