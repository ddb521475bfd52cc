import Pricing

/// The forecast of a whole batch in numbers.
struct PlanSummary: Sendable {
    /// The changes in one currency, summed over one renewal each.
    struct Money: Sendable {
        var increases = 0
        var decreases = 0
        /// New prices minus current prices, milliunits.
        var difference: Int64 = 0
    }

    private let batch: PlannedBatch
    private(set) var refused: [(code: RowCode, rows: Int)] = []
    private(set) var consent: [(consent: Consent, rows: Int)] = []
    private(set) var money: [String: Money] = [:]
    private(set) var firstSendBy: Instant?
    private(set) var lastEffectiveAt: Instant?

    init(_ batch: PlannedBatch) {
        self.batch = batch
        var codes: [RowCode: Int] = [:]
        var consents: [Consent: Int] = [:]
        for row in batch.rows {
            if let code = row.code {
                codes[code, default: 0] += 1
                continue
            }
            if let consent = row.consent { consents[consent, default: 0] += 1 }
            add(row)
            firstSendBy = [firstSendBy, row.sendBy].compactMap { $0 }.min()
            lastEffectiveAt = [lastEffectiveAt, row.effectiveAt].compactMap { $0 }.max()
        }
        refused = RowCode.allCases.compactMap { code in codes[code].map { (code, $0) } }
        consent = Consent.allCases.compactMap { kind in consents[kind].map { (kind, $0) } }
    }

    private mutating func add(_ row: PlanRow) {
        guard let currency = row.currency, let current = row.currentPrice, let new = row.newPrice
        else { return }
        var sum = money[currency] ?? Money()
        // Prices are far below the limit, but a sum of bad data must not trap.
        sum.difference = sum.difference.addingReportingOverflow(new &- current).partialValue
        if new > current { sum.increases += 1 } else { sum.decreases += 1 }
        money[currency] = sum
    }

    var text: String {
        var text = definitionList([
            ("file", batch.shownFile),
            ("as of", "\(batch.asOf.text) (\(batch.environment.rawValue))"),
            (
                "rows",
                "\(batch.rows.count): \(batch.canGoCount) can go, \(batch.refused.count) refused"
            ),
            ("send by", firstSendBy.map { "\($0.text), the earliest" } ?? "-"),
            ("effective", lastEffectiveAt.map { "\($0.text), the last" } ?? "-"),
            ("plan hash", batch.hash),
        ])
        if !consent.isEmpty {
            var table = Table([.left("CONSENT"), .right("ROWS")])
            for entry in consent { table.add([entry.consent.rawValue, "\(entry.rows)"]) }
            text += "\n" + table.text
        }
        if !money.isEmpty {
            var table = Table([
                .left("CURRENCY"), .right("INCREASES"), .right("DECREASES"),
                .right("DIFFERENCE OF ONE RENEWAL EACH"),
            ])
            for (currency, sum) in money.sorted(by: { $0.key < $1.key }) {
                table.add([
                    currency, "\(sum.increases)", "\(sum.decreases)",
                    shownPrice(sum.difference, currency: currency),
                ])
            }
            text += "\n" + table.text
        }
        if !refused.isEmpty {
            var table = Table([.left("REFUSED"), .right("ROWS")])
            for entry in refused { table.add([entry.code.rawValue, "\(entry.rows)"]) }
            text += "\n" + table.text
        }
        return text
    }

    var json: JSONValue {
        let sums = money.sorted { $0.key < $1.key }.map { currency, sum in
            JSONValue.object([
                "currency": .string(currency), "increases": .integer(Int64(sum.increases)),
                "decreases": .integer(Int64(sum.decreases)),
                "difference_milliunits": .integer(sum.difference),
            ])
        }
        return .object([
            "plan_hash": .string(batch.hash), "as_of": .string(batch.asOf.text),
            "environment": .string(batch.environment.rawValue),
            "rows": .integer(Int64(batch.rows.count)),
            "can_go": .integer(Int64(batch.canGoCount)),
            "refused": .integer(Int64(batch.refused.count)),
            "rejected_rows": .counts(refused.map { ($0.code.rawValue, $0.rows) }),
            "consent": .counts(consent.map { ($0.consent.rawValue, $0.rows) }),
            "currencies": .array(sums),
            "first_send_by": .text(firstSendBy?.text),
            "last_effective_at": .text(lastEffectiveAt?.text),
        ])
    }
}

extension JSONValue {
    static func counts(_ pairs: [(String, Int)]) -> JSONValue {
        .object(pairs.map { Member(name: $0.0, value: .integer(Int64($0.1))) })
    }

    static func counts(_ counts: [String: Int64]) -> JSONValue {
        .object(
            counts.sorted { $0.key < $1.key }
                .map { Member(name: $0.key, value: .integer($0.value)) })
    }
}

/// A price in its currency's own decimals.
func shownPrice(_ milliunits: Int64, currency: String) -> String {
    let decimals = Currency.apple.first { $0.code == currency }?.decimals ?? 2
    return PriceText.decimal(milliunits, decimals: decimals)
}
