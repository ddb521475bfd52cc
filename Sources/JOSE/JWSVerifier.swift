internal import Synchronization

/// A payload that the App Store signed: chain and signature are verified, and only its time is still to be checked.
package struct SignedPayload: Sendable {
    /// The decoded payload: any bytes.
    package let bytes: [UInt8]
    /// The UNIX seconds in which every certificate of the chain is valid.
    private let validity: Range<Int64>

    fileprivate init(bytes: [UInt8], validity: Range<Int64>) {
        self.bytes = bytes
        self.validity = validity
    }

    /// Throws `.chain` where a certificate was not valid at `time` (UTC milliseconds, compared to the second). Its last
    /// second does not count as valid.
    ///
    /// Pass the payload's `signedDate`, so that history verifies although its certificates have expired since. A date
    /// outside the certificates' validity (1970, the year 9999) is refused here. A date within it is believed even when
    /// it is ahead of our clock: the App Store signed it, and our clock may be wrong.
    package func check(validAt time: Int64) throws(JOSEError) {
        guard validity.contains(floorSeconds(time)) else {
            throw JOSEError(.chain, "a certificate is not valid at the time of signing")
        }
    }
}

/// Verifies what the App Store signs: ES256 under a chain of exactly three certificates that leads
/// to a configured root.
///
/// The order is fixed, the cheapest first and nothing believed early: size, form, header, chain, signature. The payload
/// is not parsed before its signature is verified, not even for its date: the chain is verified without a time, and the
/// time is checked last.
package final class JWSVerifier: Sendable {
    private static let cacheLimitMax = 64

    private let trust: Mutex<TrustState>
    private let lanes = VerificationLanes()
    private let cacheLimit: Int
    private let sizeMax: Int

    /// - Parameters:
    ///   - roots: The only anchors of trust.
    ///   - cacheLimit: How many headers with a verified chain are kept, at most 64; 0 keeps none.
    ///   - sizeMax: The most bytes of a JWS. Longer ones are refused unread.
    package init(
        roots: TrustedRoots, cacheLimit: Int = 64, sizeMax: Int = CompactJWS.sizeMax
    ) throws(JOSEError) {
        self.cacheLimit = min(max(cacheLimit, 0), Self.cacheLimitMax)
        trust = Mutex(try TrustState(roots: roots, headersMax: self.cacheLimit))
        self.sizeMax = sizeMax
    }

    private var current: TrustState { trust.withLock { $0 } }

    /// How many headers with their chains are known.
    package var cachedChains: Int { current.headerCount }

    /// When certificates end, in UNIX seconds, by their place in a chain: the earliest end among roots, and the latest
    /// among the intermediates and leaves that signed something lately, since new ones replace the others.
    package var expiries: [String: Int64] {
        let trust = current
        func last(_ certificates: [Certificate]) -> Int64? {
            certificates.compactMap(\.validity?.upperBound).max()
        }
        var expiries: [String: Int64] = [:]
        expiries["root"] = trust.roots.certificates.compactMap(\.validity?.upperBound).min()
        expiries["intermediate"] = last(trust.chains.map(\.intermediate.certificate))
        expiries["leaf"] = last(trust.chains.map(\.leaf))
        return expiries
    }

    /// How many refused chains are remembered.
    package var rememberedRefusals: Int { current.refusalCount }

    /// Trusts these roots from the next verification on. Where they differ from the roots before, all chains are
    /// forgotten, so that none outlives its root; revoked certificates stay revoked.
    ///
    /// - Returns: False where the roots are the same.
    @discardableResult
    package func replaceRoots(_ roots: TrustedRoots) throws(JOSEError) -> Bool {
        // A revocation that comes meanwhile waits, and is not lost with the old state.
        let areNew = try trust.withLock { state throws(JOSEError) in
            guard state.roots.fingerprints != roots.fingerprints else { return false }
            state = try TrustState(roots: roots, headersMax: cacheLimit, revoked: state.revoked)
            return true
        }
        if areNew { lanes.forget() }
        return areNew
    }

    /// The revocation questions about the certificates of the known chains, one per certificate. Each certificate leads
    /// to a configured root and names its issuer's responder.
    package var revocationQuestions: [RevocationQuestion] {
        let trust = current
        var seen: Set<String> = []
        return trust.chains.flatMap { chain in
            let intermediate = chain.intermediate
            return [
                RevocationQuestion(chain.leaf, issuer: intermediate.certificate, trust.roots),
                RevocationQuestion(
                    intermediate.certificate, issuer: intermediate.root, trust.roots),
            ].compactMap { $0 }.filter { seen.insert($0.id).inserted }
        }
    }

    /// From now on refuses every chain with this question's certificate, or no longer refuses it.
    package func setRevoked(_ isRevoked: Bool, _ question: RevocationQuestion) {
        trust.withLock { $0.setRevoked(isRevoked, question.certificate) }
        lanes.forget()
    }

    /// The payload of `jws`, once everything about it but its time is proved.
    package func open(_ jws: Span<UInt8>) throws(JOSEError) -> SignedPayload {
        try jws.withUnsafeBufferPointer { text throws(JOSEError) in try open(text) }
    }

    /// The payload of `jws`, once everything about it but its time is proved.
    package func open(_ jws: String) throws(JOSEError) -> SignedPayload {
        try open(jws.utf8Span.span)
    }

    private func open(_ text: UnsafeBufferPointer<UInt8>) throws(JOSEError) -> SignedPayload {
        let parts = try JWSParts(text, limit: sizeMax)
        // Malformed base64url is reported before anything is verified.
        let signature = try parts.decodedSignature()
        let payload = try parts.decodedPayload()
        if cacheLimit > 0, signature.count == 64,
            let verdict = signature.withUnsafeBufferPointer({ lanes.verdict(parts, signature: $0) })
        {
            guard verdict.isGood else { throw Self.badSignature }
            return SignedPayload(bytes: payload, validity: verdict.validity)
        }
        return SignedPayload(bytes: payload, validity: try prove(parts, signature).validity)
    }

    private static let badSignature = JOSEError(.signature, "the signature does not verify")

    /// The chain of a JWS, once chain and signature are verified.
    private func prove(
        _ parts: JWSParts, _ signature: [UInt8]
    ) throws(JOSEError) -> VerifiedChain {
        let now = lanes.now
        let trust = current
        let known = trust.chain(forHeader: parts.header)
        let chain =
            if let known { known } else { try Self.chain(header: parts.decodedHeader(), trust) }
        guard signature.count == 64 else {
            throw JOSEError(.signature, "the signature has \(signature.count) bytes, not 64")
        }
        let isGood = signature.withUnsafeBufferPointer {
            chain.leafKey.isValid(signature: $0, over: parts.signingInput)
        }
        guard isGood else { throw Self.badSignature }
        if known == nil { trust.insert(chain, forHeader: parts.header) }
        if cacheLimit > 0 { lanes.remember(chain, forHeader: parts.header, at: now) }
        return chain
    }

    /// The third certificate, the sender's root, must parse; apart from that it is ignored.
    private static func chain(
        header bytes: [UInt8], _ trust: TrustState
    ) throws(JOSEError) -> VerifiedChain {
        let header = try JWSHeader(json: bytes)
        guard let algorithm = header.algorithm else {
            throw JOSEError(.header, "the header lacks alg")
        }
        guard algorithm == "ES256" else {
            throw JOSEError(.algorithm, "alg is not ES256")
        }
        guard !header.isCritical else {
            throw JOSEError(.critical, "the header demands extensions that are unknown")
        }
        guard let texts = header.certificates else {
            throw JOSEError(.header, "the header lacks x5c, a list of certificates")
        }
        guard texts.count == 3 else {
            throw JOSEError(.certificateCount, "x5c holds \(texts.count) certificates, not 3")
        }
        guard let leaf = Base64.decode(texts[0]), let intermediate = Base64.decode(texts[1]),
            let root = Base64.decode(texts[2]), Certificate(der: root) != nil
        else { throw JOSEError.unreadableCertificate }
        return try trust.chain(leaf: leaf, intermediate: intermediate)
    }
}
