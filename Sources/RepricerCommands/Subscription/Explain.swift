import Batches
import Facts
import Pricing
import Reports

extension Commands {
    private static let subscription = Positional(
        "SUBSCRIPTION", "its original transaction id")
    private static let sku = Positional("SKU", "the item")
    private static let newPrice = Positional(
        "NEW_PRICE", "decimal, in the subscription's currency, as 12.99")
    private static let dependents = ValueOption(
        "dependent-skus", "SKUS", "the items that fall with this one, separated by ;")
    private static let notBefore = ValueOption(
        "effective-on-or-after", "DATE", "not at a renewal before this day")

    static let explain = Command(
        "explain", "show the consent verdict for one change: each rule, its inputs, its answer",
        positionals: [subscription, sku, newPrice], options: [asOf, dependents, notBefore],
        discussion:
            "Judges exactly as `plan` would judge the row. Exits 3 when the change cannot go."
    ) { invocation in
        let configuration = try invocation.configuration()
        let known = try invocation.known(asOf)
        let asOf = try await invocation.instant(asOf, configuration)
        let id = try invocation.arguments.required(subscription)
        let planned = try await invocation.withPool(configuration) { pool in
            let configuration = try await configuration.completed(by: pool)
            let environment = try configuration.knownEnvironment()
            let (facts, rules) = try await pool.withTransaction { connection in
                (
                    try SubscriptionQueries.load([id], on: connection)[id]?.facts,
                    try RuleQueries.load(.from, asOf, knownAt: known, on: connection)
                )
            }
            let entry = try fileOfOneRow(
                invocation, currency: facts?.currency, rules: rules.inForce(at: asOf))
            let planner = Planner(
                pool: pool, rules: rules, environment: environment, knownAt: known)
            return try await planner.plan(entries: entry.map { [$0] } ?? [], asOf: asOf)
        }
        guard var row = planned.first else { return .failed }
        // There is no file, so there is no line.
        row.line = 0
        try invocation.print(invocation.isJSON ? row.json + "\n" : explanation(of: row))
        if let fault = row.fault {
            invocation.dependencies.say("\(fault.code.rawValue): \(fault.message); \(fault.remedy)")
        }
        return row.fault == nil ? .done : .inputRejected
    }

    /// The arguments as a batch file, so that no check of a file is left out.
    private static func fileOfOneRow(
        _ invocation: Invocation, currency: String?, rules: RulesInForce
    ) throws -> BatchFileEntry? {
        let arguments = invocation.arguments
        let row: JSONValue = [
            "original_transaction_id": try arguments.required(subscription),
            "sku": try arguments.required(sku), "price": try arguments.required(newPrice),
            // An unknown subscription has no currency. It is refused as unknown, so the value here does not matter.
            "currency": currency ?? "USD", "dependent_skus": arguments[dependents],
            "effective_on_or_after": arguments[notBefore],
        ]
        var reader = try BatchFileReader(
            source: MemoryByteSource(Array(row.text.utf8)), file: "explain", rules: rules)
        return try reader.next()
    }

    private static func explanation(of row: PlanRow) -> String {
        let currency = row.currency ?? ""
        func price(_ milliunits: Int64?) -> String {
            milliunits.map { "\(Reports.price($0, currency: currency)) \(currency)" } ?? "-"
        }
        var text = definitionList([
            ("subscription", row.originalTransactionID), ("sku", row.sku),
            ("storefront", row.storefront ?? "-"), ("period", row.period ?? "-"),
            ("price", "\(price(row.currentPrice)) -> \(price(row.newPrice))"),
            ("direction", row.direction?.rawValue ?? "-"),
            ("consent", row.consent?.rawValue ?? "-"),
            ("reasons", row.reasons.map(\.rawValue).joined(separator: ", ")),
            ("not known", row.notKnown.map(\.rawValue).joined(separator: ", ")),
            ("judged at", row.judgedAt?.text ?? "-"),
            ("turns", row.turn.map { "\($0.consent.rawValue) from \($0.at.text) on" } ?? "-"),
            (
                "facts of",
                (row.factsAt?.text ?? "-")
                    + (row.isStale ? ", stale: a renewal that is known lies behind" : "")
            ), ("known since", row.knownSince?.text ?? "-"),
            ("renewal", row.renewalAt?.text ?? "-"), ("notice", row.noticeAt?.text ?? "-"),
            ("send after", row.sendAfter?.text ?? "-"), ("send by", row.sendBy?.text ?? "-"),
            ("effective", row.effectiveAt?.text ?? "-"),
        ])
        if !row.rules.isEmpty {
            var table = Table([.left("RULE"), .left("ANSWER"), .left("BECAUSE")])
            for rule in row.rules {
                table.add([
                    rule.rule.rawValue, rule.answer.map { $0 ? "yes" : "no" } ?? "not known",
                    RuleInWords(rule, currency: currency, judgedAt: row.judgedAt).text,
                ])
            }
            text += "\n" + table.text
        }
        return text
    }
}
