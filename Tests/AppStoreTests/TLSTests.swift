import AppStore
import Foundation
import HTTP
import JOSE
import Pricing
import SandboxStore
import ServiceKit
import Testing

@Suite struct TLSTests {
    /// The rehearsal's certificates over real sockets: what the sandbox serves, the client accepts.
    @Test func client_whenServerIsUnderTheExtraCA_isAnswered() async throws {
        let now = SystemClock().nowMilliseconds()
        let authority = try CertificateAuthority(validFrom: now - day, validUntil: now + day)
        let identity = try authority.serverIdentity(validFrom: now - day, validUntil: now + day)
        let body = try Fixture.bytes(["signedRenewalInfo": Fixture.sign(Fixture.renewal())] as JSON)
        let server = try HTTPServer(
            host: "127.0.0.1", port: 0,
            tls: ServerIdentity(
                certificateChainPEM: identity.certificateChainPEM, privateKeyPEM: identity.keyPEM),
            log: Log(component: "test", level: .error),
            handler: { _ in HTTPResponse(status: 200, body: body) })
        let port = try server.bind()
        let path = FileManager.default.temporaryDirectory.path + "/ca-\(UUID().uuidString).pem"
        try authority.rootPEM().write(toFile: path, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: path) }

        let outcomes = try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            defer { group.cancelAll() }
            var outcomes: [CallOutcome<SubscriptionEvent>] = []
            for (host, file) in [("127.0.0.1", path), ("localhost", path), ("127.0.0.1", nil)] {
                let http = try HTTPClient(baseURL: "https://\(host):\(port)", extraCAFile: file)
                outcomes.append(
                    try await AppStoreClient.make(http)
                        .changePrice(transactionID: subscription, request: .example()))
                http.close()
            }
            return outcomes
        }

        #expect(outcomes.count == 3)
        for outcome in outcomes.prefix(2) {
            guard case .answered = outcome else {
                Issue.record("\(outcome)")
                continue
            }
        }
        guard case .notSent = outcomes.last else {
            Issue.record("an unknown authority was trusted")
            return
        }
    }
}
