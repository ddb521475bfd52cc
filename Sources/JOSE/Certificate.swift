internal import COpenSSL
internal import FoundationEssentials

/// Owns one parsed `X509`.
///
/// Unchecked: it never changes after `init`, and OpenSSL guards its lazily computed fields with its own lock.
final class Certificate: @unchecked Sendable {
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    /// SHA-256 of the DER.
    var fingerprint: [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        guard X509_digest(pointer, Digest.sha256.pointer, &digest, &length) == 1 else {
            ERR_clear_error()
            return []
        }
        return digest
    }

    deinit { X509_free(pointer) }

    /// Reads one DER certificate with nothing after it; nil otherwise.
    convenience init?(der: [UInt8]) {
        let parsed = der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var cursor = buffer.baseAddress
            guard let certificate = d2i_X509(nil, &cursor, buffer.count) else {
                ERR_clear_error()
                return nil
            }
            guard cursor == buffer.baseAddress.map({ $0 + buffer.count }) else {
                X509_free(certificate)
                return nil
            }
            return certificate
        }
        guard let parsed else { return nil }
        self.init(owning: parsed)
    }

    /// Every certificate of a PEM text, in its order.
    static func all(pem: [UInt8]) -> [Certificate] {
        withMemoryBIO(pem) { bio in
            var found: [Certificate] = []
            while let certificate = PEM_read_bio_X509(bio, nil, { _, _, _, _ in 0 }, nil) {
                found.append(Certificate(owning: certificate))
            }
            return found
        } ?? []
    }

    var publicKey: EVPKey? {
        let key = X509_get_pubkey(pointer)
        if key == nil { ERR_clear_error() }
        return key.map(EVPKey.init(owning:))
    }

    var isAuthority: Bool { X509_check_ca(pointer) == 1 }

    /// False where its path length constraint is 0, so that certificates under it may not issue others.
    var mayIssueAuthorities: Bool { X509_get_pathlen(pointer) != 0 }

    /// True for a certificate that may sign data and no certificates: basic constraints and key usage.
    var isSignerOnly: Bool {
        X509_check_ca(pointer) == 0
            && X509_get_key_usage(pointer) & UInt32(KU_DIGITAL_SIGNATURE) != 0
    }

    /// The OCSP addresses at which the issuer answers whether the certificate is revoked.
    var responders: [String] {
        guard let list = X509_get1_ocsp(pointer) else { return [] }
        defer { X509_email_free(list) }
        return (0..<OPENSSL_sk_num(list)).compactMap { index in
            OPENSSL_sk_value(list, index).map {
                String(cString: $0.assumingMemoryBound(to: CChar.self))
            }
        }
    }

    /// True when the certificate carries the extension `oid` (dotted decimal).
    func hasExtension(_ oid: String) -> Bool {
        guard let object = OBJ_txt2obj(oid, 1) else {
            ERR_clear_error()
            return false
        }
        defer { ASN1_OBJECT_free(object) }
        return X509_get_ext_by_OBJ(pointer, object, -1) >= 0
    }

    /// When it is valid, in UNIX seconds, excluding the upper bound; nil when a date is unreadable.
    var validity: Range<Int64>? {
        guard let start = Self.seconds(X509_get0_notBefore(pointer)),
            let end = Self.seconds(X509_get0_notAfter(pointer)), start < end
        else { return nil }
        return start..<end
    }

    /// UNIX seconds; nil where the date is unreadable.
    static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
        var parts = tm()
        guard let time, ASN1_TIME_to_tm(time, &parts) == 1 else {
            ERR_clear_error()
            return nil
        }
        return Int64(timegm(&parts))
    }
}
