import JOSE
import Testing

@testable import SandboxStore

@Suite struct BearerTests {
    private static let now: Int64 = 1_800_000_000

    private func check(_ key: ES256PrivateKey) -> BearerCheck {
        BearerCheck(
            key: key.publicKey, keyID: "STOREKEY01", issuerID: "issuer",
            bundleID: "com.example.stream",
            leewaySeconds: 60)
    }

    static func token(
        _ key: ES256PrivateKey,
        head: String = "{\"alg\":\"ES256\",\"kid\":\"STOREKEY01\",\"typ\":\"JWT\"}",
        iss: String = "issuer", aud: String = "appstoreconnect-v1",
        bid: String = "com.example.stream", iat: Int64? = now, exp: Int64 = now + 300
    ) throws -> String {
        let issued = iat.map { ",\"iat\":\($0)" } ?? ""
        let claims =
            "{\"iss\":\"\(iss)\",\"aud\":\"\(aud)\",\"bid\":\"\(bid)\",\"exp\":\(exp)\(issued)}"
        let jws = try signCompactJWS(
            header: Array(head.utf8), payload: Array(claims.utf8), key: key)
        return "Bearer \(jws)"
    }

    @Test func token_asApplesLibrariesMakeIt_isAccepted() throws {
        let key = try ES256PrivateKey.generate()
        let check = check(key)
        let tokens = [
            try Self.token(key), try Self.token(key, iat: nil),
            try Self.token(key, exp: Self.now + 3600),
        ]

        for token in tokens { #expect(check.isAuthorized(token, now: Self.now * 1000)) }
    }

    @Test func token_wrongInOnePoint_isRefused() throws {
        let key = try ES256PrivateKey.generate()
        let now = Self.now
        let tokens: [String?] = [
            nil, "", "Bearer ", "Bearer a.b.c", "Basic eDp5",
            try Self.token(.generate()),
            try Self.token(key, head: "{\"alg\":\"none\",\"kid\":\"STOREKEY01\",\"typ\":\"JWT\"}"),
            try Self.token(key, head: "{\"alg\":\"ES256\",\"kid\":\"OTHER\",\"typ\":\"JWT\"}"),
            try Self.token(key, head: "{\"alg\":\"ES256\",\"kid\":\"STOREKEY01\"}"),
            try Self.token(key, iss: "other"), try Self.token(key, aud: "other"),
            try Self.token(key, bid: "other"),
            try Self.token(key, iat: now - 600, exp: now - 120),
            try Self.token(key, iat: now, exp: now + 3601),
            try Self.token(key, iat: nil, exp: now + 7200),
            try Self.token(key, iat: now + 120, exp: now + 300),
            try Self.token(key, iat: now + 300, exp: now),
        ]

        let check = check(key)
        for (index, token) in tokens.enumerated() {
            #expect(!check.isAuthorized(token, now: now * 1000), "token \(index)")
        }
    }
}
