internal import JOSE
internal import JSON
internal import Pricing

/// A transaction and a renewal that came together, decoded.
struct SignedPair {
    var transaction: WireTransaction?
    var renewal: WireRenewal?

    /// Why two statements cannot be believed together, or about our app.
    enum Fault: Error, Hashable {
        case bundle, environment, subscription
    }

    /// The longest id. Apple's have some 16 digits, so a longer text is not an id.
    private static let idLengthMax = 64

    /// The one subscription that all parts are about; nil where a part does not say.
    var originalTransactionID: String? {
        let ids = [
            transaction.map { $0.originalTransactionId },
            renewal.map { $0.originalTransactionId },
        ].compactMap { $0 }
        guard let first = ids.first, ids.allSatisfy({ $0 == first }) else { return nil }
        return first.flatMap { (1...Self.idLengthMax).contains($0.unicodeScalars.count) ? $0 : nil }
    }

    /// When the renewal was signed, otherwise the transaction.
    var signedAt: Instant? { renewal?.signedDate ?? transaction?.signedDate }

    /// Checks that both parts belong to our app and to each other. A renewal carries no bundle id of its own.
    func check(bundleID: String, environment: StoreEnvironment) throws(Fault) {
        if let transaction {
            guard transaction.bundleId == bundleID else { throw .bundle }
            guard transaction.environment == environment.rawValue else { throw .environment }
        }
        if let renewal {
            guard renewal.environment == environment.rawValue else { throw .environment }
        }
        if let left = transaction?.originalTransactionId,
            let right = renewal?.originalTransactionId, left != right
        {
            throw .subscription
        }
    }
}

extension JWSVerifier {
    /// The payload, with its JSON where it is JSON, decoded once after its signature was proved. Its certificates
    /// must be valid at the time of signing that it states, or at `now` where it states none.
    func signedJSON(
        of jws: Span<UInt8>, now: Int64
    ) throws(JOSEError) -> (payload: [UInt8], json: JSONNode?) {
        let signed = try open(jws)
        let json = JSONDocument.read(signed.bytes)
        try signed.check(validAt: json?["signedDate"]?.int64RoundedDown ?? now)
        return (signed.bytes, json)
    }

    func signedJSON(
        of jws: String, now: Int64
    ) throws(JOSEError) -> (payload: [UInt8], json: JSONNode?) {
        try signedJSON(of: jws.utf8Span.span, now: now)
    }
}
