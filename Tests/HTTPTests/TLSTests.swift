import Foundation
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

    /// A server sends session tickets unasked. A connection that was opened ahead is good all the same.
    @Test func client_thatOpenedConnectionsAhead_callsOverThese() async throws {
        let certificates = try TestCertificates.shared.get()
        try await withServer(tls: certificates.loopback) { server, port in
            let client = try HTTPClient(
                baseURL: "https://127.0.0.1:\(port)", extraCAFile: certificates.caFile)

            for _ in 0..<3 { await client.prepare(3) }
            try await eventually { server.connectionCount == 3 }
            let statuses = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<3 {
                    group.addTask {
                        await client.whileReady { (try? await client.send(Self.get))?.status ?? 0 }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }

            #expect(statuses == [200, 200, 200])
            #expect(server.connectionCount == 3)
            client.close()
        }
    }

    /// What a server sends unasked after the handshake is no answer, and one that has gone away is no good.
    @Test func stream_withSessionTicketsUnread_isQuiet_andNotWithAnAnswerOrTheEnd() async throws {
        let certificates = try TestCertificates.shared.get()
        let serverTLS = try TLSContext(identity: certificates.loopback)
        let clientTLS = try TLSContext(trustingSystemAnd: certificates.caFile)
        for isAnswered in [true, false] {
            var pair: [Int32] = [0, 0]
            try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
            let (near, far) = (pair[0], pair[1])
            let until = Deadline.now + .seconds(20)
            let client = SocketStream(descriptor: near)
            let (go, went) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            Thread.detachNewThread {
                let server = SocketStream(descriptor: far)
                if let session = try? serverTLS.serverSession() {
                    try? server.startTLS(session, asServer: true, until: until)
                }
                went.signal()
                go.wait()
                if isAnswered {
                    try? server.write([0x61], until: until)
                } else {
                    server.endOutput()
                }
                went.signal()
                go.wait()
            }
            try client.startTLS(
                clientTLS.clientSession(host: "localhost", isAddress: false), asServer: false,
                until: until)
            went.wait()

            #expect(SocketStream.isReadable(near), "there are tickets to be read")
            #expect(client.isQuiet)
            #expect(!SocketStream.isReadable(near), "they are read")
            #expect(client.isQuiet)
            go.signal()
            went.wait()
            #expect(!client.isQuiet)
            go.signal()
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
