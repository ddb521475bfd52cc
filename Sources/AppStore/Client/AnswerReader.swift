import Digests
internal import HTTP
internal import JOSE
internal import JSON
internal import Pricing

/// Verifies and decodes the App Store's answers. It does no I/O.
struct AnswerReader: Sendable {
    let verifier: JWSVerifier
    let bundleID: String
    let environment: StoreEnvironment

    /// Why a successful answer cannot be used; the text is safe to log.
    struct Failure: Error, Hashable {
        var reason: String

        static let undocumented = Failure(reason: "the answer is not the documented JSON")
    }

    func signedAnswer(
        _ body: [UInt8], evidenceID: String, transactionID: String, now: Int64
    ) throws(Failure) -> SubscriptionEvent {
        guard let json = JSONDocument.read(body), json.kind == .object else {
            throw .undocumented
        }
        let event = try event(
            Self.signedParts(json), source: .response, evidenceID: evidenceID, status: nil,
            now: now)
        guard
            [event.originalTransactionID, event.transaction?.transactionID].contains(transactionID)
        else { throw Failure(reason: "the answer is about another subscription") }
        return event
    }

    /// Reads the answer to Get All Subscription Statuses. It throws unless all of it has the documented form, because a
    /// skipped subscription would seem not to be the customer's.
    func statuses(_ body: [UInt8], now: Int64) throws(Failure) -> [SubscriptionEvent] {
        guard let json = JSONDocument.read(body), let groups = json["data"]?.elements else {
            throw .undocumented
        }
        // The field is unsigned, so it proves nothing. But an answer that names another app is certainly not about
        // ours.
        guard json["bundleId"]?.text.map({ $0 == bundleID }) ?? true else {
            throw Failure(reason: "the answer is about another app")
        }
        guard json["environment"]?.text.map({ $0 == environment.rawValue }) ?? true else {
            throw Failure(reason: "the answer is of another environment")
        }
        var readings: [SubscriptionEvent] = []
        for group in groups {
            guard let listed = group["lastTransactions"]?.elements,
                listed.allSatisfy({ $0.kind == .object })
            else { throw .undocumented }
            for last in listed { readings.append(try reading(last, now: now)) }
        }
        return readings
    }

    private func reading(_ last: JSONNode, now: Int64) throws(Failure) -> SubscriptionEvent {
        let parts = Self.signedParts(last)
        let signed = "\(parts.transaction ?? "")\n\(parts.renewal ?? "")"
        let digest = SHA256.hexadecimalDigest(of: Array(signed.utf8)).prefix(32)
        return try event(
            parts, source: .status, evidenceID: "status:\(digest)", status: last["status"]?.int,
            now: now)
    }

    private static func signedParts(_ json: JSONNode) -> (transaction: String?, renewal: String?) {
        (json["signedTransactionInfo"]?.text, json["signedRenewalInfo"]?.text)
    }

    private func pair(
        _ transaction: String?, _ renewal: String?, now: Int64
    ) throws(Failure) -> SignedPair {
        let pair = SignedPair(
            transaction: try transaction.map { jws throws(Failure) in
                try verified(WireTransaction.self, jws, now: now)
            },
            renewal: try renewal.map { jws throws(Failure) in
                try verified(WireRenewal.self, jws, now: now)
            })
        do {
            try pair.check(bundleID: bundleID, environment: environment)
        } catch {
            switch error {
            case .bundle: throw Failure(reason: "the answer is about another app")
            case .environment: throw Failure(reason: "the answer is of another environment")
            case .subscription: throw Failure(reason: "the answer's parts disagree")
            }
        }
        return pair
    }

    private func verified<Model: WireObject>(
        _ type: Model.Type, _ jws: String, now: Int64
    ) throws(Failure) -> Model {
        let json: JSONNode?
        do {
            json = try verifier.signedJSON(of: jws, now: now).json
        } catch {
            throw Failure(reason: "the answer's signature is refused: \(error)")
        }
        guard let model = json.flatMap(type.init) else {
            throw Failure(reason: "the answer's signed part is not the documented JSON")
        }
        return model
    }

    private func event(
        _ parts: (transaction: String?, renewal: String?), source: SubscriptionEvent.Source,
        evidenceID: String, status: Int?, now: Int64
    ) throws(Failure) -> SubscriptionEvent {
        let pair = try pair(parts.transaction, parts.renewal, now: now)
        guard let subscription = pair.originalTransactionID else {
            throw Failure(reason: "the answer names no subscription")
        }
        guard let signedAt = pair.signedAt else {
            throw Failure(reason: "the answer says no time of signing")
        }
        var event = SubscriptionEvent(
            key: SubscriptionEvent.Key(signedAt: signedAt, evidenceID: evidenceID),
            source: source, originalTransactionID: subscription)
        event.status = status
        event.transaction = pair.transaction?.statement
        event.renewal = pair.renewal?.statement
        return event
    }
}
