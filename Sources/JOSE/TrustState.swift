import Digests
internal import Synchronization

/// One set of roots and everything that was verified with it. Other roots get a new state, so that no verdict outlives
/// its roots.
///
/// A forger cannot make it grow: headers are added only after a signature was verified under them, chains and
/// intermediates only where they lead to a configured root, and the remembered refusals are few and small.
final class TrustState: Sendable {
    private static let chainsMax = 64
    private static let intermediatesMax = 16
    private static let refusalsMax = 256
    private static let revokedMax = 1024

    /// SHA-256 of DER.
    typealias Fingerprint = [UInt8]

    /// The text of a header. It is hashed in one piece, because Swift would hash an array byte by byte.
    private struct HeaderText: Hashable, Sendable {
        let bytes: [UInt8]

        init(_ text: UnsafeBufferPointer<UInt8>) {
            bytes = Array(text)
        }

        func hash(into hasher: inout Hasher) {
            bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        }
    }

    private struct State {
        var headers: BoundedCache<HeaderText, VerifiedChain>
        var chains = BoundedCache<Fingerprint, VerifiedChain>(limit: chainsMax)
        var intermediates = BoundedCache<Fingerprint, VerifiedIntermediate>(
            limit: intermediatesMax)
        var refusals = BoundedCache<Fingerprint, JOSEError>(limit: refusalsMax)
        var revoked: Set<Fingerprint>
    }

    let roots: TrustedRoots
    private let rules: ChainRules
    private let state: Mutex<State>
    /// Only one chain is verified at a time, on the thread that received it. So a flood of forged chains keeps at most
    /// one core busy, and a payload under a known header never waits.
    private let proving = Mutex(())

    init(
        roots: TrustedRoots, headersMax: Int, revoked: Set<Fingerprint> = []
    ) throws(JOSEError) {
        rules = try ChainRules(roots)
        self.roots = roots
        state = Mutex(State(headers: BoundedCache(limit: headersMax), revoked: revoked))
    }

    var headerCount: Int { state.withLock { $0.headers.count } }
    var refusalCount: Int { state.withLock { $0.refusals.count } }
    var revoked: Set<Fingerprint> { state.withLock { $0.revoked } }
    var chains: [VerifiedChain] { state.withLock { $0.chains.values } }

    /// The chain of a header whose text (base64url, undecoded) carried a good signature before.
    func chain(forHeader text: UnsafeBufferPointer<UInt8>) -> VerifiedChain? {
        let text = HeaderText(text)
        return state.withLock { $0.headers.value(for: text) }
    }

    func insert(_ chain: VerifiedChain, forHeader text: UnsafeBufferPointer<UInt8>) {
        let text = HeaderText(text)
        state.withLock { state in
            guard !Self.isRevoked(chain, state.revoked) else { return }
            state.headers.insert(chain, for: text)
        }
    }

    /// The chain of leaf and intermediate (DER), verified now or before. Refusals are remembered too.
    func chain(leaf: [UInt8], intermediate: [UInt8]) throws(JOSEError) -> VerifiedChain {
        let (leafPrint, authorityPrint) = (SHA256.digest(of: leaf), SHA256.digest(of: intermediate))
        let key = leafPrint + authorityPrint
        if let known = verdict(key, leafPrint, authorityPrint) { return try known.get() }
        return try proving.withLock { _ throws(JOSEError) in
            // Another thread may have verified the chain while this one waited.
            if let known = verdict(key, leafPrint, authorityPrint) { return try known.get() }
            do throws(JOSEError) {
                let authority = try provedIntermediate(intermediate, authorityPrint)
                guard let leaf = Certificate(der: leaf) else {
                    throw JOSEError.unreadableCertificate
                }
                let chain = try rules.verified(leaf: leaf, under: authority)
                state.withLock { $0.chains.insert(chain, for: key) }
                return chain
            } catch {
                // A lack of memory is no verdict on the chain.
                if error.code != .library { state.withLock { $0.refusals.insert(error, for: key) } }
                throw error
            }
        }
    }

    /// The known verdict on a chain; nil where it must be verified.
    private func verdict(
        _ key: Fingerprint, _ leaf: Fingerprint, _ intermediate: Fingerprint
    ) -> Result<VerifiedChain, JOSEError>? {
        state.withLock { state in
            if state.revoked.contains(leaf) || state.revoked.contains(intermediate) {
                return .failure(JOSEError(.revoked, "its issuer has revoked a certificate"))
            }
            if let chain = state.chains.value(for: key) { return .success(chain) }
            return state.refusals.value(for: key).map(Result.failure)
        }
    }

    private func provedIntermediate(
        _ der: [UInt8], _ key: Fingerprint
    ) throws(JOSEError) -> VerifiedIntermediate {
        if let known = state.withLock({ $0.intermediates.value(for: key) }) { return known }
        guard let certificate = Certificate(der: der) else { throw JOSEError.unreadableCertificate }
        let proved = try rules.verified(intermediate: certificate)
        state.withLock { $0.intermediates.insert(proved, for: key) }
        return proved
    }

    private static func isRevoked(_ chain: VerifiedChain, _ revoked: Set<Fingerprint>) -> Bool {
        guard !revoked.isEmpty else { return false }
        return revoked.contains(chain.leaf.fingerprint)
            || revoked.contains(chain.intermediate.certificate.fingerprint)
    }

    /// From now on refuses every chain with this certificate, or no longer refuses it for this reason.
    func setRevoked(_ isRevoked: Bool, _ certificate: Certificate) {
        let print = certificate.fingerprint
        state.withLock { state in
            guard isRevoked else {
                state.revoked.remove(print)
                return
            }
            guard state.revoked.count < Self.revokedMax else { return }
            state.revoked.insert(print)
            let revoked = state.revoked
            state.headers.removeAll { Self.isRevoked($0, revoked) }
            state.chains.removeAll { Self.isRevoked($0, revoked) }
        }
    }
}
