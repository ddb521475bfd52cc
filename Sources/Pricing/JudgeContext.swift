/// What the judge needs besides the rows and the subscription's facts.
package struct JudgeContext: Hashable, Sendable {
    /// Our changes of this subscription that have not ended.
    package var openChanges: [OpenChange] = []
    /// SKUs set to renew on any subscription of the same customer, also as `SUBSCRIPTION/SKU`; this one's own may
    /// be left out.
    package var siblingSKUs: Set<String> = []
    /// What hinders dependents on other subscriptions, by the name that a row gives them.
    package var obstacles: [String: DependentObstacle] = [:]
    /// Those of them that rows of the same batch make.
    package var fileObstacles: [String: DependentObstacle] = [:]
    /// Where dependents that rows name by a SKU alone live, by that SKU: only those that this subscription lacks.
    package var places: [String: [DependentReference]] = [:]
    /// What items of other subscriptions are charged that rows name as dependents, by `SUBSCRIPTION/SKU`.
    package var charges: [String: ItemCharge] = [:]
    /// Who elsewhere names an item as its dependent, by `SUBSCRIPTION/SKU`: in the batch, or by an open change.
    package var claims: [String: [DependentClaim]] = [:]
    /// Earlier increases of this subscription, of any of its items, that took effect.
    package var increaseHistory: [PastIncrease] = []
    /// Increases that were only announced and have not taken effect, by item: when the subscriber was told.
    package var announcedAt: [String: Instant] = [:]

    /// A price change of ours that has not ended.
    package struct OpenChange: Hashable, Sendable {
        package var changeID: String?
        package var sku: String
        /// Milliunits.
        package var newPrice: Int64
        package var dependentSKUs: [String]
        package var state: ChangeState
        /// The renewal at which it raises the price; nil for a decrease.
        package var increasesAt: Instant?

        package init(
            changeID: String?, sku: String, newPrice: Int64, dependentSKUs: [String],
            state: ChangeState, increasesAt: Instant? = nil
        ) {
            self.changeID = changeID
            self.sku = sku
            self.newPrice = newPrice
            self.dependentSKUs = dependentSKUs
            self.state = state
            self.increasesAt = increasesAt
        }
    }
}

extension JudgeContext {
    /// As if we had increased no item of the subscription.
    var withoutOurs: JudgeContext {
        var context = self
        context.increaseHistory.removeAll(where: \.isOurs)
        for index in context.openChanges.indices { context.openChanges[index].increasesAt = nil }
        return context
    }

    package init(increaseHistory: [PastIncrease]) { self.increaseHistory = increaseHistory }
}

/// That a row or an open change of a subscription names an item of another subscription as its dependent.
package struct DependentClaim: Hashable, Sendable {
    /// Of the one that names it.
    package var originalTransactionID: String
    /// The parent's.
    package var sku: String
    /// In the batch; nil: an open change of ours.
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

/// Why an item of another subscription can't be a dependent.
package enum DependentObstacle: Hashable, Sendable {
    /// Its subscription is another customer's.
    case foreign
    /// It has these dependents of its own: a chain.
    case parent([String])
    /// It depends on another item already.
    case dependent
}
