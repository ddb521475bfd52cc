import JSON
import Postgres
import Pricing

/// The JSON of `subscription_events.statement`, `subscriptions.items`, `.increases` and `.renames`. It is written by hand
/// because of speed: a fold writes thousands a second, a late statement reads all of a subscription's, and a plan reads
/// half a million. A general coder takes ten times as long.
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

    static func text(_ renames: [SubscriptionFacts.FormerName]) -> String {
        JSONWriter.list(renames) { rename, json in
            json.object {
                $0.text("from", rename.from)
                $0.text("to", rename.to)
                $0.number("at", rename.at.milliseconds)
                $0.text("transactionID", rename.transactionID)
                $0.flag("isDoubtful", rename.isDoubtful ? true : nil)
                $0.flag("isOfItsTransaction", rename.isOfItsTransaction ? true : nil)
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
            $0.number("taxExclusivePrice", transaction.taxExclusivePrice)
            $0.text("period", transaction.period)
            $0.text("offerDiscountType", transaction.offerDiscountType)
            $0.number("offerType", transaction.offerType.map { Int64($0) })
            $0.number("quantity", transaction.quantity.map { Int64($0) })
            $0.text("appTransactionID", transaction.appTransactionID)
            Self.write(transaction.details, &$0)
            $0.list("items", transaction.items) { item, json in
                json.object {
                    $0.text("sku", item.sku)
                    $0.number("price", item.price)
                    $0.number("offerPrice", item.offerPrice)
                    $0.text("offerPeriod", item.offerPeriod)
                    $0.number("offerPeriodCount", item.offerPeriodCount.map { Int64($0) })
                    $0.text("offerReason", item.offerReason)
                    $0.number("revokedAt", item.revokedAt?.milliseconds)
                    guard !item.refunds.isEmpty else { return }
                    $0.list("refunds", item.refunds) { refund, json in
                        json.object {
                            $0.number("amount", refund.amount)
                            $0.number("at", refund.at.milliseconds)
                        }
                    }
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
            $0.text("autoRenewProductID", renewal.autoRenewProductID)
            $0.number("price", renewal.price)
            $0.number("offerType", renewal.offerType.map { Int64($0) })
            $0.text("appTransactionID", renewal.appTransactionID)
            Self.write(renewal.details, &$0)
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

    private static func write(_ details: SignedDetails, _ json: inout JSONWriter) {
        guard !details.isEmpty else { return }
        json.key("details") { details.write(&$0) }
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
                            $0.number("runningPrice", offer.runningPrice)
                        }
                    }
                }
                if let increase = item.increase {
                    $0.key("increase") {
                        $0.object {
                            $0.text("status", increase.status)
                            $0.number("price", increase.price)
                            $0.texts("dependentSKUs", increase.dependentSKUs)
                            $0.number("shownAt", increase.shownAt?.milliseconds)
                        }
                    }
                }
            }
        }
    }

    /// The JSON of `subscriptions.signed_details`; nil where there is nothing to keep.
    static func details(_ facts: SubscriptionFacts) -> String? {
        guard
            !facts.transactionDetails.isEmpty || !facts.renewalDetails.isEmpty
                || facts.addedSeats != nil
        else { return nil }
        return JSONWriter.object {
            if !facts.transactionDetails.isEmpty {
                $0.key("transaction") { facts.transactionDetails.write(&$0) }
            }
            if !facts.renewalDetails.isEmpty {
                $0.key("renewal") { facts.renewalDetails.write(&$0) }
            }
            if let added = facts.addedSeats { $0.key("addedSeats") { Self.write(added, &$0) } }
        }
    }

    private static func write(_ added: AddedSeats, _ json: inout JSONWriter) {
        json.object {
            $0.number("ownQuantity", added.ownQuantity.map { Int64($0) })
            $0.list("purchases", added.purchases) { purchase, json in
                json.object {
                    $0.text("transactionID", purchase.transactionID)
                    $0.number("purchasedAt", purchase.purchasedAt.milliseconds)
                    $0.number("seats", Int64(purchase.seats))
                    $0.flag("isGivenBack", purchase.isGivenBack)
                }
            }
        }
    }

    /// What `signed_details` keeps.
    struct Details {
        var transaction = SignedDetails()
        var renewal = SignedDetails()
        var addedSeats: AddedSeats?
    }

    /// The details of the running period's transaction and of the newest renewal info, and the seats that were added.
    static func details(_ node: JSONNode) throws(JSONRecord.Fault) -> Details {
        let record = try JSONRecord(node)
        let transaction = try record.objectOrNil("transaction")
        let renewal = try record.objectOrNil("renewal")
        return Details(
            transaction: transaction.map { SignedDetails($0, SignedDetails.ofTransaction) }
                ?? SignedDetails(),
            renewal: renewal.map { SignedDetails($0, SignedDetails.ofRenewal) } ?? SignedDetails(),
            addedSeats: try record.recordOrNil("addedSeats").map(addedSeats))
    }

    private static func addedSeats(_ record: JSONRecord) throws(JSONRecord.Fault) -> AddedSeats {
        var added = AddedSeats(ownQuantity: try record.intOrNil("ownQuantity"), purchases: [])
        for told in try record.records("purchases") {
            added.purchases.append(
                AddedSeats.Purchase(
                    transactionID: try told.text("transactionID"),
                    purchasedAt: Instant(milliseconds: try told.int64("purchasedAt")),
                    seats: Int(clamping: try told.int64("seats")),
                    isGivenBack: try told.bool("isGivenBack")))
        }
        return added
    }

    static func event(_ record: JSONRecord) throws(JSONRecord.Fault) -> SubscriptionEvent {
        let key = try record.record("key")
        var event = SubscriptionEvent(
            key: .init(
                signedAt: Instant(milliseconds: try key.int64("signedAt")),
                evidenceID: try key.text("evidenceID")),
            source: try record.word("source"),
            originalTransactionID: try record.text("originalTransactionID"))
        event.type = try record.textOrNil("type")
        event.subtype = try record.textOrNil("subtype")
        event.status = try record.intOrNil("status")
        if let told = try record.recordOrNil("transaction") {
            event.transaction = try transaction(told)
        }
        if let told = try record.recordOrNil("renewal") { event.renewal = try renewal(told) }
        event.ignored = try record.textsOrNil("ignored")
        if let told = try record.recordOrNil("legacy") {
            var legacy = LegacyStatement(autoRenews: try told.boolOrNil("autoRenews"))
            legacy.isInBillingRetry = try told.boolOrNil("isInBillingRetry")
            legacy.gracePeriodExpiresAt = try told.instantOrNil("gracePeriodExpiresAt")
            legacy.expiresAt = try told.instantOrNil("expiresAt")
            event.legacy = legacy
        }
        return event
    }

    private static func transaction(
        _ record: JSONRecord
    ) throws(JSONRecord.Fault) -> TransactionStatement {
        var transaction = TransactionStatement(items: [])
        for told in try record.records("items") {
            var item = try item(told)
            item.revokedAt = try told.instantOrNil("revokedAt")
            for refund in try told.recordsOrNil("refunds") ?? [] {
                item.refunds.append(
                    StatementRefund(
                        amount: try refund.int64("amount"),
                        at: Instant(milliseconds: try refund.int64("at"))))
            }
            transaction.items.append(item)
        }
        transaction.transactionID = try record.textOrNil("transactionID")
        transaction.productID = try record.textOrNil("productID")
        transaction.appAccountToken = try record.textOrNil("appAccountToken")
        transaction.ownershipType = try record.textOrNil("ownershipType")
        transaction.purchasedAt = try record.instantOrNil("purchasedAt")
        transaction.originalPurchaseAt = try record.instantOrNil("originalPurchaseAt")
        transaction.expiresAt = try record.instantOrNil("expiresAt")
        transaction.revokedAt = try record.instantOrNil("revokedAt")
        transaction.reason = try record.textOrNil("reason")
        transaction.storefront = try record.textOrNil("storefront")
        transaction.currency = try record.textOrNil("currency")
        transaction.price = try record.int64OrNil("price")
        transaction.taxExclusivePrice = try record.int64OrNil("taxExclusivePrice")
        transaction.period = try record.textOrNil("period")
        transaction.offerDiscountType = try record.textOrNil("offerDiscountType")
        transaction.offerType = try record.intOrNil("offerType")
        transaction.quantity = try record.intOrNil("quantity")
        transaction.appTransactionID = try record.textOrNil("appTransactionID")
        transaction.details = try details(record, SignedDetails.ofTransaction)
        return transaction
    }

    private static func renewal(
        _ record: JSONRecord
    ) throws(JSONRecord.Fault) -> RenewalStatement {
        var renewal = RenewalStatement(items: nil)
        renewal.productID = try record.textOrNil("productID")
        renewal.autoRenewStatus = try record.intOrNil("autoRenewStatus")
        renewal.isInBillingRetry = try record.boolOrNil("isInBillingRetry")
        renewal.expirationIntent = try record.intOrNil("expirationIntent")
        renewal.gracePeriodExpiresAt = try record.instantOrNil("gracePeriodExpiresAt")
        renewal.renewalAt = try record.instantOrNil("renewalAt")
        renewal.recentSubscriptionStartAt = try record.instantOrNil("recentSubscriptionStartAt")
        renewal.currency = try record.textOrNil("currency")
        renewal.appAccountToken = try record.textOrNil("appAccountToken")
        renewal.consistencyToken = try record.textOrNil("consistencyToken")
        renewal.period = try record.textOrNil("period")
        renewal.autoRenewProductID = try record.textOrNil("autoRenewProductID")
        renewal.price = try record.int64OrNil("price")
        renewal.offerType = try record.intOrNil("offerType")
        renewal.appTransactionID = try record.textOrNil("appTransactionID")
        renewal.details = try details(record, SignedDetails.ofRenewal)
        guard let listed = try record.recordsOrNil("items") else { return renewal }
        var items: [StatementItem] = []
        for told in listed {
            var item = try item(told)
            item.increaseStatus = try told.textOrNil("increaseStatus")
            item.increasePrice = try told.int64OrNil("increasePrice")
            item.dependentSKUs = try told.textsOrNil("dependentSKUs")
            items.append(item)
        }
        renewal.items = items
        return renewal
    }

    private static func details(
        _ record: JSONRecord, _ fields: [SignedDetails.Field]
    ) throws(JSONRecord.Fault) -> SignedDetails {
        guard let node = try record.objectOrNil("details") else { return SignedDetails() }
        return SignedDetails(node, fields)
    }

    /// The part of an item that a transaction and a renewal info share.
    private static func item(_ record: JSONRecord) throws(JSONRecord.Fault) -> StatementItem {
        var item = StatementItem(sku: try record.text("sku"))
        item.price = try record.int64OrNil("price")
        item.offerPrice = try record.int64OrNil("offerPrice")
        item.offerPeriod = try record.textOrNil("offerPeriod")
        item.offerPeriodCount = try record.intOrNil("offerPeriodCount")
        item.offerReason = try record.textOrNil("offerReason")
        return item
    }

    static func renames(
        _ node: JSONNode
    ) throws(JSONRecord.Fault) -> [SubscriptionFacts.FormerName] {
        var renames: [SubscriptionFacts.FormerName] = []
        for record in try JSONRecord.all(node) {
            var rename = SubscriptionFacts.FormerName(
                from: try record.text("from"), to: try record.text("to"),
                at: Instant(milliseconds: try record.int64("at")),
                transactionID: try record.textOrNil("transactionID"))
            rename.isDoubtful = try record.boolOrNil("isDoubtful") ?? false
            rename.isOfItsTransaction = try record.boolOrNil("isOfItsTransaction") ?? false
            renames.append(rename)
        }
        return renames
    }

    static func items(_ node: JSONNode) throws(JSONRecord.Fault) -> [SubscriptionFacts.Item] {
        var items: [SubscriptionFacts.Item] = []
        for record in try JSONRecord.all(node) {
            var item = SubscriptionFacts.Item(sku: try record.text("sku"))
            item.currentPrice = try record.int64OrNil("currentPrice")
            item.renewalPrice = try record.int64OrNil("renewalPrice")
            item.renews = try record.bool("renews")
            item.chargedAs = try record.textOrNil("chargedAs")
            if let told = try record.recordOrNil("offer") {
                var offer = SubscriptionFacts.Offer(price: try told.int64OrNil("price"))
                offer.period = try told.textOrNil("period")
                offer.periodsLeft = try told.intOrNil("periodsLeft")
                offer.reason = try told.textOrNil("reason")
                offer.isRunning = try told.bool("isRunning")
                offer.runningPrice = try told.int64OrNil("runningPrice")
                item.offer = offer
            }
            if let told = try record.recordOrNil("increase") {
                var increase = SubscriptionFacts.Increase(status: try told.text("status"))
                increase.price = try told.int64OrNil("price")
                increase.dependentSKUs = try told.texts("dependentSKUs")
                increase.shownAt = try told.instantOrNil("shownAt")
                item.increase = increase
            }
            items.append(item)
        }
        return items
    }

    static func increases(_ node: JSONNode) throws(JSONRecord.Fault) -> [RecordedIncrease] {
        var increases: [RecordedIncrease] = []
        for record in try JSONRecord.all(node) {
            var increase = RecordedIncrease(
                sku: try record.text("sku"), price: try record.int64("price"))
            increase.communicatedAt = try record.instantOrNil("communicatedAt")
            increase.effectiveAt = try record.instantOrNil("effectiveAt")
            increase.origin = try record.wordOrNil("origin")
            increase.consentAskedAt = try record.instantOrNil("consentAskedAt")
            increase.acceptedAt = try record.instantOrNil("acceptedAt")
            increase.refusedAt = try record.instantOrNil("refusedAt")
            increases.append(increase)
        }
        return increases
    }
}

extension JSONRecord {
    func instantOrNil(_ name: StaticString) throws(Fault) -> Instant? {
        try int64OrNil(name).map(Instant.init(milliseconds:))
    }
}

extension Row {
    /// Reads what this program wrote to a JSON column.
    func stored<Value>(
        _ column: String, _ read: (JSONNode) throws(JSONRecord.Fault) -> Value
    ) throws -> Value {
        guard let bytes = try decoded(column, { Array($0) }), let node = JSONDocument.read(bytes)
        else { throw FactsError.unreadable("\(column) is no JSON") }
        do throws(JSONRecord.Fault) {
            return try read(node)
        } catch {
            throw FactsError.unreadable("\(column): \(error)")
        }
    }
}
