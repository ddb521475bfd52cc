internal import HTTP
internal import JOSE
internal import JSONReading
internal import Pricing

/// Verifies and decodes what the App Store answers; no I/O.
struct AnswerReader: Sendable {
    let verifier: JWSVerifier
    let bundleID: String
    let environment: AppStoreEnvironment

    /// Why a successful answer cannot be used; the text is safe to log.
    struct Failure: Error, Hashable {
        var reason: String
    }

    func signedAnswer(
        _ body: [UInt8], evidenceID: String, transactionID: String, now: Int64
    ) throws(Failure) -> SignedAnswer {
        guard let wire = JSONDocument.read(body).flatMap(WireSignedAnswer.init) else {
            throw Failure(reason: "the answer is not the documented JSON")
        }
        let pair = try pair(wire.signedTransactionInfo, wire.signedRenewalInfo, now: now)
        let event = try event(pair, source: .response, evidenceID: evidenceID, status: nil)
        guard
            [event.originalTransactionID, event.transaction?.transactionID].contains(transactionID)
        else { throw Failure(reason: "the answer is about another subscription") }
        return SignedAnswer(
            event: event, signedTransactionInfo: wire.signedTransactionInfo,
            signedRenewalInfo: wire.signedRenewalInfo)
    }

    func statuses(_ body: [UInt8], now: Int64) throws(Failure) -> [StatusReading] {
        guard let wire = JSONDocument.read(body).flatMap(WireStatuses.init) else {
            throw Failure(reason: "the answer is not the documented JSON")
        }
        // Unsigned, so it proves nothing; but an answer that says so itself is not about our app.
        guard wire.bundleId.map({ $0 == bundleID }) ?? true else {
            throw Failure(reason: "the answer is about another app")
        }
        guard wire.environment.map({ $0 == environment.rawValue }) ?? true else {
            throw Failure(reason: "the answer is of another environment")
        }
        var readings: [StatusReading] = []
        for last in wire.lastTransactions {
            readings.append(try reading(last, now: now))
        }
        return readings
    }

    private func reading(_ last: WireStatuses.Last, now: Int64) throws(Failure) -> StatusReading {
        let pair = try pair(last.signedTransactionInfo, last.signedRenewalInfo, now: now)
        let signed = [last.signedTransactionInfo, last.signedRenewalInfo].map { $0 ?? "" }
        let digest = SHA256Hash.hex(Array(signed.joined(separator: "\n").utf8))
        let event = try event(
            pair, source: .status, evidenceID: "status:\(digest.prefix(32))", status: last.status)
        return StatusReading(
            originalTransactionID: event.originalTransactionID, status: last.status, event: event,
            signedTransactionInfo: last.signedTransactionInfo,
            signedRenewalInfo: last.signedRenewalInfo)
    }

    func pair(
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

    func verified<Model: WireObject>(
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
        _ pair: SignedPair, source: SubscriptionEvent.Source, evidenceID: String, status: Int?
    ) throws(Failure) -> SubscriptionEvent {
        guard let subscription = pair.originalTransactionID else {
            throw Failure(reason: "the answer names no subscription")
        }
        guard let signedAt = pair.signedAt else {
            throw Failure(reason: "the answer says no time of signing")
        }
        return SubscriptionEvent(
            key: SubscriptionEvent.Key(signedAt: signedAt, evidenceID: evidenceID),
            source: source,
            originalTransactionID: subscription,
            status: status,
            transaction: pair.transaction?.statement,
            renewal: pair.renewal?.statement)
    }
}
