internal import COpenSSL

/// An intermediate certificate, verified to be issued by a configured root.
struct VerifiedIntermediate: Sendable {
    let certificate: Certificate
    let root: Certificate
    /// The UNIX seconds in which both certificates are valid.
    let validity: Range<Int64>
    /// The store for verifying leaves: its only anchor is this intermediate.
    fileprivate let store: CertificateStore
}

/// Leaf and intermediate of one `x5c`, verified to lead to a configured root.
struct VerifiedChain: Sendable {
    let leaf: Certificate
    let intermediate: VerifiedIntermediate
    let leafKey: ES256PublicKey
    /// The UNIX seconds in which all three certificates are valid.
    let validity: Range<Int64>
}

/// UNIX seconds, rounded down also before 1970.
func floorSeconds(_ milliseconds: Int64) -> Int64 {
    milliseconds >= 0 ? milliseconds / 1000 : -((-(milliseconds + 1)) / 1000) - 1
}

/// Path validation by RFC 5280 in two steps, so that a verified intermediate can be kept: a forged leaf under a known
/// intermediate costs one signature check, and so does a forged intermediate.
///
/// The time is not checked here: it is the payload's `signedDate`, which must not be read before the signature is
/// verified. Instead, each step returns the span in which its certificates are valid.
struct ChainRules: Sendable {
    /// The marker of Mac App Store receipt signing, on the leaf.
    static let leafMarker = "1.2.840.113635.100.6.11.1"
    /// The marker of Worldwide Developer Relations, on the intermediate.
    static let intermediateMarker = "1.2.840.113635.100.6.2.1"

    private let roots: CertificateStore

    init(_ roots: TrustedRoots) throws(JOSEError) {
        self.roots = try CertificateStore(roots.certificates, areSelfSigned: true)
    }

    /// Verifies an intermediate: a root must have issued it, and it must bear Apple's marker.
    func verified(intermediate: Certificate) throws(JOSEError) -> VerifiedIntermediate {
        guard intermediate.hasExtension(Self.intermediateMarker) else {
            throw JOSEError(
                .marker, "the intermediate lacks the extension \(Self.intermediateMarker)")
        }
        guard intermediate.isAuthority else {
            throw JOSEError(.chain, "the intermediate may not issue certificates")
        }
        let root = try roots.issuer(of: intermediate)
        guard root.mayIssueAuthorities else {
            throw JOSEError(.chain, "the root may not issue an intermediate")
        }
        return VerifiedIntermediate(
            certificate: intermediate, root: root,
            validity: try Self.validity(intermediate, within: try Self.validity(root, within: nil)),
            store: try CertificateStore([intermediate], areSelfSigned: false))
    }

    /// Verifies a leaf: the intermediate must have issued it, and it must bear Apple's marker, be for signing only
    /// and have a key on P-256.
    func verified(
        leaf: Certificate, under intermediate: VerifiedIntermediate
    ) throws(JOSEError) -> VerifiedChain {
        guard leaf.hasExtension(Self.leafMarker) else {
            throw JOSEError(.marker, "the leaf lacks the extension \(Self.leafMarker)")
        }
        guard leaf.isSignerOnly else {
            throw JOSEError(.chain, "the leaf is not for signing data alone")
        }
        guard let key = leaf.publicKey, key.isP256 else {
            throw JOSEError(.leafKey, "the leaf's key is not on the curve P-256")
        }
        _ = try intermediate.store.issuer(of: leaf)
        return VerifiedChain(
            leaf: leaf, intermediate: intermediate, leafKey: ES256PublicKey(checked: key),
            validity: try Self.validity(leaf, within: intermediate.validity))
    }

    private static func validity(
        _ certificate: Certificate, within outer: Range<Int64>?
    ) throws(JOSEError) -> Range<Int64> {
        guard let own = certificate.validity else {
            throw JOSEError(.chain, "a certificate's validity is unreadable")
        }
        guard let outer else { return own }
        let both = own.clamped(to: outer)
        guard !both.isEmpty else {
            throw JOSEError(.chain, "the certificates are never valid together")
        }
        return both
    }
}

/// OpenSSL's store of trust anchors.
///
/// Unchecked: it is filled in `init` and only read afterwards, and OpenSSL locks the store in each search.
final class CertificateStore: @unchecked Sendable {
    /// At least 112 bits for keys and digests (OpenSSL's level 2).
    private static let securityLevel: Int32 = 2
    /// Errors about fields that RFC 5280 requires of issuers, but not for the validation of a path (section 6.1).
    /// Apple's libraries for Swift, Java and Node accept certificates without these fields, and their test certificates
    /// have none. A field that is present is still checked.
    fileprivate static let pardoned: Set<Int32> = [
        X509_V_ERR_MISSING_AUTHORITY_KEY_IDENTIFIER, X509_V_ERR_MISSING_SUBJECT_KEY_IDENTIFIER,
        X509_V_ERR_CA_BCONS_NOT_CRITICAL, X509_V_ERR_CA_CERT_MISSING_KEY_USAGE,
        X509_V_ERR_PATHLEN_WITHOUT_KU_KEY_CERT_SIGN,
    ]

    private let store: OpaquePointer
    private let flags: UInt

    init(_ anchors: [Certificate], areSelfSigned: Bool) throws(JOSEError) {
        guard let store = X509_STORE_new() else { throw openSSLFailure("memory") }
        self.store = store
        var flags = UInt(X509_V_FLAG_X509_STRICT) | UInt(X509_V_FLAG_NO_CHECK_TIME)
        if !areSelfSigned { flags |= UInt(X509_V_FLAG_PARTIAL_CHAIN) }
        self.flags = flags
        for anchor in anchors where X509_STORE_add_cert(store, anchor.pointer) != 1 {
            throw openSSLFailure("adding an anchor")
        }
    }

    deinit { X509_STORE_free(store) }

    /// The anchor that issued `certificate` directly; throws `.chain` where none did.
    func issuer(of certificate: Certificate) throws(JOSEError) -> Certificate {
        guard let context = X509_STORE_CTX_new() else { throw openSSLFailure("memory") }
        defer {
            X509_STORE_CTX_free(context)
            ERR_clear_error()
        }
        guard X509_STORE_CTX_init(context, store, certificate.pointer, nil) == 1,
            let parameters = X509_STORE_CTX_get0_param(context)
        else { throw openSSLFailure("chain verification") }
        X509_VERIFY_PARAM_set_flags(parameters, flags)
        // Nothing may stand between the certificate and its anchor.
        X509_VERIFY_PARAM_set_depth(parameters, 0)
        X509_VERIFY_PARAM_set_auth_level(parameters, Self.securityLevel)
        X509_STORE_CTX_set_verify_cb(context) { isFine, context in
            let error = X509_STORE_CTX_get_error(context)
            return isFine == 1 || CertificateStore.pardoned.contains(error) ? 1 : 0
        }
        guard X509_verify_cert(context) == 1 else {
            let reason = X509_verify_cert_error_string(Int(X509_STORE_CTX_get_error(context)))
            throw JOSEError(.chain, reason.map { String(cString: $0) } ?? "not trusted")
        }
        guard let chain = X509_STORE_CTX_get0_chain(context), OPENSSL_sk_num(chain) == 2,
            let anchor = OPENSSL_sk_value(chain, 1).map(OpaquePointer.init)
        else { throw JOSEError(.chain, "no anchor issued it directly") }
        guard X509_up_ref(anchor) == 1 else { throw openSSLFailure("chain verification") }
        return Certificate(owning: anchor)
    }
}
