internal import FoundationEssentials

/// Verifies what the App Store signs: ES256 under a chain of exactly three certificates that leads
/// to a configured root.
///
/// The order is fixed, cheapest first and nothing believed early: size, shape, header, chain,
/// signature. The payload is handed out only at the end. Its signing time is read before, because
/// the chain must be valid at that time; a forged time gains nothing, since the signature over it
/// is checked under the same chain.
package final class JWSVerifier: Sendable {
    private struct Header: Decodable {
        var alg: String
        var x5c: [String]
        /// RFC 7515 section 4.1.11: extensions that we do not know must be refused.
        var crit: [String]?
    }

    /// Certificates of the App Store's size are about 1 KB each.
    private static let headerBytesMax = 64 << 10
    private static let cacheLimitMax = 64

    private let store: RootStore
    private let cache: ChainCache
    private let sizeMax: Int

    /// - Parameters:
    ///   - roots: The only anchors of trust.
    ///   - cacheLimit: How many verified chains are kept; 0 keeps none, more than 64 count as 64.
    ///   - sizeMax: Longer texts are refused unread.
    package init(
        roots: TrustedRoots, cacheLimit: Int = 64, sizeMax: Int = CompactJWS.sizeMax
    ) throws(JOSEError) {
        store = try RootStore(roots)
        cache = ChainCache(limit: min(max(cacheLimit, 0), Self.cacheLimitMax))
        self.sizeMax = sizeMax
    }

    /// How many chains the cache holds.
    package var cachedChains: Int { cache.count }

    /// The payload of `jws`, once everything about it is proved.
    ///
    /// - Parameters:
    ///   - jws: The compact form.
    ///   - validAt: Reads the signing time (UTC milliseconds) from the payload, which is not proved
    ///     yet: use it for nothing else. nil means that the payload has none, and `now` holds.
    ///   - now: UTC milliseconds.
    package func verify(
        _ jws: String, validAt: (_ payload: [UInt8]) -> Int64?, now: Int64
    ) throws(JOSEError) -> [UInt8] {
        let parsed = try CompactJWS(parsing: jws, limit: sizeMax)
        guard parsed.header.count <= Self.headerBytesMax else {
            throw JOSEError(.header, "the header is larger than \(Self.headerBytesMax) bytes")
        }
        let cached = cache.chain(for: parsed.header)
        let certificates = cached == nil ? try Self.certificates(header: parsed.header) : nil
        let time = validAt(parsed.payload) ?? now
        let chain = try verifiedChain(cached: cached, certificates: certificates, at: time)
        guard parsed.signature.count == 64 else {
            throw JOSEError(.signature, "the signature has \(parsed.signature.count) bytes, not 64")
        }
        guard chain.leafKey.isValid(signature: parsed.signature, over: parsed.signingInput) else {
            throw JOSEError(.signature, "the signature does not verify")
        }
        if cached == nil { cache.insert(chain, for: parsed.header) }
        return parsed.payload
    }

    private func verifiedChain(
        cached: VerifiedChain?, certificates: (Certificate, Certificate)?, at time: Int64
    ) throws(JOSEError) -> VerifiedChain {
        if let cached {
            guard cached.isValid(atMilliseconds: time) else {
                throw JOSEError(.chain, "a certificate is not valid at the time of signing")
            }
            return cached
        }
        guard let (leaf, intermediate) = certificates else {
            throw JOSEError(.certificateCount, "no certificates")
        }
        return try store.verify(leaf: leaf, intermediate: intermediate, at: time)
    }

    /// Leaf and intermediate; the root that was sent must parse, and is otherwise ignored.
    private static func certificates(
        header bytes: [UInt8]
    ) throws(JOSEError) -> (Certificate, Certificate) {
        let header: Header
        do {
            header = try JSONDecoder().decode(Header.self, from: Data(bytes))
        } catch {
            throw JOSEError(.header, "the header is not JSON with alg and x5c")
        }
        guard header.alg == "ES256" else {
            throw JOSEError(.algorithm, "alg is not ES256")
        }
        guard header.crit == nil else {
            throw JOSEError(.header, "the header demands extensions that are unknown")
        }
        guard header.x5c.count == 3 else {
            throw JOSEError(.certificateCount, "x5c holds \(header.x5c.count) certificates, not 3")
        }
        var certificates: [Certificate] = []
        for text in header.x5c {
            guard let der = Base64.decode(text), let certificate = Certificate(der: der) else {
                throw JOSEError(.certificate, "x5c holds something that is no DER certificate")
            }
            certificates.append(certificate)
        }
        return (certificates[0], certificates[1])
    }
}
