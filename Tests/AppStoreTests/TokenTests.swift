import AppStore
import Foundation
import JOSE
import ServiceKit
import Testing

@Suite struct BearerTokenTests {
    private func token(_ clock: ManualClock, _ key: ES256PrivateKey) -> BearerToken {
        BearerToken(key: key, keyID: "K1", issuerID: "I1", bundleID: bundle, clock: clock)
    }

    @Test func token_whenMade_saysWhatTheAppStoreWants() throws {
        let key = try ES256PrivateKey.generate()
        let text = try token(ManualClock(signingTime), key).current()

        let jws = try CompactJWS(parsing: text)
        let header = try JSONSerialization.jsonObject(with: Data(jws.header)) as? NSDictionary
        let claims = try JSONSerialization.jsonObject(with: Data(jws.payload)) as? NSDictionary
        #expect(key.publicKey.isValid(signature: jws.signature, over: jws.signingInput))
        #expect(header == ["alg": "ES256", "kid": "K1", "typ": "JWT"])
        let issuedAt = signingTime / 1000
        #expect(
            claims == [
                "iss": "I1", "iat": issuedAt, "exp": issuedAt + 1200, "aud": "appstoreconnect-v1",
                "bid": bundle,
            ])
    }

    @Test func token_whenMostOfItsLifeIsOver_isReplaced() throws {
        let clock = ManualClock(signingTime)
        let token = try token(clock, .generate())
        let first = try token.current()

        clock.advance(by: .seconds(959))
        #expect(try token.current() == first)
        clock.advance(by: .seconds(1))
        let second = try token.current()
        #expect(second != first)
        clock.set(signingTime)
        #expect(try token.current() != second)
    }

    @Test func invalidate_whenTokenIsTheOneHeld_makesANewOne() throws {
        let token = try token(ManualClock(signingTime), .generate())
        let first = try token.current()

        #expect(token.invalidate("another"), "the one held may fare better")
        #expect(try token.current() == first)
        #expect(!token.invalidate(first), "it was signed just now: the key is refused")
        #expect(try token.current() != first)
    }

    @Test func invalidate_whenTokenHasAged_hopesForAFreshOne() throws {
        let clock = ManualClock(signingTime)
        let token = try token(clock, .generate())

        let young = try token.current()
        clock.advance(by: .seconds(59))
        #expect(!token.invalidate(young))

        let old = try token.current()
        clock.advance(by: .seconds(60))
        #expect(token.invalidate(old))
        #expect(try token.current() != old)
    }
}

@Suite struct KeyFileTests {
    private func code(_ content: String?, mode: Int = 0o600) throws -> KeyFileError.Code? {
        let path = FileManager.default.temporaryDirectory.path + "/key-\(UUID().uuidString).p8"
        defer { try? FileManager.default.removeItem(atPath: path) }
        if let content {
            let attributes: [FileAttributeKey: Any] = [.posixPermissions: mode]
            #expect(
                FileManager.default.createFile(
                    atPath: path, contents: Data(content.utf8), attributes: attributes))
        }
        do {
            _ = try KeyFile.load(path)
            return nil
        } catch {
            #expect(error.description.contains(path))
            return error.code
        }
    }

    @Test func load_whenUsable_returnsTheKey() throws {
        let pem = try ES256PrivateKey.generate().pem()

        #expect(try code(pem) == nil)
        #expect(try code(pem, mode: 0o400) == nil)
    }

    @Test(arguments: [0o644, 0o640, 0o604, 0o620, 0o602, 0o666])
    func load_whenOpenToOthers_isRefused(mode: Int) throws {
        #expect(try code(ES256PrivateKey.generate().pem(), mode: mode) == .exposed)
    }

    @Test func load_whenUnusable_saysWhy() throws {
        let p384 = """
            -----BEGIN PRIVATE KEY-----
            MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDDKWTYEc8vXuUH1eqEC
            T+A3SUN65+w8UD61wWioZWhXlXGBeR9XaDL//R2nbjYVWw+hZANiAASYDtGnMCHI
            Ecs9r4rRDYp6HvYIEHKZeWyIECuslICFKkrJvC/z6bKhtQS/idbkdZrkUlUF2uR5
            itjQJvOwQMvwO3g/I8eceOV1JaPFxsM0KALjn6m6FOEfKmwXzlTM/GU=
            -----END PRIVATE KEY-----
            """

        #expect(try code(nil) == .missing)
        #expect(try code("nonsense") == .notAKey)
        #expect(try code(String(repeating: "a", count: 70_000)) == .notAKey)
        #expect(try code(p384) == .notP256)
        #expect(throws: KeyFileError.self) { try KeyFile.load("/") }
        #expect(throws: KeyFileError.self) { try KeyFile.load("") }
    }
}
