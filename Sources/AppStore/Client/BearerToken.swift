package import JOSE
internal import JSON
package import ServiceKit
internal import Synchronization

/// Makes the JWT that every call carries, and reuses it for most of its life.
///
/// The clock is the one by which the store judges `iat` and `exp`: real time, or the shared virtual
/// clock of a rehearsal. On a fast one a token is stale after milliseconds and a new one is signed
/// for almost every call, which costs some tens of microseconds; the sandbox grants it leeway.
package final class BearerToken: Sendable {
    /// The App Store allows at most 60 minutes.
    package static let lifeSeconds: Int64 = 20 * 60
    /// A token is replaced after 80 % of its life, so that none expires on its way.
    private static let reuseSeconds = lifeSeconds * 8 / 10

    private struct Signed {
        var token: String
        var issuedAt: Int64
    }

    /// A token that is refused within this time after it was signed shows that the key is refused, not the age of the
    /// token.
    private static let freshSeconds: Int64 = 60

    private let key: ES256PrivateKey
    private let keyID: String
    private let issuerID: String
    private let bundleID: String
    private let clock: any WallClock
    private let held = Mutex<Signed?>(nil)

    package init(
        key: ES256PrivateKey, keyID: String, issuerID: String, bundleID: String,
        clock: any WallClock
    ) {
        self.key = key
        self.keyID = keyID
        self.issuerID = issuerID
        self.bundleID = bundleID
        self.clock = clock
    }

    /// The token to send now.
    package func current() throws(JOSEError) -> String {
        let now = clock.nowMilliseconds() / 1000
        let reusable = held.withLock { held in
            // After the clock was set back, the token is from the future and would be refused.
            held.flatMap { (0..<Self.reuseSeconds).contains(now - $0.issuedAt) ? $0.token : nil }
        }
        if let reusable { return reusable }
        // Two callers may sign at the same time. Both tokens are valid, and the later one is kept.
        let token = try make(issuedAt: now)
        held.withLock { $0 = Signed(token: token, issuedAt: now) }
        return token
    }

    /// Forgets `token` after a 401, unless another has replaced it already. Returns whether a fresh token may succeed:
    /// this one was not signed just now, or another has replaced it.
    package func invalidate(_ token: String) -> Bool {
        let now = clock.nowMilliseconds() / 1000
        return held.withLock { held in
            guard let current = held, current.token == token else { return true }
            held = nil
            return !(0..<Self.freshSeconds).contains(now - current.issuedAt)
        }
    }

    private func make(issuedAt: Int64) throws(JOSEError) -> String {
        let header = JSONWriter.object {
            $0.text("alg", "ES256")
            $0.text("kid", keyID)
            $0.text("typ", "JWT")
        }
        let claims = JSONWriter.object {
            $0.text("aud", "appstoreconnect-v1")
            $0.text("bid", bundleID)
            $0.number("exp", issuedAt + Self.lifeSeconds)
            $0.number("iat", issuedAt)
            $0.text("iss", issuerID)
        }
        return try signCompactJWS(
            header: Array(header.utf8), payload: Array(claims.utf8), key: key)
    }
}
