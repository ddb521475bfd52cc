/// Decides whether the subscription that carries a dependent of another subscription of the same customer is
/// cancelled.
///
/// When a subscriber declines, the App Store drops dependents only from the same subscription. Cancel a Subscription
/// ends a whole subscription, so it is called only where everything that renews there must be cancelled.
package struct CrossSubscriptionDependent: Hashable, Sendable {
    package enum Verdict: Hashable, Sendable {
        /// The dependent will not be charged again, as the newest statement on its subscription shows.
        case gone(String)
        case cancel
        /// A person must decide; no program may act on it.
        case discrepancy(Discrepancy)
    }

    package enum Discrepancy: Hashable, Sendable {
        case foreignCustomer(String)
        case unknownPlace
        case severalPlaces([String])
        case ownDependents([String])
        case otherItems([String])
        case renamed(String)
        /// The customer has the parent again, by this name.
        case parentRenews(String)
        /// Why the status of its subscription cannot be read.
        case unreadable(String)

        /// Every label, for metrics and logs.
        package static let labels = [
            "foreign_customer", "unknown_place", "several_places", "chain", "other_items",
            "renamed", "parent_renews", "unreadable",
        ]

        package var label: String {
            switch self {
            case .foreignCustomer: "foreign_customer"
            case .unknownPlace: "unknown_place"
            case .severalPlaces: "several_places"
            case .ownDependents: "chain"
            case .otherItems: "other_items"
            case .renamed: "renamed"
            case .parentRenews: "parent_renews"
            case .unreadable: "unreadable"
            }
        }

        package var text: String {
            switch self {
            case .foreignCustomer(let id): "subscription \(id) is another customer's; not cancelled"
            case .unknownPlace: "no subscription of the customer has ever carried it"
            case .severalPlaces(let ids):
                "several subscriptions carry it: \(ids.joined(separator: ", ")); not cancelled"
            case .ownDependents(let skus):
                "it has dependents of its own, \(skus.joined(separator: ", ")): a chain; not cancelled"
            case .renamed(let sku): "it is called \(sku) now and goes on renewing; not cancelled"
            case .parentRenews(let sku):
                "the customer has its parent \(sku) again, which renews; not cancelled"
            case .unreadable(let why): "\(why); not cancelled"
            case .otherItems(let skus):
                "its subscription also carries \(skus.joined(separator: ", ")); not cancelled"
            }
        }
    }

    package var sku: String
    /// The `appAccountToken` of the parent's subscription.
    package var customer: String?

    package init(sku: String, customer: String?) {
        self.sku = sku
        self.customer = customer
    }

    /// A subscription to which the dependent may belong.
    package struct Candidate: Sendable {
        package var facts: SubscriptionFacts
        package var seenSKUs: [String]
        /// The current name of the dependent there, where it was renamed.
        package var nameToday: String?

        package init(facts: SubscriptionFacts, seenSKUs: [String], nameToday: String? = nil) {
            self.facts = facts
            self.seenSKUs = seenSKUs
            self.nameToday = nameToday
        }

        fileprivate func renews(_ sku: String) -> Bool { facts.renews(sku) }
    }

    /// The subscription that carries the dependent: the one on which it is set to renew, perhaps under another name,
    /// or else one that once carried it.
    package func place(among candidates: [Candidate]) -> Result<SubscriptionFacts, NoPlace> {
        let own = candidates.filter { !isForeign($0.facts) }
        if own.isEmpty, let foreign = candidates.first {
            return .failure(
                NoPlace(reason: .foreignCustomer(foreign.facts.originalTransactionID)))
        }
        let known = own.filter { $0.seenSKUs.contains(sku) }
        var carrying = known.filter { $0.renews(sku) }.map(\.facts)
        if carrying.isEmpty {
            carrying = known.filter { one in one.nameToday.map(one.renews) ?? false }.map(\.facts)
        }
        if carrying.count > 1 {
            return .failure(
                NoPlace(reason: .severalPlaces(carrying.map(\.originalTransactionID).sorted())))
        }
        let seen = known.map(\.facts)
        guard
            let place = carrying.first
                ?? seen.max(by: {
                    ($0.signedAt?.milliseconds ?? 0) < ($1.signedAt?.milliseconds ?? 0)
                })
        else { return .failure(NoPlace(reason: .unknownPlace)) }
        return .success(place)
    }

    package struct NoPlace: Error, Hashable, Sendable {
        package var reason: Discrepancy
    }

    /// - Parameters:
    ///   - target: The facts of its subscription that were just read.
    ///   - falling: Every SKU there that must be cancelled, this one included.
    ///   - ownDependents: The SKUs that would be cancelled with its own open increase.
    ///   - nameToday: Its current name, where statements renamed it.
    ///   - parentBack: The parent's name, where the customer has it again, for example because of a resubscription
    ///     after the decline.
    package func verdict(
        on target: SubscriptionFacts, falling: Set<String>, ownDependents: [String],
        nameToday: String? = nil, parentBack: String? = nil
    ) -> Verdict {
        if isForeign(target) {
            return .discrepancy(.foreignCustomer(target.originalTransactionID))
        }
        if let over = target.whyOver { return .gone(over) }
        let renewing = target.renewingSKUs
        guard renewing.contains(sku) else {
            // Where several items were renamed at once, matching old and new names is an inference, and no program may
            // cancel because of an inference.
            guard let nameToday, renewing.contains(nameToday) else {
                return .gone("gone from the renewal")
            }
            return .discrepancy(.renamed(nameToday))
        }
        if let parentBack { return .discrepancy(.parentRenews(parentBack)) }
        guard ownDependents.isEmpty else { return .discrepancy(.ownDependents(ownDependents)) }
        let others = renewing.subtracting(falling).subtracting([sku])
        guard others.isEmpty else { return .discrepancy(.otherItems(others.sorted())) }
        return .cancel
    }

    /// Whether both tokens are known and differ. Where one is missing, we trust the batch.
    private func isForeign(_ facts: SubscriptionFacts) -> Bool {
        guard let customer, let other = facts.appAccountToken else { return false }
        return customer.lowercased() != other.lowercased()
    }
}

extension SubscriptionFacts {
    /// Whether it will not be charged again as things stand.
    var isOver: Bool { whyOver != nil }

    /// Whether the item will be charged again as things stand.
    package func renews(_ sku: String) -> Bool { !isOver && renewingSKUs.contains(sku) }

    /// Why it will not be charged again, in words; nil where it will.
    package var whyOver: String? {
        if status == 2 || status == 5 { return "its subscription ended" }
        return autoRenews == false ? "its subscription does not renew" : nil
    }
}
