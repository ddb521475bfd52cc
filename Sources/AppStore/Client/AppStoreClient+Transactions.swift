internal import FoundationEssentials
internal import HTTP
internal import JSONReading
package import Pricing

/// Get Transaction Info and Get Transaction History, of the App Store Server API.
extension AppStoreClient {
    /// Get Transaction Info: one transaction, without renewal info.
    package func transactionInfo(
        transactionID: String
    ) async -> CallOutcome<TransactionReading> {
        if let fault = FieldCheck.fault(ofTransaction: transactionID) { return .faulty(fault) }
        let target = "/inApps/v1/transactions/\(PercentCoding.encode(transactionID))"
        return await call(HTTPRequest(method: "GET", target: target)) {
            body, now throws(AnswerReader.Failure) in
            try reader.transaction(body, of: transactionID, now: now)
        }
    }

    /// Get Transaction History: at most 20 transactions of a customer.
    ///
    /// - Parameter revision: From the page before; nil for the first.
    package func transactionHistory(
        _ request: TransactionHistoryRequest, revision: String?
    ) async -> CallOutcome<TransactionHistoryPage> {
        let id = PercentCoding.encode(request.transactionID)
        let target = "/inApps/v2/history/\(id)\(request.query(revision: revision))"
        return await call(HTTPRequest(method: "GET", target: target)) {
            body, now throws(AnswerReader.Failure) in
            let wire = JSONDocument.read(body)
            guard let listed = wire?["signedTransactions"]?.elements,
                let hasMore = wire?["hasMore"]?.boolean
            else { throw AnswerReader.Failure(reason: "the answer is not the documented JSON") }
            var transactions: [TransactionReading] = []
            for entry in listed {
                guard let jws = entry.text else {
                    throw AnswerReader.Failure(reason: "an entry is no signed transaction")
                }
                transactions.append(try reader.transaction(jws, now: now).reading)
            }
            return TransactionHistoryPage(
                transactions: transactions, hasMore: hasMore,
                revision: wire?["revision"]?.storableText)
        }
    }
}

/// One question to Get Transaction History, checked before it is sent.
package struct TransactionHistoryRequest: Hashable, Sendable {
    package enum Sort: String, Hashable, Sendable {
        case ascending = "ASCENDING"
        case descending = "DESCENDING"
    }

    package enum ProductType: String, Hashable, Sendable {
        case autoRenewable = "AUTO_RENEWABLE"
        case nonRenewable = "NON_RENEWABLE"
        case consumable = "CONSUMABLE"
        case nonConsumable = "NON_CONSUMABLE"
    }

    package enum Ownership: String, Hashable, Sendable {
        case purchased = "PURCHASED"
        case familyShared = "FAMILY_SHARED"
    }

    /// Any transaction id of the customer.
    package let transactionID: String
    package let startAt: Instant?
    package let endAt: Instant?
    package let productIDs: [String]
    package let productTypes: [ProductType]
    package let subscriptionGroupIdentifiers: [String]
    /// nil: bought or shared by the family.
    package let ownership: Ownership?
    package let sort: Sort
    /// nil: revoked or not.
    package let revoked: Bool?

    package init(
        transactionID: String, startAt: Instant? = nil, endAt: Instant? = nil,
        productIDs: [String] = [], productTypes: [ProductType] = [],
        subscriptionGroupIdentifiers: [String] = [], ownership: Ownership? = nil,
        sort: Sort = .ascending, revoked: Bool? = nil
    ) throws(RequestFault) {
        try FieldCheck.transaction(transactionID)
        if let startAt, let endAt, startAt >= endAt { throw .startNotBeforeEnd }
        for productID in productIDs { try FieldCheck.text(productID, "productId", max: 255) }
        for group in subscriptionGroupIdentifiers {
            try FieldCheck.text(group, "subscriptionGroupIdentifier", max: 64)
        }
        self.transactionID = transactionID
        self.startAt = startAt
        self.endAt = endAt
        self.productIDs = productIDs
        self.productTypes = productTypes
        self.subscriptionGroupIdentifiers = subscriptionGroupIdentifiers
        self.ownership = ownership
        self.sort = sort
        self.revoked = revoked
    }

    func query(revision: String?) -> String {
        var parts = [("sort", sort.rawValue)]
        if let revision { parts.append(("revision", revision)) }
        if let startAt { parts.append(("startDate", String(startAt.milliseconds))) }
        if let endAt { parts.append(("endDate", String(endAt.milliseconds))) }
        parts += productIDs.map { ("productId", $0) }
        parts += productTypes.map { ("productType", $0.rawValue) }
        parts += subscriptionGroupIdentifiers.map { ("subscriptionGroupIdentifier", $0) }
        if let ownership { parts.append(("inAppOwnershipType", ownership.rawValue)) }
        if let revoked { parts.append(("revoked", revoked ? "true" : "false")) }
        return "?" + parts.map { "\($0)=\(PercentCoding.encode($1))" }.joined(separator: "&")
    }
}

/// One page of a customer's transactions, each verified.
package struct TransactionHistoryPage: Hashable, Sendable {
    package var transactions: [TransactionReading]
    package var hasMore: Bool
    /// For the next page of the same question.
    package var revision: String?
}
