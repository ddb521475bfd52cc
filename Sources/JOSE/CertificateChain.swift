internal import COpenSSL

/// Leaf and intermediate of one `x5c`, proved to lead to a configured root.
struct VerifiedChain: Sendable {
    let leafKey: ES256PublicKey
    /// UNIX seconds in which all three certificates are valid.
    let validity: Range<Int64>

    func isValid(atMilliseconds time: Int64) -> Bool {
        validity.contains(floorSeconds(time))
    }
}

/// UNIX seconds, rounded down also before 1970.
func floorSeconds(_ milliseconds: Int64) -> Int64 {
    milliseconds >= 0 ? milliseconds / 1000 : -((-(milliseconds + 1)) / 1000) - 1
}

/// The configured roots as OpenSSL wants them.
///
/// Unchecked: filled in `init` and only read afterwards; OpenSSL locks the store in each look-up.
final class RootStore: @unchecked Sendable {
    /// Mac App Store receipt signing: on the leaf.
    static let leafMarker = "1.2.840.113635.100.6.11.1"
    /// Worldwide Developer Relations: on the intermediate.
    static let intermediateMarker = "1.2.840.113635.100.6.2.1"
    /// One intermediate between leaf and root.
    private static let intermediatesMax: Int32 = 1
    /// 112 bits at least for keys and digests (OpenSSL's level 2).
    private static let securityLevel: Int32 = 2

    private let store: OpaquePointer

    init(_ roots: TrustedRoots) throws(JOSEError) {
        guard let store = X509_STORE_new() else { throw openSSLFailure("memory") }
        self.store = store
        for root in roots.certificates where X509_STORE_add_cert(store, root.pointer) != 1 {
            throw openSSLFailure("adding a root")
        }
    }

    deinit { X509_STORE_free(store) }

    /// Path building and validation by RFC 5280 at `time` (UTC milliseconds), then Apple's markers.
    ///
    /// The third certificate that was sent plays no part: the root is one of ours.
    func verify(
        leaf: Certificate, intermediate: Certificate, at time: Int64
    ) throws(JOSEError) -> VerifiedChain {
        let validity = try path(leaf: leaf, intermediate: intermediate, at: time)
        guard leaf.hasExtension(Self.leafMarker) else {
            throw JOSEError(.marker, "the leaf lacks the extension \(Self.leafMarker)")
        }
        guard intermediate.hasExtension(Self.intermediateMarker) else {
            throw JOSEError(
                .marker, "the intermediate lacks the extension \(Self.intermediateMarker)")
        }
        guard let key = leaf.publicKey, key.isP256 else {
            throw JOSEError(.leafKey, "the leaf's key is not on the curve P-256")
        }
        return VerifiedChain(leafKey: try ES256PublicKey(key: key), validity: validity)
    }

    private func path(
        leaf: Certificate, intermediate: Certificate, at time: Int64
    ) throws(JOSEError) -> Range<Int64> {
        guard let context = X509_STORE_CTX_new() else { throw openSSLFailure("memory") }
        defer { X509_STORE_CTX_free(context) }
        guard let others = OPENSSL_sk_new_null() else { throw openSSLFailure("memory") }
        // Frees the list, not the certificate in it.
        defer { OPENSSL_sk_free(others) }
        guard OPENSSL_sk_push(others, UnsafeRawPointer(intermediate.pointer)) == 1,
            X509_STORE_CTX_init(context, store, leaf.pointer, others) == 1,
            let parameters = X509_STORE_CTX_get0_param(context)
        else { throw openSSLFailure("chain verification") }
        X509_VERIFY_PARAM_set_time(parameters, time_t(floorSeconds(time)))
        X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_X509_STRICT))
        X509_VERIFY_PARAM_set_depth(parameters, Self.intermediatesMax)
        X509_VERIFY_PARAM_set_auth_level(parameters, Self.securityLevel)

        let verdict = X509_verify_cert(context)
        defer { ERR_clear_error() }
        guard verdict == 1 else {
            let reason = X509_verify_cert_error_string(Int(X509_STORE_CTX_get_error(context)))
            throw JOSEError(.chain, reason.map { String(cString: $0) } ?? "not trusted")
        }
        return try checkedPath(context, intermediate: intermediate)
    }

    /// The path must be leaf, the intermediate that was sent, and a root: no detour that OpenSSL
    /// may have found.
    private func checkedPath(
        _ context: OpaquePointer, intermediate: Certificate
    ) throws(JOSEError) -> Range<Int64> {
        guard let chain = X509_STORE_CTX_get0_chain(context), OPENSSL_sk_num(chain) == 3 else {
            throw JOSEError(.chain, "the path to the root is not leaf, intermediate, root")
        }
        var validity: Range<Int64>?
        for index in Int32(0)..<3 {
            guard let pointer = OPENSSL_sk_value(chain, index).map(OpaquePointer.init) else {
                throw openSSLFailure("chain verification")
            }
            if index == 1, X509_cmp(pointer, intermediate.pointer) != 0 {
                throw JOSEError(.chain, "the path does not use the intermediate that was sent")
            }
            guard X509_up_ref(pointer) == 1 else { throw openSSLFailure("chain verification") }
            guard let own = Certificate(owning: pointer).validity else {
                throw JOSEError(.chain, "a certificate's validity is unreadable")
            }
            validity = validity.map { $0.clamped(to: own) } ?? own
        }
        guard let validity, !validity.isEmpty else {
            throw JOSEError(.chain, "the certificates are never valid together")
        }
        return validity
    }
}
