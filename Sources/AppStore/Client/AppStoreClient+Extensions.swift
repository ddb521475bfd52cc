internal import HTTP
internal import JSON
internal import Pricing

/// Renewal-date extensions of the App Store Server API: 20 calls a second for one subscription, and 1 for the others.
extension AppStoreClient {
    /// Calls Extend a Subscription Renewal Date. The same request identifier repeats the same request.
    package func extend(
        originalTransactionID: String, _ request: ExtensionRequest,
        leavingBefore: ContinuousClock.Instant? = nil
    ) async -> CallOutcome<ExtensionAnswer> {
        if let fault = FieldCheck.fault(ofTransaction: originalTransactionID) {
            return .faulty(fault)
        }
        let path = "/inApps/v1/subscriptions/extend"
        let target = "\(path)/\(PercentCoding.encode(originalTransactionID))"
        return await call(
            .json(target, method: "PUT", request.body), leavingBefore: leavingBefore
        ) { body, _ throws(AnswerReader.Failure) in
            let wire = JSONDocument.read(body)
            guard let isSuccess = wire?["success"]?.boolean else {
                throw AnswerReader.Failure.undocumented
            }
            let told = wire?["originalTransactionId"]?.storableText ?? originalTransactionID
            guard told == originalTransactionID else {
                throw AnswerReader.Failure(reason: "the answer is about another subscription")
            }
            return ExtensionAnswer(
                isSuccess: isSuccess, effectiveAt: wire?["effectiveDate"]?.instant)
        }
    }

    /// Calls Extend Subscription Renewal Dates for All Active Subscribers. The call only starts the work, which takes
    /// hours or days.
    package func extendAll(
        _ request: MassExtensionRequest, leavingBefore: ContinuousClock.Instant? = nil
    ) async -> CallOutcome<String> {
        await call(
            .json("/inApps/v1/subscriptions/extend/mass", request.body),
            leavingBefore: leavingBefore
        ) { body, _ throws(AnswerReader.Failure) in
            let told = JSONDocument.read(body)?["requestIdentifier"]?.storableText
            guard told == request.requestIdentifier else {
                throw AnswerReader.Failure(reason: "the answer names another request")
            }
            return request.requestIdentifier
        }
    }

    /// Calls Get Status of Subscription Renewal Date Extensions.
    package func extensionStatus(
        productID: String, requestIdentifier: String
    ) async -> CallOutcome<MassExtensionStatus> {
        do throws(RequestFault) {
            try FieldCheck.requestIdentifier(requestIdentifier)
            try FieldCheck.text(productID, "productId", max: FieldCheck.productIDMax)
        } catch {
            return .faulty(error)
        }
        let parts = [productID, requestIdentifier].map { PercentCoding.encode($0) }
        let target = "/inApps/v1/subscriptions/extend/mass/\(parts.joined(separator: "/"))"
        return await call(HTTPRequest(method: "GET", target: target)) {
            body, _ throws(AnswerReader.Failure) in
            let wire = JSONDocument.read(body)
            guard let isComplete = wire?["complete"]?.boolean else {
                throw AnswerReader.Failure.undocumented
            }
            guard
                wire?["requestIdentifier"]?.storableText.map({ $0 == requestIdentifier }) ?? true
            else { throw AnswerReader.Failure(reason: "the answer names another request") }
            return MassExtensionStatus(
                isComplete: isComplete, completedAt: wire?["completeDate"]?.instant,
                succeeded: wire?["succeededCount"]?.int64, failed: wire?["failedCount"]?.int64)
        }
    }
}
