import JOSE
import SandboxStore
import Testing

@Suite struct JWSVerifierTests {
    @Test func verify_whenGenuine_returnsThePayload() throws {
        let payload = Sample.payload(signedAt: signingTime, filler: 20_000)
        let jws = try Sample.authority.get().signer().sign(payload)

        let verified = try Sample.verifier().open(jws)

        try verified.check(validAt: signingTime)
        #expect(verified.bytes == payload)
    }

    @Test func verify_whenSignedAtOutsideTheCertificates_refusesTheChain() throws {
        let verifier = try Sample.verifier(cacheLimit: 0)
        let jws = try Sample.jws()

        #expect(verifier.code(jws, at: signingTime - day) == "ok")
        #expect(verifier.code(jws, at: signingTime - day - 1) == "jws_chain")
        #expect(verifier.code(jws, at: signingTime + day - 1) == "ok")
        #expect(verifier.code(jws, at: signingTime + day) == "jws_chain")
    }

    @Test func verify_whenChainIsCached_judgesTheTimeAlike() throws {
        let verifier = try Sample.verifier()
        let jws = try Sample.jws()

        #expect(verifier.code(jws) == "ok")
        #expect(verifier.cachedChains == 1)
        #expect(verifier.code(jws, at: signingTime - day) == "ok")
        #expect(verifier.code(jws, at: signingTime - day - 1) == "jws_chain")
        #expect(verifier.code(jws, at: signingTime + day - 1) == "ok")
        #expect(verifier.code(jws, at: signingTime + day) == "jws_chain")
    }

    @Test func verify_whenNoSigningTime_takesNow() throws {
        let verifier = try Sample.verifier()
        let jws = try Sample.jws(signedAt: nil)

        #expect(verifier.code(jws, at: nil, now: signingTime) == "ok")
        #expect(verifier.code(jws, at: nil, now: signingTime + 2 * day) == "jws_chain")
        #expect(verifier.code(jws, at: .max) == "jws_chain")
        #expect(verifier.code(jws, at: .min) == "jws_chain")
    }

    @Test func verify_whenRootIsForeign_refusesTheChain() throws {
        let jws = try Sample.strangers.get().signer().sign(Sample.payload(signedAt: signingTime))

        #expect(try Sample.verifier().code(jws) == "jws_chain")
    }

    @Test func verify_whenForeignChainCarriesOurRootAsThird_refusesTheChain() throws {
        let ours = try Sample.authority.get().chainDER()
        let theirs = try Sample.strangers.get()
        let chain = try theirs.chainDER()
        let signer = try JWSSigner(
            key: theirs.signingKey(), chainDER: [chain[0], chain[1], ours[2]])

        #expect(try Sample.verifier().code(signer.sign([1])) == "jws_chain")
    }

    @Test func verify_whenThirdCertificateIsAnother_trustsTheConfiguredRootAlone() throws {
        let ours = try Sample.authority.get()
        let chain = try ours.chainDER()
        let theirs = try Sample.strangers.get().chainDER()
        let signer = try JWSSigner(
            key: ours.signingKey(), chainDER: [chain[0], chain[1], theirs[2]])

        #expect(try Sample.verifier().code(signer.sign([1])) == "ok")
    }

    @Test func verify_whenLeafIsSwapped_refuses() throws {
        let ours = try Sample.authority.get()
        let theirs = try Sample.strangers.get()
        let (chain, foreign) = (try ours.chainDER(), try theirs.chainDER())
        let foreignLeaf = try JWSSigner(
            key: theirs.signingKey(), chainDER: [foreign[0], chain[1], chain[2]])
        let foreignKey = try JWSSigner(key: theirs.signingKey(), chainDER: chain)

        #expect(try Sample.verifier().code(foreignLeaf.sign([1])) == "jws_chain")
        #expect(try Sample.verifier().code(foreignKey.sign([1])) == "jws_signature")
    }

    @Test(arguments: [0, 1, 2, 4])
    func verify_whenNotThreeCertificates_refuses(count: Int) throws {
        let ours = try Sample.authority.get()
        let chain = try ours.chainDER()
        let sent = Array((chain + chain).prefix(count))
        let jws = try JWSSigner(key: ours.signingKey(), chainDER: sent).sign([1])

        #expect(try Sample.verifier().code(jws) == "jws_certificate_count")
    }

    @Test func verify_whenCertificatesAreInAnotherOrder_refuses() throws {
        let ours = try Sample.authority.get()
        let chain = try Array(ours.chainDER().reversed())
        let jws = try JWSSigner(key: ours.signingKey(), chainDER: chain).sign([1])

        #expect(try Sample.verifier().code(jws) == "jws_marker")
    }

    @Test(arguments: [(false, true), (true, false), (false, false)])
    func verify_whenAMarkerIsMissing_refuses(leaf: Bool, intermediate: Bool) throws {
        var profile = Sample.profile()
        profile.leafHasMarker = leaf
        profile.intermediateHasMarker = intermediate
        let authority = try CertificateAuthority(profile)
        let verifier = try JWSVerifier(roots: authority.trustedRoots())

        #expect(try verifier.code(authority.signer().sign([1])) == "jws_marker")
        #expect(verifier.cachedChains == 0)
    }

    /// As in the fixtures of Apple's own libraries: a path that RFC 5280, section 6.1, calls valid.
    @Test(arguments: ["CA:TRUE", "CA:TRUE,pathlen:0"])
    func verify_whenCertificatesSayOnlyWhatAPathNeeds_accepts(constraints: String) throws {
        var profile = Sample.profile()
        profile.hasKeyIdentifiers = false
        (profile.rootKeyUsage, profile.rootConstraints) = (nil, "CA:TRUE")
        (profile.intermediateKeyUsage, profile.intermediateConstraints) = (nil, constraints)
        (profile.leafKeyUsage, profile.leafConstraints) = (nil, nil)
        let authority = try CertificateAuthority(profile)
        let verifier = try JWSVerifier(roots: authority.trustedRoots())
        let stranger = try JWSVerifier(roots: CertificateAuthority(profile).trustedRoots())
        let jws = try authority.signer().sign([1])

        #expect(verifier.code(jws) == "ok")
        #expect(stranger.code(jws) == "jws_chain", "names alike, and nothing else")
    }

    @Test func verify_whenRootMayIssueLeavesOnly_refusesTheChain() throws {
        var profile = Sample.profile()
        profile.rootConstraints = "critical,CA:TRUE,pathlen:0"
        let authority = try CertificateAuthority(profile)
        let verifier = try JWSVerifier(roots: authority.trustedRoots())

        #expect(try verifier.code(authority.signer().sign([1])) == "jws_chain")
    }

    @Test func verify_whenPathAvoidsTheIntermediateThatWasSent_refusesTheChain() throws {
        let ours = try Sample.authority.get()
        let (chain, foreign) = (try ours.chainDER(), try Sample.strangers.get().chainDER())
        let verifier = try JWSVerifier(roots: TrustedRoots(der: [chain[2], chain[1]]))
        let signer = try JWSSigner(
            key: ours.signingKey(), chainDER: [chain[0], foreign[1], chain[2]])

        #expect(try verifier.code(signer.sign([1])) == "jws_chain")
        #expect(try verifier.code(ours.signer().sign([1])) == "ok")
    }

    @Test func verify_whenLeafIsNotOnP256_refuses() throws {
        var profile = Sample.profile()
        profile.leafIsP256 = false
        let authority = try CertificateAuthority(profile)
        let verifier = try JWSVerifier(roots: authority.trustedRoots())
        let signer = JWSSigner(key: try .generate(), chainDER: try authority.chainDER())

        #expect(try verifier.code(signer.sign([1])) == "jws_leaf_key")
    }

    @Test(arguments: ["none", "ES384", "es256", "HS256", "RS256", ""])
    func verify_whenAlgorithmIsNotES256_refuses(algorithm: String) throws {
        let ours = try Sample.authority.get()
        let signer = try JWSSigner(
            key: ours.signingKey(), chainDER: ours.chainDER(), algorithm: algorithm)

        #expect(try Sample.verifier().code(signer.sign([1])) == "jws_algorithm")
    }

    @Test func verify_whenHeaderIsUnusable_refuses() throws {
        let key = try ES256PrivateKey.generate()
        let verifier = try Sample.verifier()
        func code(_ header: String) throws -> String {
            try verifier.code(signCompactJWS(header: Array(header.utf8), payload: [1], key: key))
        }

        #expect(try code("{}") == "jws_header")
        #expect(try code("[]") == "jws_header")
        #expect(try code("\u{1}") == "jws_header")
        #expect(try code(#"{"alg":"ES256"}"#) == "jws_header")
        #expect(try code(#"{"alg":"ES256","x5c":"AAAA"}"#) == "jws_header")
        #expect(try code(#"{"alg":"ES256","x5c":["A","B","C"],"crit":["b64"]}"#) == "jws_critical")
        #expect(try code(#"{"alg":"ES256","x5c":["","",""]}"#) == "certificate_unreadable")
        #expect(
            try code(#"{"alg":"ES256","x5c":["AA==","AA==","AA=="]}"#) == "certificate_unreadable")
        #expect(try code("{\"alg\":\"\(String(repeating: "a", count: 70_000))\"}") == "jws_header")
    }

    @Test func verify_whenSignatureIsDamaged_refuses() throws {
        let verifier = try Sample.verifier()
        let jws = try Sample.jws()
        let flipped = jws.replacingPart(2) { ($0.first == "A" ? "B" : "A") + $0.dropFirst() }
        let zero = Base64URL.encode([UInt8](repeating: 0, count: 64))
        let full = Base64URL.encode([UInt8](repeating: 255, count: 64))

        for _ in 0..<2 {
            #expect(verifier.code(flipped) == "jws_signature")
            #expect(verifier.code(jws.replacingPart(2) { _ in "" }) == "jws_signature")
            #expect(
                verifier.code(jws.replacingPart(2) { String($0.dropFirst(4)) }) == "jws_signature")
            #expect(verifier.code(jws.replacingPart(2) { "AAAA" + $0 }) == "jws_signature")
            #expect(verifier.code(jws.replacingPart(2) { _ in zero }) == "jws_signature")
            #expect(verifier.code(jws.replacingPart(2) { _ in full }) == "jws_signature")
            // The second round meets the cached chain.
            #expect(verifier.code(jws) == "ok")
        }
    }

    @Test func verify_whenPayloadIsChanged_refuses() throws {
        let jws = try Sample.jws()
        let other = Base64URL.encode(Sample.payload(signedAt: signingTime + 1))

        #expect(try Sample.verifier().code(jws.replacingPart(1) { _ in other }) == "jws_signature")
    }

    @Test func verify_whenShapeIsWrong_refuses() throws {
        let verifier = try Sample.verifier()
        let jws = try Sample.jws()

        for text in [
            "", ".", "..", "a.b", "a.b.c.d", jws + ".", "\(jws)=", " \(jws)", "\0", "é.é.é",
        ] {
            #expect(verifier.code(text) == "jws_malformed")
        }
        let small = try JWSVerifier(
            roots: Sample.authority.get().trustedRoots(), sizeMax: jws.utf8.count - 1)
        #expect(small.code(jws) == "jws_too_large")
    }

    @Test func verify_whenHeaderHoldsANameTwice_refuses() throws {
        let ours = try Sample.authority.get()
        let list = try ours.chainDER().map { "\"\(Base64.encode($0))\"" }.joined(separator: ",")
        let verifier = try Sample.verifier()
        func code(_ header: String) throws -> String {
            let header = header.replacing("LIST", with: "[\(list)]")
            return try verifier.code(
                signCompactJWS(header: Array(header.utf8), payload: [1], key: ours.signingKey()))
        }

        #expect(try code(#"{"alg":"ES256","x5c":LIST}"#) == "ok")
        #expect(try code(#"{"alg":"none","alg":"ES256","x5c":LIST}"#) == "jws_header")
        #expect(try code(#"{"alg":"ES256","alg":"ES256","x5c":LIST}"#) == "jws_header")
        #expect(try code(#"{"alg":"ES256","\u0061lg":"none","x5c":LIST}"#) == "jws_header")
        #expect(try code(#"{"alg":"ES256","x5c":[],"x5c":LIST}"#) == "jws_header")
        #expect(try code(#"{"alg":"ES256","x5c":LIST,"a":{"b":1,"b":2}}"#) == "ok")
    }

    @Test(arguments: [
        #""typ":"JWT""#, #""kid":"x""#, #""jku":"https://evil.example/keys""#,
        #""jwk":{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#, #""x5u":"https://evil.example""#,
        #""b64":false"#, #""n":[1,-2.5e3,true,null,{"s":"\ud83d\ude00\/"}]"#,
    ])
    func verify_whenHeaderNamesOtherKeys_takesTheKeyOfTheChain(member: String) throws {
        let ours = try Sample.authority.get()
        let list = try ours.chainDER().map { "\"\(Base64.encode($0))\"" }.joined(separator: ",")
        let header = Array("{\(member),\"x5c\":[\(list)],\"alg\":\"ES256\"}".utf8)
        let genuine = try signCompactJWS(header: header, payload: [1], key: ours.signingKey())
        let forged = try signCompactJWS(header: header, payload: [1], key: .generate())

        #expect(try Sample.verifier().code(genuine) == "ok")
        #expect(try Sample.verifier().code(forged) == "jws_signature")
    }

    @Test(arguments: [
        "{\"alg\":\"ES256\",}", "{\"alg\" \"ES256\"}", "{\"alg\":\"ES256\"} x", "{\"alg\":tru}",
        "{\"alg\":\"\\ud800\"}", "{\"alg\":\"\\u12\"}", "{\"alg\":\"\u{1}\"}", "{\"n\":1.}x",
        "{\"n\":0x10}", "{\"n\":nan}", "{\"alg\":\"ES256", "{\"n\":[1,2}", "{1:2}", "\"alg\"",
        "{\"n\":}",
    ])
    func header_whenNoJSONObject_isRefused(text: String) throws {
        let jws = try signCompactJWS(
            header: Array(text.utf8), payload: [1], key: ES256PrivateKey.generate())

        #expect(try Sample.verifier().code(jws) == "jws_header")
    }

    @Test func header_whenNestedTooDeep_isRefused() throws {
        let deep = String(repeating: "[", count: 30_000)
        let jws = try signCompactJWS(
            header: Array("{\"a\":\(deep)".utf8), payload: [1], key: ES256PrivateKey.generate())

        #expect(try Sample.verifier().code(jws) == "jws_header")
    }

    @Test(arguments: [
        ("leafKeyUsage", "critical,keyAgreement"), ("leafConstraints", "critical,CA:TRUE"),
        ("intermediateKeyUsage", "critical,cRLSign"),
        ("intermediateConstraints", "critical,CA:FALSE"),
        ("intermediateConstraints", nil), ("intermediateKeyUsage", "critical,digitalSignature"),
    ])
    func verify_whenACertificateIsForSomethingElse_refusesTheChain(
        field: String, value: String?
    ) throws {
        var profile = Sample.profile()
        switch field {
        case "leafKeyUsage": profile.leafKeyUsage = value
        case "leafConstraints":
            profile.leafConstraints = value
            profile.leafKeyUsage = "critical,keyCertSign,digitalSignature"
        case "intermediateKeyUsage": profile.intermediateKeyUsage = value
        default: profile.intermediateConstraints = value
        }
        let authority = try CertificateAuthority(profile)
        let verifier = try JWSVerifier(roots: authority.trustedRoots())

        #expect(try verifier.code(authority.signer().sign([1])) == "jws_chain")
        #expect(verifier.cachedChains == 0)
    }

    @Test func verify_whenSignatureNumbersAreOutOfRange_refuses() throws {
        let verifier = try Sample.verifier()
        let jws = try Sample.jws()
        let order: [UInt8] = [
            0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
            0xBC, 0xE6, 0xFA, 0xAD, 0xA7, 0x17, 0x9E, 0x84, 0xF3, 0xB9, 0xCA, 0xC2, 0xFC, 0x63,
            0x25, 0x51,
        ]
        let zero = [UInt8](repeating: 0, count: 32)
        let one: [UInt8] = zero.dropLast() + [1]

        for pair in [zero + one, one + zero, order + one, one + order, one + one] {
            let text = Base64URL.encode(pair)
            #expect(verifier.code(jws.replacingPart(2) { _ in text }) == "jws_signature")
        }
        #expect(verifier.code(jws) == "ok")
    }

    @Test func verify_whenSigningTimeIsAbsurd_refusesTheChain() throws {
        let verifier = try Sample.verifier()
        let jws = try Sample.jws()

        for time in [0, -1, 253_402_300_799_999, 1_767_571_200, Int64.max, Int64.min] {
            #expect(verifier.code(jws, at: time) == "jws_chain")
        }
        // Ahead of our clock, yet within the certificates: the App Store says so.
        #expect(verifier.code(jws, at: signingTime + day - 1, now: signingTime - day) == "ok")
    }
}
