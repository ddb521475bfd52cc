internal import JOSE
internal import Pricing

/// A transaction and a renewal that came together, decoded.
struct SignedPair {
    var transaction: WireTransaction?
    var renewal: WireRenewal?

    /// Why two statements cannot be believed together, or about our app.
    enum Fault: Error, Hashable {
        case bundle, environment, subscription
    }

    /// The one subscription that all parts speak of; nil where a part does not say.
    var originalTransactionID: String? {
        let ids = [
            transaction.map { $0.originalTransactionId?.text },
            renewal.map { $0.originalTransactionId?.text },
        ].compactMap { $0 }
        guard let first = ids.first, ids.allSatisfy({ $0 == first }) else { return nil }
        return first.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The renewal's time of signing, else the transaction's.
    var signedAt: Instant? { renewal?.signedDate?.instant ?? transaction?.signedDate?.instant }

    /// Binds both parts to our app and to each other: a renewal carries no bundle id of its own.
    func check(bundleID: String, environment: StoreEnvironment) throws(Fault) {
        if let transaction {
            guard transaction.bundleId?.text == bundleID else { throw .bundle }
            guard transaction.environment?.text == environment.rawValue else { throw .environment }
        }
        if let renewal {
            guard renewal.environment?.text == environment.rawValue else { throw .environment }
        }
        if let left = transaction?.originalTransactionId?.text,
            let right = renewal?.originalTransactionId?.text, left != right
        {
            throw .subscription
        }
    }
}

extension JWSVerifier {
    /// Verifies at the time that the payload says it was signed, or `now` where it says none.
    func payload(of jws: String, now: Int64) throws(JOSEError) -> [UInt8] {
        try verify(jws, validAt: signedDate(ofUnproved:), now: now)
    }
}
