import HTTP

/// The endpoints of renewal-date extensions, under `/inApps/v1/subscriptions/extend`.
extension Routes {
    func extensionRoute(_ request: HTTPRequest, _ path: [String]) async throws -> HTTPResponse {
        switch path.count {
        case 1 where path[0] == "mass":
            return try await api(request, method: "POST", "extendAll")
        case 1: return try await api(request, method: "PUT", "extend", transaction: path[0])
        case 3 where path[0] == "mass":
            return try await api(
                request, method: "GET", "extendStatus", transaction: "\(path[1])/\(path[2])")
        default: return notFound
        }
    }

    func extensionAnswer(_ call: Call) async throws -> HTTPResponse {
        switch call.endpoint {
        case "extend":
            let outcome = try await keeper.extend(
                originalTransaction: call.transaction, body: call.request.body, fault: call.fault,
                number: call.number)
            switch outcome {
            case .refused(let error, _): return refusal(error)
            case .answer(let effectiveAt):
                return try json(
                    ExtensionPayload(
                        originalTransactionId: call.transaction,
                        webOrderLineItemId: "1\(call.transaction)", effectiveDate: effectiveAt))
            }
        case "extendAll":
            let outcome = try await keeper.extendAll(
                productID: statements.identity.productID, body: call.request.body,
                fault: call.fault, number: call.number)
            switch outcome {
            case .refused(let error, _): return refusal(error)
            case .answer(let identifier): return try json(["requestIdentifier": identifier])
            }
        default:
            let parts = call.transaction.split(separator: "/", omittingEmptySubsequences: false)
            guard parts.count == 2,
                let mass = try await keeper.massExtension(
                    productID: String(parts[0]), requestIdentifier: String(parts[1]))
            else { return refusal(.statusRequestNotFound) }
            return try json(MassExtensionPayload(mass))
        }
    }
}

extension StoreKeeper {
    func extend(
        originalTransaction: String, body: [UInt8], fault: CallFault?, number: Int64
    ) throws(SandboxError) -> OutcomeOf<Int64> {
        try call("extend", originalTransaction, body, fault, number) {
            (engine, _) throws(StoreError) in
            guard let fields = JSONValue.parse(body)?.object else { throw .malformedPayload }
            return try engine.extend(
                originalTransaction: originalTransaction, try ExtensionTerms(fields))
        }
    }

    /// The one product that this store sells is `productID`; returns the request's identifier.
    func extendAll(
        productID: String, body: [UInt8], fault: CallFault?, number: Int64
    ) throws(SandboxError) -> OutcomeOf<String> {
        try call("extendAll", "", body, fault, number) { (engine, _) throws(StoreError) in
            let request = try MassExtensionRequest(body)
            guard request.productID == productID else { throw .invalidProductID }
            engine.extendAll(
                productID: productID, storefronts: request.storefronts, request.terms)
            return request.terms.requestIdentifier
        }
    }

    func massExtension(productID: String, requestIdentifier: String) throws -> MassExtension? {
        _ = try tick()
        return engine.massExtension(productID: productID, requestIdentifier: requestIdentifier)
    }

    static func replayExtension(_ record: CallRecord, engine: inout StoreEngine) {
        let body = Array((record.body ?? "").utf8)
        // The body was valid when the call was applied: refused calls are not journalled as applied.
        do throws(StoreError) {
            if record.endpoint == "extendAll" {
                let request = try MassExtensionRequest(body)
                engine.extendAll(
                    productID: request.productID, storefronts: request.storefronts, request.terms)
            } else if let fields = JSONValue.parse(body)?.object {
                _ = try engine.extend(
                    originalTransaction: record.transactionId, try ExtensionTerms(fields))
            }
        } catch {
            // Only a journal of another version can fail here; the call then has no effect.
        }
    }
}
