import Foundation
import HTTP
import JOSE
import SandboxStore
import TestSupport
import Testing

/// A real `repricer serve` whose forwarder token and V1 secret change under it.
@Suite(.database) struct SecretReloadTests {
    @Test func serve_whenItsSecretsChange_followsWithoutARestart() async throws {
        let scratch = try ScratchFolder()
        let authority = try CertificateAuthority(
            validFrom: milliseconds(of: .now) - 86_400_000,
            validUntil: milliseconds(of: .now) + 86_400_000)
        let token = try scratch.secret("token", "one\n")
        let secret = try scratch.secret("secret", "uno\n")
        let program = try Program.receiver(
            roots: try scratch.file("root.pem", authority.rootPEM()), database: TestDatabase.url,
            [
                "REPRICER_FORWARDER_TOKEN_FILE": token, "REPRICER_V1_SHARED_SECRET_FILE": secret,
            ])
        defer { program.kill() }
        let client = try HTTPClient(
            baseURL: "http://127.0.0.1:\(try await program.port())")
        defer { client.close() }
        #expect(try await Self.post("one", "uno", client) == 200)
        #expect(try await Self.post("two", "uno", client) == 401)
        #expect(try await Self.post("one", "due", client) == 403)

        try scratch.secret("token", "two\n")
        program.send(signal: SIGHUP)
        try await program.said(until: "secret replaced")
        #expect(try await Self.post("one", "uno", client) == 401)
        #expect(try await Self.post("two", "uno", client) == 200)

        // Without a signal too.
        try scratch.secret("secret", "due\n")
        try await program.said(until: "secret replaced")
        #expect(try await Self.post("two", "uno", client) == 403)
        #expect(try await Self.post("two", "due", client) == 200)

        // Readable by others: told, and the one from before stays.
        chmod(token, 0o644)
        program.send(signal: SIGHUP)
        try await program.said(until: "secret unusable")
        #expect(try await Self.post("two", "due", client) == 200)
    }

    private static func post(
        _ token: String, _ password: String, _ client: HTTPClient
    ) async throws -> Int {
        let body = """
            {"notification_type":"DID_CHANGE_RENEWAL_STATUS","password":"\(password)",
            "environment":"Sandbox","bid":"com.example.app","original_transaction_id":42,
            "auto_renew_status":"false","auto_renew_status_change_date_ms":"1780272000000"}
            """
        return try await client.send(
            HTTPRequest(
                method: "POST", target: "/notifications/v1",
                headers: HTTPHeaders([("Authorization", "Bearer \(token)")]),
                body: Array(body.utf8))
        ).status
    }
}
