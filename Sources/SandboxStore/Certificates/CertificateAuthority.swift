import COpenSSL
package import JOSE

/// A private stand-in for the App Store's certificates: root, intermediate and leaf with the marker
/// extensions, and TLS server certificates under the same root. For rehearsals and tests;
/// Production trusts Apple's root only.
package struct CertificateAuthority: Sendable {
    /// What to make, with optional faults for tests.
    package struct Profile: Sendable {
        package var name = "Rehearsal"
        /// UTC milliseconds; rounded down to seconds.
        package var validFrom: Int64
        /// UTC milliseconds, exclusive: from here on the certificates are expired.
        package var validUntil: Int64
        package var leafHasMarker = true
        package var intermediateHasMarker = true
        /// False puts the leaf's key on P-384, which ES256 cannot use.
        package var leafIsP256 = true
        /// False omits the key identifiers of all three certificates, which RFC 5280 requires of issuers.
        package var hasKeyIdentifiers = true
        /// The size of a comment in each certificate, which brings it to the size of the App Store's.
        package var commentBytes = 0
        /// In OpenSSL's syntax for these extensions; nil omits one.
        package var rootKeyUsage: String? = "critical,keyCertSign,cRLSign"
        package var rootConstraints = "critical,CA:TRUE"
        package var leafKeyUsage: String? = "critical,digitalSignature"
        package var leafConstraints: String? = "critical,CA:FALSE"
        package var intermediateKeyUsage: String? = "critical,keyCertSign,cRLSign"
        package var intermediateConstraints: String? = "critical,CA:TRUE,pathlen:0"
        /// The OCSP address, `http://…`, in leaf and intermediate.
        package var responderURL: String?

        package init(validFrom: Int64, validUntil: Int64) {
            self.validFrom = validFrom
            self.validUntil = validUntil
        }
    }

    /// The App Store's markers of its leaf and its intermediate.
    private static let leafMarker = "1.2.840.113635.100.6.11.1"
    private static let intermediateMarker = "1.2.840.113635.100.6.2.1"

    private let root: MadeCertificate
    private let rootKey: MadeKey
    private let intermediate: MadeCertificate
    /// nil where the authority was read from storage, which does not hold this key.
    private let intermediateKey: MadeKey?
    private let leaf: MadeCertificate
    private let leafKey: MadeKey

    /// Makes new keys and certificates valid in `[validFrom, validUntil)`.
    package init(validFrom: Int64, validUntil: Int64) throws(JOSEError) {
        try self.init(Profile(validFrom: validFrom, validUntil: validUntil))
    }

    /// Makes new keys and certificates as `profile` says.
    package init(_ profile: Profile) throws(JOSEError) {
        let validity = try secondsWithin(profile.validFrom, profile.validUntil)
        rootKey = try .p384()
        root = try CertificateBuilder(
            subject: "\(profile.name) Root CA", key: rootKey, validity: validity,
            extensions: profile.extensions(
                constraints: profile.rootConstraints, keyUsage: profile.rootKeyUsage,
                isSelfSigned: true)
        ).build()
        let intermediateKey = try MadeKey.p384()
        self.intermediateKey = intermediateKey
        intermediate = try CertificateBuilder(
            subject: "\(profile.name) Intermediate CA", key: intermediateKey,
            issuer: (root, rootKey), validity: validity,
            extensions: profile.extensions(
                constraints: profile.intermediateConstraints,
                keyUsage: profile.intermediateKeyUsage),
            markers: profile.intermediateHasMarker ? [Self.intermediateMarker] : []
        ).build()
        leafKey = try profile.leafIsP256 ? .p256() : .p384()
        leaf = try CertificateBuilder(
            subject: "\(profile.name) Receipt Signing", key: leafKey,
            issuer: (intermediate, intermediateKey), validity: validity,
            extensions: profile.extensions(
                constraints: profile.leafConstraints, keyUsage: profile.leafKeyUsage),
            markers: profile.leafHasMarker ? [Self.leafMarker] : []
        ).build()
    }

    /// All certificates and the keys of root and leaf, so that a rehearsal can continue after a restart. Keep the file
    /// private.
    package func storedPEM() throws(JOSEError) -> String {
        try root.pem() + intermediate.pem() + leaf.pem() + rootKey.pem() + leafKey.pem()
    }

    /// Reads what `storedPEM` wrote.
    package init(storedPEM text: String) throws(JOSEError) {
        let certificates = MadeCertificate.all(pem: text)
        let keys = MadeKey.all(pem: text)
        guard certificates.count == 3, keys.count == 2 else {
            throw JOSEError(.certificate, "not a stored certificate authority")
        }
        (root, intermediate, leaf) = (certificates[0], certificates[1], certificates[2])
        (rootKey, leafKey, intermediateKey) = (keys[0], keys[1], nil)
    }

    /// The keys that issued the intermediate and the leaf, for a responder that answers in their name.
    package func issuerKeysPEM() throws(JOSEError) -> (root: String, intermediate: String) {
        guard let intermediateKey else { throw JOSEError(.key, "the intermediate's key is gone") }
        return (try rootKey.pem(), try intermediateKey.pem())
    }

    /// Leaf, intermediate, root.
    package func chainDER() throws(JOSEError) -> [[UInt8]] {
        [try leaf.der(), try intermediate.der(), try root.der()]
    }

    /// Leaf, intermediate, root.
    func chainPEM() throws(JOSEError) -> [String] {
        [try leaf.pem(), try intermediate.pem(), try root.pem()]
    }

    /// The root certificate, for `REPRICER_ROOT_CERTIFICATES` and as extra CA of a TLS client.
    package func rootPEM() throws(JOSEError) -> String { try root.pem() }

    /// The root as the only trust anchor.
    package func trustedRoots() throws(JOSEError) -> TrustedRoots {
        try TrustedRoots(der: [root.der()])
    }

    /// The leaf's key; throws where the profile put it on another curve.
    package func signingKey() throws(JOSEError) -> ES256PrivateKey {
        try ES256PrivateKey(pem: leafKey.pem())
    }

    /// A signer with a prepared header. Make it once and sign often.
    package func signer() throws(JOSEError) -> JWSSigner {
        try JWSSigner(key: signingKey(), chainDER: chainDER())
    }

    /// A TLS server certificate straight under the root, with its key.
    ///
    /// - Parameters:
    ///   - names: Subject alternative names in OpenSSL's syntax.
    ///   - validFrom: UTC milliseconds by the real clock, because TLS uses no other.
    ///   - validUntil: UTC milliseconds.
    package func serverIdentity(
        names: [String] = ["DNS:localhost", "IP:127.0.0.1", "IP:::1"],
        validFrom: Int64, validUntil: Int64
    ) throws(JOSEError) -> (certificateChainPEM: String, keyPEM: String) {
        let validity = try secondsWithin(validFrom, validUntil)
        let key = try MadeKey.p256()
        let certificate = try CertificateBuilder(
            subject: "localhost", key: key, issuer: (root, rootKey), validity: validity,
            extensions: [
                (NID_basic_constraints, "critical,CA:FALSE"),
                (NID_key_usage, "critical,digitalSignature"),
                (NID_ext_key_usage, "serverAuth"),
                (NID_subject_key_identifier, "hash"),
                (NID_authority_key_identifier, "keyid:always"),
                (NID_subject_alt_name, names.joined(separator: ",")),
            ]
        ).build()
        return (try certificate.pem(), try key.pem())
    }
}

/// The validity in UNIX seconds, from UTC milliseconds.
private func secondsWithin(_ start: Int64, _ end: Int64) throws(JOSEError) -> Range<Int64> {
    let seconds = [start, end].map { $0 / 1000 - ($0 % 1000 < 0 ? 1 : 0) }
    guard seconds[0] < seconds[1] else { throw JOSEError(.certificate, "an empty validity") }
    return seconds[0]..<seconds[1]
}

extension CertificateAuthority.Profile {
    fileprivate var comment: [(nid: Int32, value: String)] {
        guard commentBytes > 0 else { return [] }
        return [(NID_netscape_comment, String(repeating: "x", count: commentBytes))]
    }

    fileprivate func extensions(
        constraints: String?, keyUsage: String?, isSelfSigned: Bool = false
    ) -> [(nid: Int32, value: String)] {
        var list: [(nid: Int32, value: String)] = []
        if let constraints { list.append((NID_basic_constraints, constraints)) }
        if let keyUsage { list.append((NID_key_usage, keyUsage)) }
        if hasKeyIdentifiers { list.append((NID_subject_key_identifier, "hash")) }
        if hasKeyIdentifiers, !isSelfSigned {
            list.append((NID_authority_key_identifier, "keyid:always"))
        }
        if let responderURL, !isSelfSigned {
            list.append((NID_info_access, "OCSP;URI:\(responderURL)"))
        }
        return list + comment
    }
}

/// Signs payloads under one chain, with the `x5c` header that the App Store sends.
package struct JWSSigner: Sendable {
    private let key: ES256PrivateKey
    private let header: [UInt8]

    /// - Parameters:
    ///   - key: Must be the key of the first certificate.
    ///   - chainDER: Leaf, intermediate, root.
    package init(key: ES256PrivateKey, chainDER: [[UInt8]], algorithm: String = "ES256") {
        self.key = key
        let list = chainDER.map { "\"\(Base64.encode($0))\"" }.joined(separator: ",")
        header = Array("{\"alg\":\"\(algorithm)\",\"x5c\":[\(list)]}".utf8)
    }

    /// The compact JWS over `payload`.
    package func sign(_ payload: [UInt8]) throws(JOSEError) -> String {
        try signCompactJWS(header: header, payload: payload, key: key)
    }
}
