import COpenSSL
import JOSE

/// Makes one certificate from its fields.
struct CertificateBuilder {
    var subject: String
    var key: MadeKey
    /// nil makes it self-signed.
    var issuer: (certificate: MadeCertificate, key: MadeKey)?
    /// UNIX seconds.
    var validity: Range<Int64>
    /// Numeric identifier of a standard extension and its value in OpenSSL's configuration syntax.
    var extensions: [(nid: Int32, value: String)]
    /// Marker extensions; each holds an ASN.1 NULL as Apple's do.
    var markers: [String] = []

    func build() throws(JOSEError) -> MadeCertificate {
        guard let pointer = X509_new() else { throw openSSLFailure("memory") }
        let certificate = MadeCertificate(owning: pointer)
        guard X509_set_version(pointer, 2) == 1, setSerial(pointer),
            ASN1_TIME_set(X509_getm_notBefore(pointer), time_t(validity.lowerBound)) != nil,
            ASN1_TIME_set(X509_getm_notAfter(pointer), time_t(validity.upperBound)) != nil,
            setNames(pointer),
            X509_set_pubkey(pointer, key.pointer) == 1
        else { throw openSSLFailure("certificate making") }
        for (nid, value) in extensions {
            guard add(nid: nid, value: value, to: pointer) else {
                throw openSSLFailure("certificate extension")
            }
        }
        for marker in markers where !add(marker: marker, to: pointer) {
            throw openSSLFailure("certificate extension")
        }
        guard X509_sign(pointer, issuer?.key.pointer ?? key.pointer, EVP_sha384()) > 0 else {
            throw openSSLFailure("certificate signing")
        }
        return certificate
    }

    private func setSerial(_ pointer: OpaquePointer) -> Bool {
        guard let number = BN_new() else { return false }
        defer { BN_free(number) }
        return BN_rand(number, 120, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1
            && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(pointer)) != nil
    }

    private func setNames(_ pointer: OpaquePointer) -> Bool {
        guard let name = X509_get_subject_name(pointer) else { return false }
        let text = Array(subject.utf8)
        guard
            X509_NAME_add_entry_by_txt(
                name, "CN", MBSTRING_UTF8, text, Int32(clamping: text.count), -1, 0) == 1
        else { return false }
        let issuerName = issuer.map { X509_get_subject_name($0.certificate.pointer) } ?? name
        return X509_set_issuer_name(pointer, issuerName) == 1
    }

    private func add(nid: Int32, value: String, to pointer: OpaquePointer) -> Bool {
        var context = X509V3_CTX()
        X509V3_set_ctx(&context, issuer?.certificate.pointer ?? pointer, pointer, nil, nil, 0)
        guard let made = X509V3_EXT_nconf_nid(nil, &context, nid, value) else { return false }
        defer { X509_EXTENSION_free(made) }
        return X509_add_ext(pointer, made, -1) == 1
    }

    private func add(marker: String, to pointer: OpaquePointer) -> Bool {
        guard let object = OBJ_txt2obj(marker, 1) else { return false }
        defer { ASN1_OBJECT_free(object) }
        guard let null = ASN1_OCTET_STRING_new() else { return false }
        defer { ASN1_OCTET_STRING_free(null) }
        guard ASN1_OCTET_STRING_set(null, [0x05, 0x00], 2) == 1,
            let made = X509_EXTENSION_create_by_OBJ(nil, object, 0, null)
        else { return false }
        defer { X509_EXTENSION_free(made) }
        return X509_add_ext(pointer, made, -1) == 1
    }
}
