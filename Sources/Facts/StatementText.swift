import JSON
import Postgres
import Pricing

/// What `subscription_events.statement`, `subscriptions.items` and `.increases` keep, as JSON. By hand: a fold writes
/// thousands a second, a late statement reads all of a subscription's and a plan half a million of them; a general
/// coder takes ten times as long.
enum StatementText {
    static func text(_ event: SubscriptionEvent) -> String {
        JSONWriter.object {
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
    }

    static func text(_ increases: [RecordedIncrease]) -> String {
        JSONWriter.list(increases) { increase, json in
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

    static func text(_ items: [SubscriptionFacts.Item]) -> String {
        JSONWriter.list(items) { item, json in
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
    }

    static func event(_ record: JSONRecord) throws(JSONRecord.Fault) -> SubscriptionEvent {
        let key = try record.record("key")
        var event = SubscriptionEvent(
            key: .init(
                signedAt: Instant(milliseconds: try key.int64("signedAt")),
                evidenceID: try key.text("evidenceID")),
            source: try record.word("source"),
            originalTransactionID: try record.text("originalTransactionID"),
            type: try record.textOrNil("type"), subtype: try record.textOrNil("subtype"),
            status: try record.intOrNil("status"))
        if let told = try record.recordOrNil("transaction") {
            event.transaction = try transaction(told)
        }
        if let told = try record.recordOrNil("renewal") { event.renewal = try renewal(told) }
        event.ignored = try record.textsOrNil("ignored")
        if let told = try record.recordOrNil("legacy") {
            event.legacy = LegacyStatement(
                autoRenews: try told.boolOrNil("autoRenews"),
                isInBillingRetry: try told.boolOrNil("isInBillingRetry"),
                gracePeriodExpiresAt: try told.instantOrNil("gracePeriodExpiresAt"),
                expiresAt: try told.instantOrNil("expiresAt"))
        }
        return event
    }

    private static func transaction(
        _ record: JSONRecord
    ) throws(JSONRecord.Fault) -> TransactionStatement {
        var items: [TransactionStatement.Item] = []
        for item in try record.records("items") {
            items.append(
                TransactionStatement.Item(
                    sku: try item.text("sku"), price: try item.int64OrNil("price"),
                    offerPrice: try item.int64OrNil("offerPrice"),
                    offerPeriod: try item.textOrNil("offerPeriod"),
                    offerPeriodCount: try item.intOrNil("offerPeriodCount"),
                    offerReason: try item.textOrNil("offerReason"),
                    revokedAt: try item.instantOrNil("revokedAt")))
        }
        return TransactionStatement(
            transactionID: try record.textOrNil("transactionID"),
            productID: try record.textOrNil("productID"),
            appAccountToken: try record.textOrNil("appAccountToken"),
            ownershipType: try record.textOrNil("ownershipType"),
            purchasedAt: try record.instantOrNil("purchasedAt"),
            originalPurchaseAt: try record.instantOrNil("originalPurchaseAt"),
            expiresAt: try record.instantOrNil("expiresAt"),
            revokedAt: try record.instantOrNil("revokedAt"),
            reason: try record.textOrNil("reason"),
            storefront: try record.textOrNil("storefront"),
            currency: try record.textOrNil("currency"), price: try record.int64OrNil("price"),
            period: try record.textOrNil("period"),
            offerDiscountType: try record.textOrNil("offerDiscountType"), items: items)
    }

    private static func renewal(
        _ record: JSONRecord
    ) throws(JSONRecord.Fault) -> RenewalStatement {
        var renewal = RenewalStatement(
            productID: try record.textOrNil("productID"),
            autoRenewStatus: try record.intOrNil("autoRenewStatus"),
            isInBillingRetry: try record.boolOrNil("isInBillingRetry"),
            expirationIntent: try record.intOrNil("expirationIntent"),
            gracePeriodExpiresAt: try record.instantOrNil("gracePeriodExpiresAt"),
            renewalAt: try record.instantOrNil("renewalAt"),
            recentSubscriptionStartAt: try record.instantOrNil("recentSubscriptionStartAt"),
            currency: try record.textOrNil("currency"),
            appAccountToken: try record.textOrNil("appAccountToken"),
            consistencyToken: try record.textOrNil("consistencyToken"),
            period: try record.textOrNil("period"))
        guard let told = try record.recordsOrNil("items") else { return renewal }
        var items: [RenewalStatement.Item] = []
        for item in told {
            items.append(
                RenewalStatement.Item(
                    sku: try item.text("sku"), price: try item.int64OrNil("price"),
                    offerPrice: try item.int64OrNil("offerPrice"),
                    offerPeriod: try item.textOrNil("offerPeriod"),
                    offerPeriodCount: try item.intOrNil("offerPeriodCount"),
                    offerReason: try item.textOrNil("offerReason"),
                    increaseStatus: try item.textOrNil("increaseStatus"),
                    increasePrice: try item.int64OrNil("increasePrice"),
                    dependentSKUs: try item.textsOrNil("dependentSKUs")))
        }
        renewal.items = items
        return renewal
    }

    static func items(_ node: JSONNode) throws(JSONRecord.Fault) -> [SubscriptionFacts.Item] {
        var items: [SubscriptionFacts.Item] = []
        for record in try JSONRecord.all(node) {
            var item = SubscriptionFacts.Item(
                sku: try record.text("sku"), currentPrice: try record.int64OrNil("currentPrice"),
                renewalPrice: try record.int64OrNil("renewalPrice"),
                renews: try record.bool("renews"), chargedAs: try record.textOrNil("chargedAs"))
            if let offer = try record.recordOrNil("offer") {
                item.offer = SubscriptionFacts.Offer(
                    price: try offer.int64OrNil("price"), period: try offer.textOrNil("period"),
                    periodsLeft: try offer.intOrNil("periodsLeft"),
                    reason: try offer.textOrNil("reason"), isRunning: try offer.bool("isRunning"))
            }
            if let increase = try record.recordOrNil("increase") {
                item.increase = SubscriptionFacts.Increase(
                    status: try increase.text("status"), price: try increase.int64OrNil("price"),
                    dependentSKUs: try increase.texts("dependentSKUs"))
            }
            items.append(item)
        }
        return items
    }

    static func increases(_ node: JSONNode) throws(JSONRecord.Fault) -> [RecordedIncrease] {
        var increases: [RecordedIncrease] = []
        for record in try JSONRecord.all(node) {
            increases.append(
                RecordedIncrease(
                    sku: try record.text("sku"), price: try record.int64("price"),
                    communicatedAt: try record.instantOrNil("communicatedAt"),
                    effectiveAt: try record.instantOrNil("effectiveAt"),
                    origin: try record.wordOrNil("origin"),
                    consentAskedAt: try record.instantOrNil("consentAskedAt"),
                    acceptedAt: try record.instantOrNil("acceptedAt"),
                    refusedAt: try record.instantOrNil("refusedAt")))
        }
        return increases
    }
}

extension JSONRecord {
    fileprivate func instantOrNil(_ name: StaticString) throws(Fault) -> Instant? {
        try int64OrNil(name).map(Instant.init(milliseconds:))
    }
}

extension Row {
    /// What this program wrote to a JSON column.
    func stored<Value>(
        _ column: String, _ read: (JSONNode) throws(JSONRecord.Fault) -> Value
    ) throws -> Value {
        guard let bytes = try decoded(column, { Array($0) }), let node = JSONDocument.read(bytes)
        else { throw LedgerError.unreadable("\(column) is no JSON") }
        do throws(JSONRecord.Fault) {
            return try read(node)
        } catch {
            throw LedgerError.unreadable("\(column): \(error)")
        }
    }
}
