import JOSE

/// A transaction as it is told: the subscription of then.
struct ToldTransaction: Hashable, Sendable {
    var subscription: StoreSubscription
    var signedAt: Int64
}

/// A page of Get Transaction History.
struct TransactionPage: Hashable, Sendable {
    var transactions: [ToldTransaction]
    var hasMore: Bool
    var revision: String
}

extension StoreEngine {
    /// Get Transaction Info. What it tells is signed now, and changes nothing.
    func transaction(_ text: String) throws(StoreError) -> ToldTransaction {
        let subscription = try find(text)
        let told = Int64(text).flatMap { subscription.asOf(transaction: $0) }
        guard let told else { throw .transactionNotFound }
        return ToldTransaction(
            subscription: told, signedAt: max(now, subscription.lastSignedAt))
    }

    /// All transactions that the store has seen of a customer, oldest first. What was paid before the store began is
    /// known only of the period that ran then.
    func transactions(ofCustomerOf text: String) throws(StoreError) -> [ToldTransaction] {
        subscriptions(ofCustomerOf: try find(text)).flatMap { subscription in
            let earlier = (subscription.past ?? []).compactMap {
                subscription.asOf(
                    transaction: subscription.originalTransactionID + Int64($0.number))
            }
            return (earlier + [subscription]).map {
                ToldTransaction(
                    subscription: $0, signedAt: max(now, subscription.lastSignedAt))
            }
        }.sorted { $0.order < $1.order }
    }
}

extension ToldTransaction {
    var order: TransactionOrder {
        TransactionOrder(at: subscription.purchasedAt, id: subscription.transactionID)
    }
}

/// Where a transaction stands among the customer's; a page's revision says after which one the next begins.
struct TransactionOrder: Comparable, Hashable, Sendable {
    var at: Int64
    var id: Int64

    static func < (left: TransactionOrder, right: TransactionOrder) -> Bool {
        (left.at, left.id) < (right.at, right.id)
    }

    init(at: Int64, id: Int64) {
        self.at = at
        self.id = id
    }

    init?(revision: String) {
        guard let bytes = Base64URL.decode(revision) else { return nil }
        let parts = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        guard parts.count == 2, let at = Int64(parts[0]), let id = Int64(parts[1]) else {
            return nil
        }
        self.init(at: at, id: id)
    }

    var revision: String { Base64URL.encode(Array("\(at) \(id)".utf8)) }
}

/// The query of Get Transaction History, checked.
struct TransactionQuery: Hashable, Sendable {
    static let pageSize = 20

    var start: Int64?
    var end: Int64?
    var productIDs: [String]
    var productTypes: [String]
    var groups: [String]
    var ownership: String?
    var isDescending = false
    var revoked: Bool?
    var after: TransactionOrder?

    init(_ query: [String: [String]]) throws(StoreError) {
        if let text = query["startDate"]?.first {
            guard let value = Int64(text), value >= 0 else { throw .invalidStartDate }
            start = value
        }
        if let text = query["endDate"]?.first {
            guard let value = Int64(text), value >= 0 else { throw .invalidEndDate }
            end = value
        }
        if let start, let end, start >= end { throw .startDateAfterEndDate }
        productIDs = query["productId"] ?? []
        guard productIDs.allSatisfy({ !$0.isEmpty }) else { throw .invalidProductID }
        productTypes = query["productType"] ?? []
        let types = ["AUTO_RENEWABLE", "NON_RENEWABLE", "CONSUMABLE", "NON_CONSUMABLE"]
        guard productTypes.allSatisfy({ types.contains($0) }) else { throw .invalidProductType }
        groups = query["subscriptionGroupIdentifier"] ?? []
        guard groups.allSatisfy({ !$0.isEmpty }) else { throw .invalidSubscriptionGroup }
        ownership = query["inAppOwnershipType"]?.first
        if let ownership {
            guard ["PURCHASED", "FAMILY_SHARED"].contains(ownership) else {
                throw .invalidOwnershipType
            }
        }
        switch query["sort"]?.first {
        case nil, "ASCENDING": isDescending = false
        case "DESCENDING": isDescending = true
        case .some: throw .invalidSort
        }
        switch query["revoked"]?.first {
        case nil: revoked = nil
        case "true": revoked = true
        case "false": revoked = false
        case .some: throw .invalidRevoked
        }
        if let text = query["revision"]?.first {
            guard let order = TransactionOrder(revision: text) else { throw .invalidRevision }
            after = order
        }
    }

    func page(of all: [ToldTransaction], productID: String) -> TransactionPage {
        let ordered = isDescending ? Array(all.reversed()) : all
        let found = ordered.filter { matches($0, productID: productID) }.filter { one in
            guard let after else { return true }
            return isDescending ? one.order < after : one.order > after
        }
        let page = Array(found.prefix(Self.pageSize))
        return TransactionPage(
            transactions: page, hasMore: found.count > page.count,
            revision: (page.last?.order ?? after ?? TransactionOrder(at: 0, id: 0)).revision)
    }

    private func matches(_ one: ToldTransaction, productID: String) -> Bool {
        let then = one.subscription
        if let start, then.purchasedAt < start { return false }
        if let end, then.purchasedAt >= end { return false }
        if !productIDs.isEmpty, !productIDs.contains(then.productID(of: productID)) { return false }
        // The store sells nothing but subscriptions, all of one group.
        if !productTypes.isEmpty, !productTypes.contains("AUTO_RENEWABLE") { return false }
        if !groups.isEmpty, !groups.contains(Statements.subscriptionGroup) { return false }
        if let ownership, ownership != then.ownershipType { return false }
        guard let revoked else { return true }
        return revoked == (then.revokedAt != nil)
    }
}

/// `HistoryResponse`.
struct TransactionHistoryPayload: Encodable, Sendable {
    var revision: String
    var hasMore: Bool
    var bundleId: String
    var appAppleId: Int64?
    var environment: String
    var signedTransactions: [String]
}
