/// Why a signature, a chain, a key or a certificate was refused.
package struct JOSEError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The raw value is the stable short code that logs and metrics carry.
    package enum Code: String, Hashable, Sendable, CaseIterable {
        /// Longer than the verifier's limit.
        case tooLarge = "jws_too_large"
        /// Not three base64url parts.
        case malformed = "jws_malformed"
        /// The header is not the required JSON object.
        case header = "jws_header"
        /// `alg` is not ES256.
        case algorithm = "jws_algorithm"
        /// `x5c` does not hold exactly three certificates.
        case certificateCount = "jws_certificate_count"
        /// A certificate does not parse.
        case certificate = "certificate_unreadable"
        /// The leaf or the intermediate lacks Apple's marker extension.
        case marker = "jws_marker"
        /// The leaf's key is not on P-256.
        case leafKey = "jws_leaf_key"
        /// No path to a configured root, or not valid at the time of signing.
        case chain = "jws_chain"
        /// `crit` demands extensions that this program does not know.
        case critical = "jws_critical"
        /// The issuer has revoked the leaf or the intermediate.
        case revoked = "certificate_revoked"
        /// An answer about revocation cannot be believed.
        case revocationAnswer = "ocsp_answer"
        /// The signature is not 64 bytes, or does not verify.
        case signature = "jws_signature"
        /// A key does not parse.
        case key = "key_unreadable"
        /// A key is not on P-256.
        case curve = "key_not_p256"
        /// A file or folder cannot be read.
        case file = "file_unreadable"
        /// No usable root certificate where some were expected.
        case noRoots = "no_root_certificates"
        /// OpenSSL failed where no input can make it fail: memory or its own configuration.
        case library = "openssl_failed"
    }

    package var code: Code
    /// What exactly was wrong; never holds key material or payload text.
    package var detail: String

    package init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    /// Safe to show and to log.
    package var description: String { "\(code.rawValue): \(detail)" }

    /// True where the text is not a JWS of the expected form; false where it is one that was refused.
    package var isMalformed: Bool {
        switch code {
        case .tooLarge, .malformed, .header: true
        case .algorithm, .critical, .certificateCount, .certificate, .marker, .leafKey, .chain,
            .revoked, .revocationAnswer, .signature, .key, .curve, .file, .noRoots, .library:
            false
        }
    }

    static let unreadableCertificate = JOSEError(
        .certificate, "x5c holds something that is no DER certificate")
}
