/// What the judge needs besides the rows and the subscription's facts.
package struct JudgeContext: Hashable, Sendable {
    /// Our changes of this subscription that have not ended.
    package var openChanges: [OpenChange] = []
    /// The SKUs that will renew on any subscription of the same customer, also as `SUBSCRIPTION/SKU`. This
    /// subscription's own SKUs may be missing.
    package var siblingSKUs: Set<String> = []
    /// Why items on other subscriptions cannot be dependents, by the name that a row gives them.
    package var obstacles: [String: DependentObstacle] = [:]
    /// Those of these obstacles that come from rows of the same batch.
    package var fileObstacles: [String: DependentObstacle] = [:]
    /// The places of dependents that rows name by a SKU alone, by that SKU, where this subscription lacks it.
    package var places: [String: [DependentReference]] = [:]
    /// What was charged for items of other subscriptions that rows name as dependents, by `SUBSCRIPTION/SKU`.
    package var charges: [String: ItemCharge] = [:]
    /// Which other subscriptions name an item as their dependent, in the batch or by an open change, by
    /// `SUBSCRIPTION/SKU`.
    package var claims: [String: [DependentClaim]] = [:]
    /// Earlier increases of any item of this subscription that took effect.
    package var increaseHistory: [PastIncrease] = []
    /// When the subscriber was told of increases that were only announced and have not taken effect, by item.
    package var announcedAt: [String: Instant] = [:]

    /// A price change of ours that has not ended.
    package struct OpenChange: Hashable, Sendable {
        package var changeID: String?
        package var sku: String
        /// The new price in milliunits.
        package var newPrice: Int64
        package var dependentSKUs: [String]
        package var state: ChangeState
        /// The renewal at which it raises the price; nil for a decrease.
        package var increasesAt: Instant?
        /// No call of it is sent before this instant; nil where one may be sent at once.
        package var sendAfter: Instant?

        package init(
            changeID: String?, sku: String, newPrice: Int64, dependentSKUs: [String],
            state: ChangeState, increasesAt: Instant? = nil, sendAfter: Instant? = nil
        ) {
            self.changeID = changeID
            self.sku = sku
            self.newPrice = newPrice
            self.dependentSKUs = dependentSKUs
            self.state = state
            self.increasesAt = increasesAt
            self.sendAfter = sendAfter
        }
    }
}

extension JudgeContext {
    /// The context as if we had increased no item of the subscription.
    var withoutOurs: JudgeContext {
        var context = self
        context.increaseHistory.removeAll(where: \.isOurs)
        for index in context.openChanges.indices { context.openChanges[index].increasesAt = nil }
        return context
    }

    package init(increaseHistory: [PastIncrease]) { self.increaseHistory = increaseHistory }
}

/// A claim: a row or an open change of a subscription names an item of another subscription as its dependent.
package struct DependentClaim: Hashable, Sendable {
    /// The subscription that names it.
    package var originalTransactionID: String
    /// The SKU of the parent.
    package var sku: String
    /// The line in the batch; nil for an open change of ours.
    package var line: Int?

    package init(originalTransactionID: String, sku: String, line: Int? = nil) {
        self.originalTransactionID = originalTransactionID
        self.sku = sku
        self.line = line
    }

    var text: String {
        let place = line.map { "line \($0)" } ?? "an open change"
        return "\(originalTransactionID)/\(sku) (\(place))"
    }
}

/// Why an item of another subscription cannot be a dependent.
package enum DependentObstacle: Hashable, Sendable {
    /// Its subscription belongs to another customer.
    case foreign
    /// It has these dependents of its own, so there would be a chain.
    case parent([String])
    /// It depends on another item already.
    case dependent
}
