import AppStore
import Foundation
import JOSE
import SandboxStore
import ServiceKit
import TestSupport
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
