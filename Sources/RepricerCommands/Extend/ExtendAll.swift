import Extensions
import Pricing
import ServiceKit

extension Commands {
    private static let product = ValueOption(
        "product", "ID", "the subscription product, as App Store Connect names it",
        isRequired: true)
    private static let storefronts = ValueOption(
        "storefronts", "LIST", "only these, as USA,CAN; all when left out")

    static let extendAll = Command(
        "extend all", "extend the renewal dates of all subscribers of a product",
        options: [product, storefronts, days, extensionReason, extensionNote, requestID],
        discussion: """
            Counts whom the facts hold eligible, and waits for another database user's `repricer approve ID`. The App \
            Store then works for hours or days; each subscription is told one by one, and a summary at the end. One \
            at a time for a product. `extend retry-failed ID` asks for the failed ones anew.
            """
    ) { invocation in
        let arguments = invocation.arguments
        let productID = try ExtensionArguments.productID(try arguments.required(product))
        let only = try ExtensionArguments.storefronts(arguments[storefronts])
        let terms = try ExtensionArguments.terms(arguments)
        let note = try ExtensionArguments.note(arguments)
        let requestID = try ExtensionArguments.requestID(arguments)
        return try await invocation.withDatabase { pool, now in
            let forecast = try await invocation.telling("counting the subscriptions") {
                try await ExtensionForecast.count(
                    productID: productID, storefronts: only, now: Instant(milliseconds: now),
                    pool: pool)
            }
            guard forecast.total > 0 else {
                throw CommandFailure(
                    .inputRejected,
                    "unknown_product: no subscription of \(quoted(productID)) "
                        + (only == nil ? "is known" : "is known in these storefronts"))
            }
            let ineligible = Dictionary(
                uniqueKeysWithValues: forecast.ineligible.map { ($0.key.rawValue, $0.value) })
            let isNew = try await pool.withTransaction { connection in
                try ExtensionQueries.requestMass(
                    requestID, productID: productID, storefronts: only, terms, note: note,
                    eligible: forecast.eligible, ineligible: ineligible.json.text, at: now,
                    on: connection)
            }
            let asked =
                "\(requestID): \(forecast.eligible) of \(forecast.total) subscriptions of "
                + "\(productID) by \(terms.days) days\n" + notEligible(ineligible)
                + "waits for another user: repricer approve \(requestID)\n"
            try invocation.print(
                json: [
                    "extension_id": requestID, "product_id": productID, "days": terms.days,
                    "is_new": isNew, "eligible": forecast.eligible, "ineligible": ineligible,
                ], isNew ? asked : askedBefore(requestID))
            return .done
        }
    }

    static func askedBefore(_ requestID: String) -> String {
        "\(requestID) was asked for before; nothing new\n"
    }

    static func notEligible(_ counts: [String: Int64]) -> String {
        counts.sorted { $0.key < $1.key }.map { "  not eligible: \($1) \($0)\n" }.joined()
    }
}
