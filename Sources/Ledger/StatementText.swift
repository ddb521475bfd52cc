import JSONReading
import Pricing

/// `subscription_events.statement`: the JSON that `Codable` would make of a statement, written and read without
/// it. A fold writes thousands a second and a late statement reads all of a subscription's: a general coder takes
/// ten times as long.
enum StatementText {
    static func text(_ event: SubscriptionEvent) -> String {
        var json = JSONWriter()
        json.object {
            $0.key("key") {
                $0.object {
                    $0.text("evidenceID", event.key.evidenceID)
                    $0.number("signedAt", event.key.signedAt.milliseconds)
                }
            }
            $0.text("source", event.source.rawValue)
            $0.text("originalTransactionID", event.originalTransactionID)
            $0.text("type", event.type)
            $0.text("subtype", event.subtype)
            $0.number("status", event.status.map { Int64($0) })
            if let transaction = event.transaction {
                $0.key("transaction") { Self.write(transaction, &$0) }
            }
            if let renewal = event.renewal { $0.key("renewal") { Self.write(renewal, &$0) } }
            if let ignored = event.ignored { $0.texts("ignored", ignored) }
            if let legacy = event.legacy { $0.key("legacy") { Self.write(legacy, &$0) } }
        }
        return json.text
    }

    /// As `subscriptions.increases` keeps them.
    static func text(_ increases: [RecordedIncrease]) -> String {
        var json = JSONWriter()
        json.list(increases) { increase, json in
            json.object {
                $0.text("sku", increase.sku)
                $0.number("price", increase.price)
                $0.number("communicatedAt", increase.communicatedAt?.milliseconds)
                $0.number("effectiveAt", increase.effectiveAt?.milliseconds)
                $0.text("origin", increase.origin?.rawValue)
                $0.number("consentAskedAt", increase.consentAskedAt?.milliseconds)
                $0.number("acceptedAt", increase.acceptedAt?.milliseconds)
                $0.number("refusedAt", increase.refusedAt?.milliseconds)
            }
        }
        return json.text
    }

    private static func write(_ transaction: TransactionStatement, _ json: inout JSONWriter) {
        json.object {
            $0.text("transactionID", transaction.transactionID)
            $0.text("productID", transaction.productID)
            $0.text("appAccountToken", transaction.appAccountToken)
            $0.text("ownershipType", transaction.ownershipType)
            $0.number("purchasedAt", transaction.purchasedAt?.milliseconds)
            $0.number("originalPurchaseAt", transaction.originalPurchaseAt?.milliseconds)
            $0.number("expiresAt", transaction.expiresAt?.milliseconds)
            $0.number("revokedAt", transaction.revokedAt?.milliseconds)
            $0.text("reason", transaction.reason)
            $0.text("storefront", transaction.storefront)
            $0.text("currency", transaction.currency)
            $0.number("price", transaction.price)
            $0.text("period", transaction.period)
            $0.text("offerDiscountType", transaction.offerDiscountType)
            $0.list("items", transaction.items) { item, json in
                json.object {
                    $0.text("sku", item.sku)
                    $0.number("price", item.price)
                    $0.number("offerPrice", item.offerPrice)
                    $0.text("offerPeriod", item.offerPeriod)
                    $0.number("offerPeriodCount", item.offerPeriodCount.map { Int64($0) })
                    $0.text("offerReason", item.offerReason)
                    $0.number("revokedAt", item.revokedAt?.milliseconds)
                }
            }
        }
    }

    private static func write(_ renewal: RenewalStatement, _ json: inout JSONWriter) {
        json.object {
            $0.text("productID", renewal.productID)
            $0.number("autoRenewStatus", renewal.autoRenewStatus.map { Int64($0) })
            $0.flag("isInBillingRetry", renewal.isInBillingRetry)
            $0.number("expirationIntent", renewal.expirationIntent.map { Int64($0) })
            $0.number("gracePeriodExpiresAt", renewal.gracePeriodExpiresAt?.milliseconds)
            $0.number("renewalAt", renewal.renewalAt?.milliseconds)
            $0.number("recentSubscriptionStartAt", renewal.recentSubscriptionStartAt?.milliseconds)
            $0.text("currency", renewal.currency)
            $0.text("appAccountToken", renewal.appAccountToken)
            $0.text("consistencyToken", renewal.consistencyToken)
            $0.text("period", renewal.period)
            guard let items = renewal.items else { return }
            $0.list("items", items) { item, json in
                json.object {
                    $0.text("sku", item.sku)
                    $0.number("price", item.price)
                    $0.number("offerPrice", item.offerPrice)
                    $0.text("offerPeriod", item.offerPeriod)
                    $0.number("offerPeriodCount", item.offerPeriodCount.map { Int64($0) })
                    $0.text("offerReason", item.offerReason)
                    $0.text("increaseStatus", item.increaseStatus)
                    $0.number("increasePrice", item.increasePrice)
                    if let skus = item.dependentSKUs { $0.texts("dependentSKUs", skus) }
                }
            }
        }
    }

    private static func write(_ legacy: LegacyStatement, _ json: inout JSONWriter) {
        json.object {
            $0.flag("autoRenews", legacy.autoRenews)
            $0.flag("isInBillingRetry", legacy.isInBillingRetry)
            $0.number("gracePeriodExpiresAt", legacy.gracePeriodExpiresAt?.milliseconds)
            $0.number("expiresAt", legacy.expiresAt?.milliseconds)
        }
    }

    /// `subscriptions.items`, as `StoredItems` reads it.
    static func text(_ items: [SubscriptionFacts.Item]) -> String {
        var json = JSONWriter()
        json.list(items) { item, json in
            json.object {
                $0.text("sku", item.sku)
                $0.number("currentPrice", item.currentPrice)
                $0.number("renewalPrice", item.renewalPrice)
                $0.flag("renews", item.renews)
                $0.text("chargedAs", item.chargedAs)
                if let offer = item.offer {
                    $0.key("offer") {
                        $0.object {
                            $0.number("price", offer.price)
                            $0.text("period", offer.period)
                            $0.number("periodsLeft", offer.periodsLeft.map { Int64($0) })
                            $0.text("reason", offer.reason)
                            $0.flag("isRunning", offer.isRunning)
                        }
                    }
                }
                if let increase = item.increase {
                    $0.key("increase") {
                        $0.object {
                            $0.text("status", increase.status)
                            $0.number("price", increase.price)
                            $0.texts("dependentSKUs", increase.dependentSKUs)
                        }
                    }
                }
            }
        }
        return json.text
    }

    static func event(_ text: String) throws(LedgerError) -> SubscriptionEvent {
        guard let node = JSONDocument.read(Array(text.utf8)), let event = event(node) else {
            // Of another shape than this program writes: the general decoder reads it, or says why not.
            return try JSONText.decode(SubscriptionEvent.self, text)
        }
        return event
    }

    private static func event(_ node: JSONNode) -> SubscriptionEvent? {
        guard let key = node["key"], let evidenceID = key["evidenceID"]?.text,
            let signedAt = key["signedAt"]?.int64,
            let source = node["source"]?.text.flatMap(SubscriptionEvent.Source.init(rawValue:)),
            let id = node["originalTransactionID"]?.text
        else { return nil }
        var event = SubscriptionEvent(
            key: .init(signedAt: Instant(milliseconds: signedAt), evidenceID: evidenceID),
            source: source, originalTransactionID: id)
        var isKnown = true
        node.forEachMember { name, value in
            if name.holds("type") {
                event.type = value.text
            } else if name.holds("subtype") {
                event.subtype = value.text
            } else if name.holds("status") {
                event.status = value.int
            } else if name.holds("transaction") {
                event.transaction = transaction(value)
                isKnown = isKnown && event.transaction != nil
            } else if name.holds("renewal") {
                event.renewal = renewal(value)
                isKnown = isKnown && event.renewal != nil
            } else if name.holds("ignored") {
                event.ignored = value.elements?.compactMap(\.text)
            } else if !name.holds("key"), !name.holds("source"),
                !name.holds("originalTransactionID")
            {
                isKnown = false
            }
        }
        return isKnown ? event : nil
    }

    private static func transaction(_ node: JSONNode) -> TransactionStatement? {
        guard let nodes = node["items"]?.elements else { return nil }
        var items: [TransactionStatement.Item] = []
        for item in nodes {
            guard let sku = item["sku"]?.text else { return nil }
            items.append(
                TransactionStatement.Item(
                    sku: sku, price: item["price"]?.int64, offerPrice: item["offerPrice"]?.int64,
                    offerPeriod: item["offerPeriod"]?.text,
                    offerPeriodCount: item["offerPeriodCount"]?.int,
                    offerReason: item["offerReason"]?.text, revokedAt: item["revokedAt"]?.instant))
        }
        return TransactionStatement(
            transactionID: node["transactionID"]?.text, productID: node["productID"]?.text,
            appAccountToken: node["appAccountToken"]?.text,
            ownershipType: node["ownershipType"]?.text,
            purchasedAt: node["purchasedAt"]?.instant,
            originalPurchaseAt: node["originalPurchaseAt"]?.instant,
            expiresAt: node["expiresAt"]?.instant, revokedAt: node["revokedAt"]?.instant,
            reason: node["reason"]?.text, storefront: node["storefront"]?.text,
            currency: node["currency"]?.text, price: node["price"]?.int64,
            period: node["period"]?.text, offerDiscountType: node["offerDiscountType"]?.text,
            items: items)
    }

    private static func renewal(_ node: JSONNode) -> RenewalStatement? {
        var items: [RenewalStatement.Item]?
        if let nodes = node["items"]?.elements {
            var read: [RenewalStatement.Item] = []
            for item in nodes {
                guard let sku = item["sku"]?.text else { return nil }
                read.append(
                    RenewalStatement.Item(
                        sku: sku, price: item["price"]?.int64,
                        offerPrice: item["offerPrice"]?.int64,
                        offerPeriod: item["offerPeriod"]?.text,
                        offerPeriodCount: item["offerPeriodCount"]?.int,
                        offerReason: item["offerReason"]?.text,
                        increaseStatus: item["increaseStatus"]?.text,
                        increasePrice: item["increasePrice"]?.int64,
                        dependentSKUs: item["dependentSKUs"]?.elements?.compactMap(\.text)))
            }
            items = read
        }
        return RenewalStatement(
            productID: node["productID"]?.text, autoRenewStatus: node["autoRenewStatus"]?.int,
            isInBillingRetry: node["isInBillingRetry"]?.boolean,
            expirationIntent: node["expirationIntent"]?.int,
            gracePeriodExpiresAt: node["gracePeriodExpiresAt"]?.instant,
            renewalAt: node["renewalAt"]?.instant,
            recentSubscriptionStartAt: node["recentSubscriptionStartAt"]?.instant,
            currency: node["currency"]?.text, appAccountToken: node["appAccountToken"]?.text,
            consistencyToken: node["consistencyToken"]?.text, period: node["period"]?.text,
            items: items)
    }
}

extension JSONNode {
    fileprivate var int: Int? { int64.flatMap { Int(exactly: $0) } }
    fileprivate var instant: Instant? { int64.map { Instant(milliseconds: $0) } }
}
