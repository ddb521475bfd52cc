import JOSE
import SandboxStore

/// 2026-01-05T00:00:00Z.
let signingTime: Int64 = 1_767_571_200_000
let day: Int64 = 86_400_000

/// Certificates valid from a day before `signingTime` to a day after it.
enum Sample {
    static let authority = Result { try CertificateAuthority(profile()) }
    static let strangers = Result { try CertificateAuthority(profile()) }

    static func profile() -> CertificateAuthority.Profile {
        .init(validFrom: signingTime - day, validUntil: signingTime + day)
    }

    static func payload(signedAt: Int64?, filler: Int = 0) -> [UInt8] {
        let date = signedAt.map { "\"signedDate\":\($0)," } ?? ""
        return Array("{\(date)\"x\":\"\(String(repeating: "y", count: filler))\"}".utf8)
    }

    static func verifier(cacheLimit: Int = 64) throws -> JWSVerifier {
        try JWSVerifier(roots: authority.get().trustedRoots(), cacheLimit: cacheLimit)
    }

    static func jws(signedAt: Int64? = signingTime, filler: Int = 0) throws -> String {
        try authority.get().signer().sign(payload(signedAt: signedAt, filler: filler))
    }
}

extension JWSVerifier {
    /// Verifies at the time that the sample payload's maker chose.
    func code(_ jws: String, at time: Int64? = signingTime, now: Int64 = signingTime) -> String {
        do {
            try open(jws).check(validAt: time ?? now)
            return "ok"
        } catch {
            return error.code.rawValue
        }
    }
}

extension String {
    /// The same JWS with one part changed.
    func replacingPart(_ index: Int, _ change: (String) -> String) -> String {
        var parts = split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        parts[index] = change(parts[index])
        return parts.joined(separator: ".")
    }
}
