import FoundationEssentials
import JOSE
import SandboxStore
import Testing

@Suite struct KeyTests {
    @Test func signature_whenMade_verifiesOnlyForItsMessageAndKey() throws {
        let key = try ES256PrivateKey.generate()
        let message = Array("message".utf8)

        let signature = try key.signature(over: message)

        #expect(signature.count == 64)
        #expect(key.publicKey.isValid(signature: signature, over: message))
        #expect(!key.publicKey.isValid(signature: signature, over: message + [0]))
        #expect(!key.publicKey.isValid(signature: Array(signature.dropLast()), over: message))
        let other = try ES256PrivateKey.generate().publicKey
        #expect(!other.isValid(signature: signature, over: message))
    }

    @Test func key_whenWrittenAsPEM_readsBack() throws {
        let pem = try ES256PrivateKey.newPEM()
        let key = try ES256PrivateKey(pem: pem)
        let again = try ES256PrivateKey(pem: pem)

        let signature = try again.signature(over: [1, 2, 3])

        #expect(key.publicKey.isValid(signature: signature, over: [1, 2, 3]))
        #expect(pem.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
    }

    @Test func key_whenNotUsable_saysWhy() throws {
        #expect(throws: JOSEError(.key, "not an unencrypted PEM private key")) {
            try ES256PrivateKey(pem: "nonsense")
        }
        #expect(throws: JOSEError(.key, "not an unencrypted PEM private key")) {
            try ES256PrivateKey(
                pem: """
                    -----BEGIN PUBLIC KEY-----
                    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJwFmKf5gIb48zyU1mZ2M5aFifZAB
                    /vk5TkKDIM1rNbE6a5DSxw6kxRu7mJ9VdB5XA0fPVIW5z55jEsJGNbL5WQ==
                    -----END PUBLIC KEY-----
                    """)
        }
        var profile = Sample.profile()
        profile.leafIsP256 = false
        let authority = try CertificateAuthority(profile)
        #expect(throws: JOSEError(.curve, "the key is not on the curve P-256")) {
            try authority.signingKey()
        }
    }
}

@Suite struct Base64Tests {
    @Test(arguments: [
        ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"),
        ("fooba", "Zm9vYmE"), ("foobar", "Zm9vYmFy"), ("ü>?ÿ", "w7w-P8O_"),
    ])
    func base64URL_whenGivenExamples_agreesBothWays(plain: String, encoded: String) {
        #expect(Base64URL.encode(Array(plain.utf8)) == encoded)
        #expect(Base64URL.decode(encoded) == Array(plain.utf8))
    }

    @Test(arguments: ["A", "AAAAA", "Zg==", "Zm9v\n", "Zm+v", "Zm/v", "Zh", "Zm9", "Zm9vé"])
    func base64URL_whenNotCanonical_isRefused(text: String) {
        #expect(Base64URL.decode(text) == nil)
    }

    @Test func base64URL_ofEveryLength_agreesWithFoundation() {
        for count in 0..<70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 151 + count) }
            let expected = Data(bytes).base64EncodedString()
                .replacing("+", with: "-")
                .replacing("/", with: "_")
                .replacing("=", with: "")
            #expect(Base64URL.encode(bytes) == expected)
            #expect(Base64URL.decode(expected) == bytes)
        }
    }

    @Test func base64URL_withAForeignByteAnywhere_isRefused() {
        let good = Array("ABCDEFGHIJKLMNOPQR".utf8)
        let alphabet = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        for count in [8, 11, 12, 16, 18] {
            for place in 0..<count {
                for byte in UInt8.min...UInt8.max where !alphabet.contains(byte) {
                    var text = Array(good.prefix(count))
                    text[place] = byte
                    #expect(Base64URL.decode(text) == nil, "\(byte) at \(place) of \(count)")
                }
            }
        }
    }

    @Test(arguments: ["Zg", "Zg=", "Zg===", "====", "Z===", "Zm9v Zg==", "Zm-v", "Zh=="])
    func base64_whenNotCanonical_isRefused(text: String) {
        #expect(Base64.decode(text) == nil)
        #expect(Base64.decode("Zg==") == [102])
        #expect(Base64.decode("Zm8=") == [102, 111])
        #expect(Base64.decode("Zm+/") == [102, 111, 191])
    }
}

@Suite struct TrustedRootsTests {
    private func withFolder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.path + "/roots-\(UUID().uuidString)"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try body(folder)
    }

    private func write(_ bytes: [UInt8], _ path: String) throws {
        #expect(FileManager.default.createFile(atPath: path, contents: Data(bytes)))
    }

    @Test func roots_whenFolderHoldsBothForms_readsAll() throws {
        try withFolder { folder in
            try write(Sample.authority.get().chainDER()[2], "\(folder)/a.cer")
            try write(Array(Sample.strangers.get().rootPEM().utf8), "\(folder)/b.pem")
            try write(Array("notes".utf8), "\(folder)/README.md")

            let roots = try TrustedRoots(certificatesIn: folder)

            #expect(roots.count == 2)
            #expect(try TrustedRoots(certificatesIn: "\(folder)/b.pem").count == 1)
            let verifier = try JWSVerifier(roots: roots)
            #expect(verifier.code(try Sample.jws()) == "ok")
        }
    }

    @Test func roots_whenUnusable_saysWhichFile() throws {
        try withFolder { folder in
            #expect(throws: JOSEError(.noRoots, "no certificate in \(folder)")) {
                try TrustedRoots(certificatesIn: folder)
            }
            #expect(throws: JOSEError(.file, "\(folder)/none does not exist")) {
                try TrustedRoots(certificatesIn: "\(folder)/none")
            }
            try write(Sample.authority.get().chainDER()[0], "\(folder)/leaf.der")
            #expect(throws: JOSEError.self) { try TrustedRoots(certificatesIn: folder) }
            try write(Array("junk".utf8), "\(folder)/a.pem")
            let message = "\(folder)/a.pem is neither a DER nor a PEM certificate"
            #expect(throws: JOSEError(.certificate, message)) {
                try TrustedRoots(certificatesIn: folder)
            }
        }
    }

    @Test func authority_whenStoredAndRead_signsForTheSameRoot() throws {
        let again = try CertificateAuthority(storedPEM: Sample.authority.get().storedPEM())

        #expect(try Sample.verifier().code(again.signer().sign([1])) == "ok")
        #expect(throws: JOSEError.self) { try CertificateAuthority(storedPEM: "") }
        let server = try again.serverIdentity(validFrom: 0, validUntil: 4_000_000_000_000)
        #expect(server.certificateChainPEM.contains("BEGIN CERTIFICATE"))
        #expect(server.keyPEM.contains("BEGIN PRIVATE KEY"))
    }
}
