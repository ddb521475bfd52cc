internal import FoundationEssentials
internal import HTTP
internal import JSONReading
package import Pricing

/// The other calls of the Advanced Commerce API. Each names the transaction in its path: the subscription's
/// original transaction id, or any later one.
extension AppStoreClient {
    /// Revoke Subscription. Service ends when the `REFUND` notification says so, not with this answer.
    package func revoke(
        transactionID: String, _ request: RevokeRequest
    ) async -> CallOutcome<SignedAnswer> {
        await commerce("revoke", transactionID, request, request.requestInfo)
    }

    /// Change Subscription Metadata.
    package func changeMetadata(
        transactionID: String, _ request: MetadataRequest
    ) async -> CallOutcome<SignedAnswer> {
        await commerce("changeMetadata", transactionID, request, request.requestInfo)
    }

    /// Migrate a Subscription to Advanced Commerce.
    package func migrate(
        transactionID: String, _ request: MigrateRequest
    ) async -> CallOutcome<SignedAnswer> {
        await commerce("migrate", transactionID, request, request.requestInfo)
    }

    /// Request Transaction Refund; the answer carries the transaction alone.
    package func requestRefund(
        transactionID: String, _ request: RefundRequest
    ) async -> CallOutcome<TransactionReading> {
        if let fault = FieldCheck.fault(ofTransaction: transactionID) { return .faulty(fault) }
        let path = "/advancedCommerce/v1/transaction/requestRefund"
        guard let post = post("\(path)/\(PercentCoding.encode(transactionID))", request) else {
            return .notSent(reason: "the request cannot be encoded")
        }
        return await call(post) { body, now throws(AnswerReader.Failure) in
            try reader.transaction(body, of: transactionID, now: now)
        }
    }

    private func commerce(
        _ name: String, _ transactionID: String, _ request: some Encodable & Sendable,
        _ info: CommerceRequestInfo
    ) async -> CallOutcome<SignedAnswer> {
        if let fault = FieldCheck.fault(ofTransaction: transactionID) { return .faulty(fault) }
        let path = "/advancedCommerce/v1/subscription/\(name)"
        guard let post = post("\(path)/\(PercentCoding.encode(transactionID))", request) else {
            return .notSent(reason: "the request cannot be encoded")
        }
        return await call(post) { body, now throws(AnswerReader.Failure) in
            try reader.signedAnswer(
                body, evidenceID: info.requestReferenceId, transactionID: transactionID, now: now)
        }
    }

    /// One text for one request, whenever it is made; nil where it can't be encoded.
    func post(
        _ target: String, _ body: some Encodable, method: String = "POST"
    ) -> HTTPRequest? {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // The caller says so: nothing is sent.
        guard let bytes = try? encoder.encode(body) else { return nil }
        return HTTPRequest(
            method: method, target: target,
            headers: HTTPHeaders([("Content-Type", "application/json")]), body: Array(bytes))
    }
}

/// A verified transaction.
package struct TransactionReading: Hashable, Sendable {
    package var originalTransactionID: String
    package var statement: TransactionStatement
    /// The compact JWS as received.
    package var signedTransactionInfo: String
}

extension AnswerReader {
    /// One `signedTransactionInfo` about the transaction asked for, or about its subscription.
    func transaction(
        _ body: [UInt8], of transactionID: String, now: Int64
    ) throws(Failure) -> TransactionReading {
        guard let wire = JSONDocument.read(body).flatMap(WireSignedAnswer.init),
            let jws = wire.signedTransactionInfo
        else { throw Failure(reason: "the answer is not the documented JSON") }
        let (reading, id) = try transaction(jws, now: now)
        guard [reading.originalTransactionID, id].contains(transactionID) else {
            throw Failure(reason: "the answer is about another transaction")
        }
        return reading
    }

    func transaction(
        _ jws: String, now: Int64
    ) throws(Failure) -> (reading: TransactionReading, transactionID: String?) {
        guard let transaction = try pair(jws, nil, now: now).transaction,
            let subscription = transaction.originalTransactionId, !subscription.isEmpty
        else { throw Failure(reason: "the answer names no transaction") }
        let reading = TransactionReading(
            originalTransactionID: subscription, statement: transaction.statement,
            signedTransactionInfo: jws)
        return (reading, transaction.transactionId)
    }
}
