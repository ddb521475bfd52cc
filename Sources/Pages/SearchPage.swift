import Facts
import HTTP
import Reports
import ServiceKit

func encoded(_ text: String) -> String { PercentCoding.encode(text) }

extension Site {
    static let searchMax = 128
    private static let resultsMax = 50
    /// How long the search for an item may take. There is no index for it.
    private static let itemMilliseconds = 2000

    func searchPage(_ query: [String: [String]]) async throws -> Answer {
        let now = clock.nowMilliseconds()
        let text = (query["q"]?.last ?? "").trimmed
        guard text.unicodeScalars.count <= Self.searchMax else {
            throw PageFault(
                400, "This is too long to search for",
                "The search takes up to \(Self.searchMax) characters: an original transaction id, a customer token, an item's "
                    + "SKU, or a batch's id or name.")
        }
        guard !text.isEmpty else {
            return .page(
                Page(title: "Search", body: section("What can be found", Self.help), asOf: now))
        }
        guard text.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control }) else {
            throw PageFault(
                400, "This cannot be searched for",
                "It has characters that no id and no name has. Type it anew.")
        }
        let (isSubscription, batches, customers) = try await pool.read { connection in
            (
                try SubscriptionPageQueries.isKnown(text, on: connection),
                try SubscriptionPageQueries.batches(
                    named: text, limit: Self.resultsMax, on: connection),
                try SubscriptionPageQueries.ofCustomer(
                    text, limit: Self.resultsMax, on: connection)
            )
        }
        if isSubscription { return .redirect(subscriptionAddress(text)) }
        // A customer's token is no item, and no item has a space. If a batch was found, items are searched only on
        // request, because there is no index for them.
        let mayBeItem =
            customers.isEmpty && !text.isUUID && !text.contains(where: \.isWhitespace)
        let isAsked = batches.isEmpty || query["items"]?.last == "yes"
        let items = mayBeItem && isAsked ? try await ofItem(text) : .some([])
        let itemSection: HTML =
            mayBeItem && !isAsked
            ? """
            <p>They were not looked for, since a batch was found:
            <a href="/search?q=\(encoded(text))&amp;items=yes">look for them</a>.</p>

            """
            : items.map { Self.table($0) }
                ?? "<p>Looking for it took too long: search for a subscription or a customer instead.</p>\n"
        let list = HTMLTable(
            "Batches", [.text("Batch"), .text("Id")],
            batches.map { [.link(batchAddress($0.id), $0.name), "<code>\($0.id)</code>"] })
        let body =
            section("Batches with this name or id", list.html)
            + section("Subscriptions of this customer", Self.table(customers))
            + section("Subscriptions with this item", itemSection)
        let isNothing = batches.isEmpty && customers.isEmpty && items?.isEmpty == true
        return .page(
            Page(
                title: "Search: \(text)",
                lead: isNothing
                    ? "<p class=\"lead\">Nothing was found.</p>\n"
                    : "<p class=\"lead\">Up to \(Self.resultsMax) of each kind.</p>\n",
                body: isNothing ? section("What can be found", Self.help) : body, asOf: now))
    }

    /// The subscriptions with the item; nil where the search took too long.
    private func ofItem(_ text: String) async throws -> [SubscriptionPageQueries.Found]? {
        do {
            return try await pool.withTransaction { connection in
                try SubscriptionPageQueries.ofItem(
                    text, limit: Self.resultsMax, milliseconds: Self.itemMilliseconds,
                    on: connection)
            }
        } catch let error as DatabaseServerError where error.sqlState == .queryCanceled {
            return nil
        }
    }

    private static func table(_ found: [SubscriptionPageQueries.Found]) -> HTML {
        HTMLTable(
            "Subscriptions",
            [
                .text("Subscription"), .text("State"), .text("Product"), .text("Items"),
                .text("Storefront"), .text("Renewal"),
            ],
            found.map { one in
                [
                    subscriptionLink(one.id), HTML(statusWords(one.status)),
                    HTML(one.productID ?? ""), HTML(one.skus), HTML(one.storefront ?? ""),
                    .time(one.renewalAt),
                ]
            }
        ).html
    }

    private static let help: HTML = """
        <ul><li>a subscription, by its original transaction id</li>
        <li>a customer, by the token that your app gave them (a UUID)</li>
        <li>an item, by its whole SKU</li>
        <li>a batch, by its id, the first eight characters of it, or a part of its name</li></ul>

        """
}

extension String {
    fileprivate var trimmed: String {
        let start = drop { $0.isWhitespace }
        return start.lastIndex { !$0.isWhitespace }.map { String(start[...$0]) } ?? ""
    }
}
