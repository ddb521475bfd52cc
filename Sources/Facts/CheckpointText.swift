import JSON
import Pricing

/// The JSON of `subscription_checkpoints.rest`: how far each change had come, money, dependents, own cancellations and
/// paid periods. The facts have columns of their own, as in `subscriptions`.
enum CheckpointText {
    static func text(_ checkpoint: FoldCheckpoint) -> String {
        JSONWriter.object {
            $0.list("changes", checkpoint.changes) { told, json in
                json.object {
                    $0.text("id", told.changeID)
                    $0.text("sku", told.sku)
                    $0.texts("dependents", told.dependentSKUs)
                    $0.texts("former", told.formerSKUs)
                    $0.number("calledAt", told.calledAt.milliseconds)
                    $0.key("progress") { Self.write(told.progress, &$0) }
                }
            }
            $0.list("money", checkpoint.money) { Self.write($0, &$1) }
            $0.list("cancellations", checkpoint.cancellations) { Self.write($0, &$1) }
            $0.list("reenabled", checkpoint.reenabledAt.sorted { $0.key < $1.key }) { one, json in
                json.object {
                    $0.text("id", one.key)
                    $0.number("at", one.value.milliseconds)
                }
            }
            $0.list("periods", checkpoint.toldPeriods) { Self.write($0, &$1) }
        }
    }

    private static func write(_ period: ToldPeriod, _ json: inout JSONWriter) {
        json.object {
            $0.number("at", period.purchasedAt.milliseconds)
            $0.text("currency", period.currency)
            $0.text("storefront", period.storefront)
            $0.text("period", period.period)
            $0.number("endsAt", period.endsAt?.milliseconds)
            $0.number("knownSince", period.knownSince?.milliseconds)
            $0.flag("isAfterToldPause", period.isAfterToldPause ? true : nil)
            $0.list("prices", period.prices) { one, json in
                json.object {
                    $0.text("sku", one.sku)
                    $0.number("price", one.price)
                }
            }
        }
    }

    private static func write(_ progress: ChangeProgress, _ json: inout JSONWriter) {
        json.object {
            $0.text("state", progress.state.rawValue)
            $0.text("reason", progress.reason)
            $0.number("scheduledAt", progress.scheduledAt?.milliseconds)
            $0.number("consentAskedAt", progress.consentAskedAt?.milliseconds)
            $0.number("acceptedAt", progress.acceptedAt?.milliseconds)
            $0.text("acceptance", progress.acceptance?.rawValue)
            $0.number("effectiveAt", progress.effectiveAt?.milliseconds)
            $0.number("endedAt", progress.endedAt?.milliseconds)
            $0.number("dueAt", progress.dueAt?.milliseconds)
            $0.text("slip", progress.slip?.rawValue)
            $0.number("since", progress.since.milliseconds)
        }
    }

    private static func write(_ entry: MoneyEntry, _ json: inout JSONWriter) {
        json.object {
            $0.text("transaction", entry.key.transactionID)
            $0.text("sku", entry.key.sku)
            $0.text("kind", entry.key.kind.rawValue)
            $0.number("at", entry.key.occurredAt.milliseconds)
            $0.number("number", Int64(entry.key.number))
            $0.number("amount", entry.amount)
            $0.number("taxExclusive", entry.taxExclusive)
            $0.text("currency", entry.currency)
            $0.text("storefront", entry.storefront)
            $0.text("evidence", entry.evidenceID)
            guard let terms = entry.terms else { return }
            $0.key("terms") {
                $0.object {
                    $0.number("price", terms.price)
                    $0.number("quantity", terms.quantity)
                    $0.flag("isOffer", terms.isOffer)
                    $0.flag("isPurchase", terms.isPurchase)
                    $0.flag("isAddedSeat", terms.isAddedSeat)
                    $0.flag("isRelisted", terms.isRelisted ? true : nil)
                    $0.text("period", terms.period)
                    $0.number("expiresAt", terms.expiresAt?.milliseconds)
                    $0.number("revokedAt", terms.revokedAt?.milliseconds)
                }
            }
        }
    }

    private static func write(_ one: DependentCancellation, _ json: inout JSONWriter) {
        json.object {
            $0.text("change", one.changeID)
            $0.text("dependent", one.dependentSKU)
            $0.text("parent", one.parentSKU)
            $0.text("cause", one.cause)
            $0.number("price", one.price)
            $0.text("currency", one.currency)
            $0.text("state", one.state.rawValue)
            $0.number("requestedAt", one.requestedAt.milliseconds)
            $0.text("requestedBy", one.requestedByEvidence)
            $0.number("settledAt", one.settledAt?.milliseconds)
            $0.text("settledBy", one.settledByEvidence)
            $0.text("detail", one.detail)
            $0.flag("isCross", one.isCrossSubscription)
            $0.text("cancel", one.cancelReferenceID)
        }
    }

    /// What is kept beside the facts.
    struct Rest {
        var changes: [FoldCheckpoint.Told] = []
        var money: [MoneyEntry] = []
        var cancellations: [DependentCancellation] = []
        var reenabledAt: [String: Instant] = [:]
        var toldPeriods: [ToldPeriod] = []
    }

    static func rest(_ node: JSONNode) throws(JSONRecord.Fault) -> Rest {
        let record = try JSONRecord(node)
        var rest = Rest()
        for told in try record.records("changes") {
            rest.changes.append(
                FoldCheckpoint.Told(
                    changeID: try told.text("id"), sku: try told.text("sku"),
                    dependentSKUs: try told.texts("dependents"),
                    formerSKUs: try told.texts("former"),
                    progress: try progress(told.record("progress")),
                    calledAt: Instant(milliseconds: try told.int64("calledAt"))))
        }
        for told in try record.records("money") { rest.money.append(try money(told)) }
        for told in try record.records("cancellations") {
            rest.cancellations.append(try cancellation(told))
        }
        for told in try record.records("reenabled") {
            rest.reenabledAt[try told.text("id")] = Instant(milliseconds: try told.int64("at"))
        }
        // Checkpoints that were written before periods were kept have none.
        for told in try record.recordsOrNil("periods") ?? [] {
            rest.toldPeriods.append(try period(told))
        }
        return rest
    }

    private static func period(_ told: JSONRecord) throws(JSONRecord.Fault) -> ToldPeriod {
        var period = ToldPeriod(
            purchasedAt: Instant(milliseconds: try told.int64("at")),
            currency: try told.textOrNil("currency"),
            storefront: try told.textOrNil("storefront"), period: try told.textOrNil("period"),
            prices: [])
        period.endsAt = try told.instantOrNil("endsAt")
        period.knownSince = try told.instantOrNil("knownSince")
        period.isAfterToldPause = try told.boolOrNil("isAfterToldPause") ?? false
        for price in try told.records("prices") {
            period.prices.append(
                ToldPeriod.Price(sku: try price.text("sku"), price: try price.int64("price")))
        }
        return period
    }

    private static func progress(_ told: JSONRecord) throws(JSONRecord.Fault) -> ChangeProgress {
        var progress = ChangeProgress(
            state: try told.word("state"), dueAt: try told.instantOrNil("dueAt"),
            since: Instant(milliseconds: try told.int64("since")))
        progress.reason = try told.textOrNil("reason")
        progress.scheduledAt = try told.instantOrNil("scheduledAt")
        progress.consentAskedAt = try told.instantOrNil("consentAskedAt")
        progress.acceptedAt = try told.instantOrNil("acceptedAt")
        progress.acceptance = try told.wordOrNil("acceptance")
        progress.effectiveAt = try told.instantOrNil("effectiveAt")
        progress.endedAt = try told.instantOrNil("endedAt")
        progress.slip = try told.wordOrNil("slip")
        return progress
    }

    private static func money(_ told: JSONRecord) throws(JSONRecord.Fault) -> MoneyEntry {
        var terms: MoneyEntry.Terms?
        if let told = try told.recordOrNil("terms") {
            terms = MoneyEntry.Terms(
                try told.int64("price"), times: try told.int64("quantity"),
                isOffer: try told.bool("isOffer"), isPurchase: try told.bool("isPurchase"),
                isAddedSeat: try told.bool("isAddedSeat"),
                until: try told.instantOrNil("expiresAt"),
                revokedAt: try told.instantOrNil("revokedAt"))
            terms?.isRelisted = try told.boolOrNil("isRelisted") ?? false
            terms?.period = try told.textOrNil("period")
        }
        return MoneyEntry(
            MoneyEntry.Key(
                of: try told.text("transaction"), try told.text("sku"), try told.word("kind"),
                at: Instant(milliseconds: try told.int64("at")),
                number: Int(clamping: try told.int64("number"))),
            terms: terms, amount: try told.int64("amount"),
            taxExclusive: try told.int64OrNil("taxExclusive"),
            currency: try told.text("currency"), storefront: try told.textOrNil("storefront"),
            evidenceID: try told.text("evidence"))
    }

    private static func cancellation(
        _ told: JSONRecord
    ) throws(JSONRecord.Fault) -> DependentCancellation {
        var one = DependentCancellation(
            changeID: try told.text("change"), dependentSKU: try told.text("dependent"),
            parentSKU: try told.text("parent"), cause: try told.text("cause"),
            state: try told.word("state"),
            requestedAt: Instant(milliseconds: try told.int64("requestedAt")),
            requestedByEvidence: try told.text("requestedBy"))
        one.price = try told.int64OrNil("price")
        one.currency = try told.textOrNil("currency")
        one.settledAt = try told.instantOrNil("settledAt")
        one.settledByEvidence = try told.textOrNil("settledBy")
        one.detail = try told.textOrNil("detail")
        one.isCrossSubscription = try told.bool("isCross")
        one.cancelReferenceID = try told.textOrNil("cancel")
        return one
    }
}
