import Glibc
import ServiceKit
import TestSupport
import Testing

@testable import HTTP

@Suite(.ownThread) struct TLSTests {
    private static let get = HTTPRequest(method: "GET", target: "/a")

    private func failure(_ client: HTTPClient) async -> HTTPClientError? {
        do throws(HTTPClientError) {
            _ = try await client.send(Self.get)
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: ["127.0.0.1", "localhost"])
    func client_onATrustedServer_talksAndKeepsTheSession(host: String) async throws {
        let certificates = try TestCertificates.shared.get()
        try await withServer(tls: certificates.loopback) { server, port in
            let client = try HTTPClient(
                baseURL: "https://\(host):\(port)", extraCAFile: certificates.caFile)
            let body = [UInt8](repeating: 0x61, count: 300_000)
            let post = HTTPRequest(method: "POST", target: "/p", body: body)

            for _ in 0..<5 {
                let response = try await client.send(post)
                #expect(String(decoding: response.body, as: UTF8.self) == "POST /p 300000")
            }

            #expect(server.connectionCount == 1)
            client.close()
        }
    }

    @Test func client_withoutTheCA_refusesTheServer() async throws {
        let certificates = try TestCertificates.shared.get()
        try await withServer(tls: certificates.loopback) { _, port in
            let error = await self.failure(try HTTPClient(baseURL: "https://127.0.0.1:\(port)"))

            #expect(error?.code == .tlsFailed)
            #expect(error?.requestMayHaveArrived == false)
        }
    }

    @Test(arguments: ["127.0.0.1", "localhost"])
    func client_whenTheCertificateIsForAnother_refusesTheServer(host: String) async throws {
        let certificates = try TestCertificates.shared.get()
        try await withServer(tls: certificates.elsewhere) { _, port in
            let client = try HTTPClient(
                baseURL: "https://\(host):\(port)", extraCAFile: certificates.caFile)

            let error = await self.failure(client)

            #expect(error?.code == .tlsFailed)
            #expect(error?.reason.contains("mismatch") == true)
        }
    }

    @Test func client_onAServerWithoutTLS_failsUnsent() async throws {
        let certificates = try TestCertificates.shared.get()
        try await withServer { _, port in
            let client = try HTTPClient(
                baseURL: "https://127.0.0.1:\(port)", extraCAFile: certificates.caFile)

            let error = await self.failure(client)

            #expect(error?.code == .tlsFailed)
            #expect(error?.requestMayHaveArrived == false)
        }
    }

    @Test func server_onPlainTextInsteadOfTLS_closesAndServesOn() async throws {
        let certificates = try TestCertificates.shared.get()
        try await withServer(tls: certificates.loopback) { _, port in
            let raw = try RawClient(port: port)
            try raw.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            _ = try? raw.readToEnd()
            let client = try HTTPClient(
                baseURL: "https://127.0.0.1:\(port)", extraCAFile: certificates.caFile)

            #expect(try await client.send(Self.get).status == 200)
        }
    }

    @Test func server_withTLS_refuses2MegabytesWith413() async throws {
        let certificates = try TestCertificates.shared.get()
        try await withServer(tls: certificates.loopback) { _, port in
            let client = try HTTPClient(
                baseURL: "https://127.0.0.1:\(port)", extraCAFile: certificates.caFile)
            let body = [UInt8](repeating: 0x61, count: 2_097_152)

            let response = try await client.send(
                HTTPRequest(method: "POST", target: "/", body: body))

            #expect(response.status == 413)
        }
    }

    /// That of a named pipe has no end.
    @Test(arguments: ["missing.pem", "pipe.pem"])
    func client_withoutACAFile_isNotMade(name: String) throws {
        let scratch = try ScratchFolder()
        mkfifo(scratch.path + "/pipe.pem", 0o600)

        let error = #expect(throws: HTTPClientError.self) {
            try HTTPClient(baseURL: "https://localhost", extraCAFile: scratch.path + "/" + name)
        }

        #expect(error?.code == .badCAFile)
    }
}
