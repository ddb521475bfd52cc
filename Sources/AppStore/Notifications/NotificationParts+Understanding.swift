internal import JSON
internal import Pricing

extension NotificationParts {
    /// Whether we know what a notification means, and which parts of it we do not know.
    struct Understanding {
        /// Whether type, subtype and body match the table. Unknown fields or values do not change that, and are only
        /// reported.
        var isComplete: Bool
        var unknown: [UnknownPart]
    }

    /// `event` is what was read of it.
    func understanding(of event: SubscriptionEvent?) -> Understanding {
        var scan = UnknownScan()
        guard let wire else {
            scan.add(.body, "payload")
            return Understanding(isComplete: false, unknown: scan.parts)
        }
        let isComplete = compareKind(of: wire, event: event, &scan)
        scan.compare(wire.json, with: .notification, named: "notification")
        if let transaction = pair?.transaction {
            scan.compare(transaction.json, with: .transaction, named: "transaction")
        }
        if let renewal = pair?.renewal {
            scan.compare(renewal.json, with: .renewal, named: "renewal")
        }
        return Understanding(isComplete: isComplete, unknown: scan.parts)
    }

    private func compareKind(
        of wire: WireNotification, event: SubscriptionEvent?, _ scan: inout UnknownScan
    ) -> Bool {
        let type = wire.notificationType ?? ""
        guard let rule = NotificationRule.find(type: type, subtype: wire.subtype) else {
            if NotificationRule.isKnown(type: type) {
                scan.add(.subtype, "\(type)/\(wire.subtype ?? "")")
            } else {
                scan.add(.type, type)
            }
            return false
        }
        let hasBody =
            switch rule.body {
            case .subscription: event != nil
            case .purchase: event != nil || isOtherPurchase
            case .data: wire.data != nil
            case .summary: wire.summary != nil
            case .appData: wire.appData != nil
            case .externalPurchaseToken: wire.externalPurchaseToken != nil
            }
        if !hasBody { scan.add(.body, "\(type):\(rule.body.rawValue)") }
        if hasBody, type == "PRICE_INCREASE", wire.subtype == "PENDING", !tellsAnIncrease(event) {
            scan.add(.body, "PRICE_INCREASE/PENDING:priceIncreaseInfo")
        }
        return hasBody
    }

    /// Whether the renewal info says which increase is meant: that of an item, or that of an ordinary subscription as
    /// a whole.
    private func tellsAnIncrease(_ event: SubscriptionEvent?) -> Bool {
        event?.renewal?.items?.contains { $0.increaseStatus != nil } ?? false
            || pair?.renewal?.json["priceIncreaseStatus"]?.isNull == false
    }

    /// Whether the transaction is of something that is no subscription.
    private var isOtherPurchase: Bool {
        pair?.transaction.map { !$0.isSubscription } ?? false
    }
}
