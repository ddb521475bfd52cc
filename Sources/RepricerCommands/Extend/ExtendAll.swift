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
        let configuration = try invocation.configuration()
        let now = try await invocation.now(configuration)
        let requestID = try ExtensionArguments.requestID(
            arguments, now: SystemClock().nowMilliseconds())
        return try await invocation.withPool(configuration) { pool in
            let forecast = try await ExtensionForecast.count(
                productID: productID, storefronts: only, now: now, pool: pool)
            guard forecast.total > 0 else {
                throw CommandFailure(
                    .inputRejected,
                    "unknown_product: no subscription of \(quoted(productID)) "
                        + (only == nil ? "is known" : "is known in these storefronts"))
            }
            let ineligible = JSONValue.counts(
                Dictionary(
                    uniqueKeysWithValues: forecast.ineligible.map { ($0.key.rawValue, $0.value) }))
            let new = ExtensionQueries.NewMass(
                extensionID: requestID, productID: productID, storefronts: only, terms: terms,
                note: note, eligible: forecast.eligible, ineligible: ineligible.text)
            let isNew = try await pool.withTransaction { connection in
                try ExtensionQueries.request(new, at: now.milliseconds, on: connection)
            }
            if invocation.isJSON {
                try invocation.print(
                    .object([
                        "extension_id": .string(requestID), "product_id": .string(productID),
                        "days": .integer(Int64(terms.days)), "is_new": .bool(isNew),
                        "eligible": .integer(forecast.eligible), "ineligible": ineligible,
                    ]))
            } else {
                try invocation.print(text(new, forecast, isNew: isNew))
            }
            return .done
        }
    }

    private static func text(
        _ new: ExtensionQueries.NewMass, _ forecast: ExtensionForecast, isNew: Bool
    ) -> String {
        guard isNew else { return "\(new.extensionID) was asked for before; nothing new\n" }
        var text =
            "\(new.extensionID): \(forecast.eligible) of \(forecast.total) subscriptions of "
            + "\(new.productID) by \(new.terms.days) days\n"
        for (obstacle, count) in forecast.ineligible.sorted(by: {
            $0.key.rawValue < $1.key.rawValue
        }) {
            text += "  not eligible: \(count) \(obstacle.rawValue)\n"
        }
        return text + "waits for another user: repricer approve \(new.extensionID)\n"
    }
}
