import HTTP

/// The Advanced Commerce endpoints besides prices and cancellation, and the transactions of the App Store Server API.
extension Routes {
    static let subscriptionCalls: Set<String> = [
        "changePrice", "cancel", "revoke", "changeMetadata", "migrate",
    ]

    func commerceAnswer(_ call: Call) async throws -> HTTPResponse {
        let outcome = try await keeper.commerce(
            call.endpoint, transaction: call.transaction, body: call.request.body,
            productID: statements.identity.productID, fault: call.fault, number: call.number)
        guard call.endpoint == "requestRefund" else { return try answered(outcome) }
        switch outcome {
        case .refused(let error, _): return refusal(error)
        case .answer(let answer):
            // Of the transaction alone.
            return try json(["signedTransactionInfo": try statements.signed(answer).transaction])
        }
    }

    func transactionInfo(_ call: Call) async throws -> HTTPResponse {
        switch try await keeper.transaction(
            call.transaction, fault: call.fault, number: call.number)
        {
        case .refused(let error, _): return refusal(error)
        case .answer(let told):
            return try json(["signedTransactionInfo": try statements.signed(told)])
        }
    }

    func transactionHistory(_ call: Call) async throws -> HTTPResponse {
        let query: TransactionQuery
        do throws(StoreError) {
            query = try TransactionQuery(call.request.query)
        } catch {
            return try await refuse(error, call)
        }
        let identity = statements.identity
        let outcome = try await keeper.transactions(
            ofCustomerOf: call.transaction, query, productID: identity.productID,
            fault: call.fault, number: call.number)
        switch outcome {
        case .refused(let error, _): return refusal(error)
        case .answer(let page):
            let isProduction = identity.environment == "Production"
            return try json(
                TransactionHistoryPayload(
                    revision: page.revision, hasMore: page.hasMore, bundleId: identity.bundleID,
                    appAppleId: isProduction ? identity.appAppleID : nil,
                    environment: identity.environment,
                    signedTransactions: try page.transactions.map { try statements.signed($0) }))
        }
    }
}

extension StoreKeeper {
    /// A request that may be made once: `revoke`, `changeMetadata`, `migrate`, `requestRefund`.
    func commerce(
        _ endpoint: String, transaction: String, body: [UInt8], productID: String,
        fault: CallFault?, number: Int64
    ) throws(SandboxError) -> Outcome {
        try call(endpoint, transaction, body, fault, number) { (engine, _) throws(StoreError) in
            try engine.commerce(endpoint, transaction, body, productID: productID)
        }
    }

    func transaction(
        _ id: String, fault: CallFault?, number: Int64
    ) throws(SandboxError) -> OutcomeOf<ToldTransaction> {
        try call("transactionInfo", id, [], fault, number) { (engine, _) throws(StoreError) in
            try engine.transaction(id)
        }
    }

    func transactions(
        ofCustomerOf id: String, _ query: TransactionQuery, productID: String, fault: CallFault?,
        number: Int64
    ) throws(SandboxError) -> OutcomeOf<TransactionPage> {
        try call("transactionHistory", id, [], fault, number) { (engine, _) throws(StoreError) in
            query.page(of: try engine.transactions(ofCustomerOf: id), productID: productID)
        }
    }
}

extension StoreEngine {
    /// One of the calls that are named by their endpoint, as it came and as a restart replays it.
    mutating func commerce(
        _ endpoint: String, _ transaction: String, _ body: [UInt8], productID: String
    ) throws(StoreError) -> Answer {
        let isProduction = !options.calendar.isShortened
        return switch endpoint {
        case "revoke":
            try revoke(
                transaction: transaction, try RevokeOrder(body, isProduction: isProduction))
        case "changeMetadata":
            try changeMetadata(transaction: transaction, try MetadataOrder(body))
        case "migrate":
            try migrate(
                transaction: transaction, try MigrateOrder(body), productID: productID)
        default:
            try requestRefund(
                transaction: transaction, try RefundOrder(body, isProduction: isProduction))
        }
    }
}
