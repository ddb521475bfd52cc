import Foundation
import HTTP
import JOSE
import SandboxStore
import TestSupport
import Testing

/// A real `repricer serve` whose root certificates change under it.
@Suite(.database) struct TrustReloadTests {
    @Test func serve_whenItsRootsChange_followsWithoutARestart() async throws {
        let scratch = try ScratchFolder()
        let (first, second) = (try authority(), try authority())
        let roots = try scratch.file("root.pem", first.rootPEM())
        let program = try Program.receiver(roots: roots, database: TestDatabase.url)
        defer { program.kill() }
        let client = try HTTPClient(
            baseURL: "http://127.0.0.1:\(try await program.port())")
        defer { client.close() }
        #expect(try await post("a", first, client) == 200)
        #expect(try await post("b", second, client) == 403)

        // Half a file, then a whole one: the old roots stay for as long as the new are unusable.
        _ = try scratch.file("root.pem", "-----BEGIN CERTIFICATE-----\nAAAA")
        program.send(signal: SIGHUP)
        try await program.said(until: "root certificates unusable")
        #expect(try await post("c", first, client) == 200)

        _ = try scratch.file("root.pem", second.rootPEM())
        program.send(signal: SIGHUP)
        try await program.said(until: "root certificates replaced")
        #expect(try await post("d", first, client) == 403)
        #expect(try await post("e", second, client) == 200)

        // Without a signal too: the files are checked every few seconds.
        _ = try scratch.file("root.pem", first.rootPEM())
        try await program.said(until: "root certificates replaced")
        #expect(try await post("f", first, client) == 200)
    }

    private func authority() throws -> CertificateAuthority {
        try CertificateAuthority(
            validFrom: milliseconds(of: .now) - 86_400_000,
            validUntil: milliseconds(of: .now) + 86_400_000)
    }

    private func post(
        _ id: String, _ authority: CertificateAuthority, _ client: HTTPClient
    ) async throws -> Int {
        let payload = """
            {"notificationType":"TEST","notificationUUID":"\(id)","version":"2.0",
            "signedDate":\(milliseconds(of: .now)),
            "data":{"bundleId":"com.example.app","environment":"Sandbox"}}
            """
        let signed = try authority.signer().sign(Array(payload.utf8))
        let request = HTTPRequest(
            method: "POST", target: "/notifications",
            body: Array(#"{"signedPayload":"\#(signed)"}"#.utf8))
        return try await client.send(request).status
    }
}
