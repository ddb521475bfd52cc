internal import COpenSSL
internal import ServiceKit

/// A responder's answer about one certificate.
package struct RevocationVerdict: Hashable, Sendable {
    package enum State: String, Hashable, Sendable {
        case good, revoked
        /// The responder does not know the certificate.
        case unknown
    }

    package var state: State
    /// UTC milliseconds until which the answer holds; nil where the responder does not say.
    package var validUntil: Int64?
}

/// The question to an OCSP responder (RFC 6960) whether one certificate is revoked. It makes the request and verifies
/// the answer, but sends nothing itself.
package struct RevocationQuestion: Sendable {
    /// How far a responder's clock may differ from ours, in seconds.
    private static let skew: Int64 = 300

    let certificate: Certificate
    private let issuer: Certificate
    private let roots: TrustedRoots
    /// The certificate's SHA-256, hexadecimal.
    package let id: String
    /// `http://…`, from the certificate. It can be trusted, because the certificate leads to a configured root.
    package let responder: String

    /// nil where the certificate names no responder with an `http://` address.
    init?(_ certificate: Certificate, issuer: Certificate, _ roots: TrustedRoots) {
        guard
            let responder = certificate.responders.first(where: {
                $0.lowercased().hasPrefix("http://")
            })
        else { return nil }
        self.certificate = certificate
        self.issuer = issuer
        self.roots = roots
        self.responder = responder
        id = Hex.text(of: certificate.fingerprint)
    }

    /// The body of the request, DER. It has no nonce, because responders that answer from a cache ignore it.
    package func request() throws(JOSEError) -> [UInt8] {
        guard let request = OCSP_REQUEST_new() else { throw openSSLFailure("memory") }
        defer { OCSP_REQUEST_free(request) }
        let id = try certificateID()
        guard OCSP_request_add0_id(request, id) != nil else {
            OCSP_CERTID_free(id)
            throw openSSLFailure("OCSP request")
        }
        var der: UnsafeMutablePointer<UInt8>?
        let length = Int(i2d_OCSP_REQUEST(request, &der))
        guard length > 0, let der else { throw openSSLFailure("OCSP request") }
        defer { shim_OPENSSL_free(der) }
        return Array(UnsafeBufferPointer(start: der, count: length))
    }

    private func certificateID() throws(JOSEError) -> OpaquePointer {
        guard let id = OCSP_cert_to_id(nil, certificate.pointer, issuer.pointer) else {
            throw openSSLFailure("OCSP request")
        }
        return id
    }

    /// Throws `.revocationAnswer` where the answer proves nothing: not signed by the issuer or by a certificate
    /// that the issuer made for this, about another certificate, or of another time than `now` (UTC
    /// milliseconds).
    package func verdict(answer: [UInt8], now: Int64) throws(JOSEError) -> RevocationVerdict {
        defer { ERR_clear_error() }
        let response = answer.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var cursor = buffer.baseAddress
            return d2i_OCSP_RESPONSE(nil, &cursor, buffer.count)
        }
        guard let response else { throw JOSEError(.revocationAnswer, "no OCSP response") }
        defer { OCSP_RESPONSE_free(response) }
        let status = OCSP_response_status(response)
        guard status == OCSP_RESPONSE_STATUS_SUCCESSFUL else {
            let text = OCSP_response_status_str(Int(status)).map { String(cString: $0) }
            throw JOSEError(.revocationAnswer, "the responder answers \(text ?? "\(status)")")
        }
        guard let basic = OCSP_response_get1_basic(response) else {
            throw JOSEError(.revocationAnswer, "the response is of an unknown type")
        }
        defer { OCSP_BASICRESP_free(basic) }
        try checkSignature(of: basic, now: now)
        return try state(in: basic, now: floorSeconds(now))
    }

    private func checkSignature(of basic: OpaquePointer, now: Int64) throws(JOSEError) {
        guard let store = X509_STORE_new() else { throw openSSLFailure("memory") }
        defer { X509_STORE_free(store) }
        guard let others = OPENSSL_sk_new_null() else { throw openSSLFailure("memory") }
        // This frees the list, but not the certificate in it.
        defer { OPENSSL_sk_free(others) }
        guard OPENSSL_sk_push(others, UnsafeRawPointer(issuer.pointer)) == 1,
            let parameters = X509_STORE_get0_param(store)
        else { throw openSSLFailure("OCSP verification") }
        for root in roots.certificates where X509_STORE_add_cert(store, root.pointer) != 1 {
            throw openSSLFailure("OCSP verification")
        }
        X509_VERIFY_PARAM_set_time(parameters, time_t(floorSeconds(now)))
        // OCSP_NOEXPLICIT: an explicitly trusted root is not enough; the signer must be the issuer or have been issued
        // for OCSP signing.
        guard OCSP_basic_verify(basic, others, store, UInt(OCSP_NOEXPLICIT)) == 1 else {
            throw JOSEError(.revocationAnswer, "not signed by the issuer or its responder")
        }
    }

    private func state(
        in basic: OpaquePointer, now: Int64
    ) throws(JOSEError) -> RevocationVerdict {
        let id = try certificateID()
        defer { OCSP_CERTID_free(id) }
        var status: Int32 = 0
        var reason: Int32 = 0
        var revokedAt: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
        var thisUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
        var nextUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
        guard
            OCSP_resp_find_status(
                basic, id, &status, &reason, &revokedAt, &thisUpdate, &nextUpdate) == 1
        else { throw JOSEError(.revocationAnswer, "the response is about other certificates") }
        guard let from = Certificate.seconds(thisUpdate), from <= now + Self.skew else {
            throw JOSEError(.revocationAnswer, "the response is of the future, or undated")
        }
        let until = nextUpdate.flatMap { Certificate.seconds($0) }
        if nextUpdate != nil {
            guard let until, until >= now - Self.skew, until >= from else {
                throw JOSEError(.revocationAnswer, "the response is out of date")
            }
        }
        let state: RevocationVerdict.State
        switch status {
        case V_OCSP_CERTSTATUS_GOOD: state = .good
        case V_OCSP_CERTSTATUS_REVOKED: state = .revoked
        default: state = .unknown
        }
        return RevocationVerdict(state: state, validUntil: until.map { $0 * 1000 })
    }
}
