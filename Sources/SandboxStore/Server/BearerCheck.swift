import JOSE

/// Checks the JWT of a call as Apple describes it: ES256 by the known key, and every claim.
struct BearerCheck: Sendable {
    static let audience = "appstoreconnect-v1"
    static let lifetimeSecondsMax: Int64 = 3600

    var key: ES256PublicKey
    /// Its last characters are not checked: each process calls with an id of its own, by which an auditor tells them
    /// apart.
    var keyID: String
    static let ownCharacters = 4
    var issuerID: String
    var bundleID: String
    /// The allowed clock difference: two programs on one fast clock read it moments apart, which are hours of store
    /// time.
    var leewaySeconds: Int64

    func isAuthorized(_ header: String?, now: Int64) -> Bool {
        guard let header, header.hasPrefix("Bearer ") else { return false }
        // A token that cannot be parsed is not accepted.
        guard let token = try? CompactJWS(parsing: String(header.dropFirst(7)), limit: 16 * 1024),
            let head = JSONValue.parse(token.header)?.object,
            head["alg"]?.string == "ES256",
            head["kid"]?.string?.dropLast(BearerCheck.ownCharacters)
                == keyID.dropLast(BearerCheck.ownCharacters),
            head["typ"]?.string == "JWT",
            key.isValid(signature: token.signature, over: token.signingInput),
            let claims = JSONValue.parse(token.payload)?.object
        else { return false }
        return areAccepted(claims, now: now / 1000)
    }

    /// The key id in the header, without verification.
    static func keyID(in header: String?) -> String? {
        guard let header, header.hasPrefix("Bearer "),
            // A token that cannot be parsed has no key id.
            let token = try? CompactJWS(parsing: String(header.dropFirst(7)), limit: 16 * 1024)
        else { return nil }
        return JSONValue.parse(token.header)?.object?["kid"]?.string
    }

    private func areAccepted(_ claims: [String: JSONValue], now: Int64) -> Bool {
        guard claims["iss"]?.string == issuerID, claims["bid"]?.string == bundleID,
            claims["aud"]?.string == BearerCheck.audience,
            let expiresAt = claims["exp"]?.integer, (0...32_503_680_000).contains(expiresAt)
        else { return false }
        if let issued = claims["iat"] {
            guard let issuedAt = issued.integer, (0...expiresAt).contains(issuedAt),
                issuedAt <= now + leewaySeconds,
                expiresAt - issuedAt <= BearerCheck.lifetimeSecondsMax
            else { return false }
        } else if expiresAt > now + leewaySeconds + BearerCheck.lifetimeSecondsMax {
            return false
        }
        return expiresAt + leewaySeconds > now
    }
}
