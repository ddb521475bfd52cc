import Foundation
import JOSE
import SandboxStore
import TestSupport
import Testing

extension Program {
    /// `repricer serve --only receiver`.
    static func receiver(
        roots: String, database: String, _ more: [String: String] = [:]
    ) throws -> Program {
        try Program(
            built("repricer"), ["serve", "--only", "receiver"],
            environment: [
                "REPRICER_DATABASE_URL": database, "REPRICER_BUNDLE_ID": "com.example.app",
                "REPRICER_ENVIRONMENT": "Sandbox", "REPRICER_API_BASE_URL": "http://127.0.0.1:9",
                "REPRICER_ROOT_CERTIFICATES": roots,
                "REPRICER_LISTEN": "127.0.0.1:0", "REPRICER_PAGES_LISTEN": "127.0.0.1:0",
            ].merging(more) { _, new in new })
    }

    /// Read from what it says, once it serves.
    func port() async throws -> Int {
        let said = try await said(until: "message=serving")
        let match = try #require(said.firstMatch(of: /message=listening port=([0-9]+)/))
        return try #require(Int(match.1))
    }
}

extension ScratchFolder {
    /// Writes a file that nobody else may read. It appears whole and closed under its name, so that a program that
    /// reads it at any moment finds it so.
    @discardableResult
    func secret(_ name: String, _ text: String) throws -> String {
        let aside = try file(name + ".new", text)
        chmod(aside, 0o600)
        guard rename(aside, "\(path)/\(name)") == 0 else { throw POSIXError(.EIO) }
        return "\(path)/\(name)"
    }

    /// The settings of a `repricer serve` with all its parts that calls nobody and listens on free ports.
    func serveSettings() throws -> [String: String] {
        let authority = try CertificateAuthority(
            validFrom: milliseconds(of: .now) - 86_400_000,
            validUntil: milliseconds(of: .now) + 86_400_000)
        return [
            "REPRICER_DATABASE_URL": TestDatabase.url, "REPRICER_BUNDLE_ID": "com.example.app",
            "REPRICER_ENVIRONMENT": "Sandbox", "REPRICER_API_BASE_URL": "http://127.0.0.1:9",
            "REPRICER_ROOT_CERTIFICATES": try file("root.pem", authority.rootPEM()),
            "REPRICER_ISSUER_ID": "57246542-96fe-1a63-e053-0824d011072a",
            "REPRICER_KEY_ID": "ABC123DEFG",
            "REPRICER_KEY_FILE": try secret("key.p8", try ES256PrivateKey.newPEM()),
            "REPRICER_RECONCILE_EVERY": "off", "REPRICER_LISTEN": "127.0.0.1:0",
            "REPRICER_PAGES_LISTEN": "127.0.0.1:0",
        ]
    }
}
