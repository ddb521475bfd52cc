import Foundation
import ServiceKit
import TestSupport
import Testing

@testable import HTTP

@Suite struct HTTPClientTests {
    private static let get = HTTPRequest(method: "GET", target: "/a")
    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    private func client(
        _ port: Int, _ change: (inout HTTPClientLimits) -> Void = { _ in }
    ) throws -> HTTPClient {
        var limits = HTTPClientLimits()
        change(&limits)
        return try HTTPClient(baseURL: "http://127.0.0.1:\(port)", limits: limits)
    }

    private func failure(_ client: HTTPClient, _ request: HTTPRequest = get) async throws
        -> HTTPClientError
    {
        do throws(HTTPClientError) {
            let response = try await client.send(request)
            Issue.record("answered \(response.status)")
            throw HTTPClientError(.badRequest, "unexpected answer")
        } catch {
            return error
        }
    }

    @Test func client_withBodies_exchangesThemOverOneConnection() async throws {
        try await withServer(
            handler: { HTTPResponse(status: 201, headers: $0.headers, body: $0.body) },
            { server, port in
                let client = try self.client(port)
                for size in [0, 1, 100_000] {
                    let body = [UInt8](repeating: 7, count: size)
                    let headers = HTTPHeaders([("X-A", "b")])
                    let request = HTTPRequest(
                        method: "POST", target: "/", headers: headers, body: body)
                    // How the body travels is the client's affair.
                    var chunked = request
                    chunked.headers["Transfer-Encoding"] = "chunked"

                    let response = try await client.send(request)
                    let answer = try await client.send(chunked)

                    #expect(response.status == 201 && response.body == body)
                    #expect(answer.body == body)
                    #expect(response.headers["x-a"] == "b")
                    #expect(response.headers["Host"] == "127.0.0.1:\(port)")
                }
                #expect(server.connectionCount == 1)
                client.close()
            })
    }

    @Test func client_withManyRequests_staysWithinItsConnections() async throws {
        try await withServer { server, port in
            let client = try self.client(port) { $0.connectionsMax = 3 }

            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<60 { group.addTask { try await client.send(Self.get).status } }
                return try await group.reduce(into: []) { $0.append($1) }
            }

            #expect(statuses == [Int](repeating: 200, count: 60))
            #expect(server.connectionCount <= 3)
            client.close()
        }
    }

    static let responses: [(String, String)] = [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok"),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", "until the end"),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx", "x"),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"),
    ]

    @Test(arguments: responses)
    func client_onAnyFraming_readsTheBody(text: String, body: String) async throws {
        let server = try ScriptedServer([[.answer(text)]])

        let response = try await client(server.port).send(Self.get)

        #expect(response.body == Array(body.utf8))
    }

    @Test func client_whenTheKeptConnectionWasClosed_opensAnother() async throws {
        let server = try ScriptedServer([[.answer(Self.ok)], [.answer(Self.ok)]])
        let client = try client(server.port)

        let first = try await client.send(Self.get)
        try await eventually { server.closedConnections > 0 }
        let second = try await client.send(Self.get)

        #expect(first.status == 200 && second.status == 200)
        #expect(server.connections == 2)
    }

    static let broken: [(String, HTTPClientError.Code)] = [
        ("", .connectionLost),
        ("HTTP/1.1 200 OK\r\nContent-Le", .connectionLost),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", .connectionLost),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", .connectionLost),
        ("SSH-2.0-OpenSSH\r\n", .malformedResponse),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
            .malformedResponse
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", .responseTooLarge),
        ("HTTP/1.1 200 OK\r\n\r\n\(String(repeating: "a", count: 2000))", .responseTooLarge),
        (
            "HTTP/1.1 200 OK\r\nA: \(String(repeating: "a", count: 40_000))\r\n\r\n",
            .responseTooLarge
        ),
    ]

    @Test(arguments: broken)
    func client_onABrokenResponse_saysThatTheRequestMayHaveArrived(
        text: String, code: HTTPClientError.Code
    ) async throws {
        let server = try ScriptedServer([[.answer(text)]])

        let error = try await failure(client(server.port) { $0.responseBytesMax = 1000 })

        #expect(error.code == code)
        #expect(error.requestMayHaveArrived)
    }

    /// Whoever asks for the status alone has it with the head, whatever becomes of the body; the next request has a connection
    /// of its own. What has no whole head has no status.
    @Test(arguments: broken)
    func client_thatNeedsNoBody_takesTheStatusOfABrokenResponse(
        text: String, code: HTTPClientError.Code
    ) async throws {
        let good = "HTTP/1.1 204 No Content\r\n\r\n"
        let server = try ScriptedServer([[.answer(text)], [.answer(good)]])
        let client = try client(server.port) {
            $0.responseBytesMax = 1000
            $0.isBodyNeeded = false
        }
        let isHeadWhole =
            text.contains("\r\n\r\n") && code != .malformedResponse && text.utf8.count < 30_000

        if isHeadWhole {
            #expect(try await client.send(Self.get).status == 200)
        } else {
            #expect(try await failure(client).code == code)
        }
        #expect(try await client.send(Self.get).status == 204)
    }

    @Test func client_thatNeedsNoBody_doesNotFailWhereItIsLate() async throws {
        let server = try ScriptedServer([
            [.answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"), .silence]
        ])
        defer { server.stop() }
        let client = try client(server.port) {
            $0.requestDeadline = .seconds(2)
            $0.isBodyNeeded = false
        }

        #expect(try await client.send(Self.get).status == 200)
    }

    @Test func client_withoutAnAnswer_timesOut() async throws {
        let server = try ScriptedServer([[.silence], [.silence], [.silence]])
        defer { server.stop() }

        for deadline in [Duration.milliseconds(100), .seconds(1), .seconds(10)] {
            let error = try await failure(client(server.port) { $0.requestDeadline = deadline })

            #expect(error.code == .timedOut)
            if error.requestMayHaveArrived { return }
            // The machine stood still until the deadline, and nothing was sent.
            #expect(server.requests == 0)
        }
        Issue.record("no request was said to have been sent")
    }

    /// What never ends: bounded by the deadline, or by a size before it.
    static let endless: [(String, String, [HTTPClientError.Code])] = [
        ("HTTP/1.1 200 O", "K", [.timedOut]),
        ("HTTP/1.1 200 OK\r\nA: ", "a", [.timedOut]),
        ("HTTP/1.1 400 No\r\nContent-Length: 900\r\n\r\n{", " ", [.timedOut]),
        ("HTTP/1.1 400 No\r\n\r\n", "{", [.timedOut]),
        ("HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n1;", "a", [.timedOut]),
        (
            "HTTP/1.1 200 OK\r\n\r\n", String(repeating: "a", count: 10_000),
            [.responseTooLarge]
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            String(repeating: "1\r\na\r\n", count: 100), [.responseTooLarge]
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            "A: b\r\n", [.responseTooLarge]
        ),
        ("HTTP/1.1 200 OK\r\n", "A: b\r\n", [.responseTooLarge]),
        ("", "HTTP/1.1 100 Continue\r\n\r\n", [.malformedResponse]),
        ("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", [.malformedResponse]),
        ("", "\r\n", [.malformedResponse]),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "a", [.malformedResponse]),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9000000000000\r\n\r\n", "a",
            [.responseTooLarge]
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n", "a",
            [.malformedResponse, .responseTooLarge]
        ),
    ]

    @Test(arguments: endless)
    func client_onAnAnswerWithoutEnd_givesUp_andGoesAway(
        start: String, rest: String, codes: [HTTPClientError.Code]
    ) async throws {
        for deadline in [Duration.milliseconds(300), .seconds(2), .seconds(15)] {
            let server = try ScriptedServer([[.endless(start, then: rest)], [.answer(Self.ok)]])
            let client = try client(server.port) {
                $0.requestDeadline = deadline
                $0.responseBytesMax = 50_000
            }

            let error = try await failure(client)

            // A machine that stands still until the deadline has sent nothing, or not read enough.
            let isTooLate = error.code == .timedOut && !codes.contains(.timedOut)
            if error.requestMayHaveArrived && !isTooLate {
                #expect(codes.contains(error.code), "\(error)")
                // The connection is not used again: what it may still say is no answer to anybody else.
                try await eventually { server.closedConnections == 1 }
                #expect(try await client.send(Self.get).body == Array("ok".utf8))
                return
            }
        }
        Issue.record("no request was said to have been sent")
    }

    /// Where bytes are always there no read ever waits.
    @Test func client_onBytesThatNeverStop_keepsItsDeadline() async throws {
        let chunks = String(repeating: "1\r\na\r\n", count: 1000)
        let server = try ScriptedServer([
            [.endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", then: chunks)]
        ])

        let error = try await failure(
            client(server.port) {
                $0.requestDeadline = .seconds(1)
                $0.responseBytesMax = 20_000_000
            })

        #expect(error.code == .timedOut)
        try await eventually { server.closedConnections == 1 }
    }

    /// An answer to nothing, with the answer to something or after it.
    @Test(arguments: [true, false])
    func client_onASecondAnswer_givesItToNobody(isTogether: Bool) async throws {
        let stray = "HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\nno"
        let first: ScriptedServer.Step =
            isTogether
            ? .answer(Self.ok + stray) : .endless(Self.ok, then: String(repeating: stray, count: 2))
        let server = try ScriptedServer([[first], [.answer(Self.ok)]])
        let client = try client(server.port)

        let one = try await client.send(Self.get)
        // It lies in the socket before the next request.
        try await eventually { isTogether || server.repetitions > 0 }
        let next = try await client.send(Self.get)

        #expect(one.status == 200 && next.status == 200)
        #expect(server.connections == 2)
    }

    /// Who must leave soon waits no longer than that for a connection.
    @Test func client_whenNoConnectionBecomesFreeInTimeToLeave_givesUpThen() async throws {
        let client = try client(1) { $0.connectionsMax = 0 }

        let started = ContinuousClock.now
        let error = await #expect(throws: HTTPClientError.self) {
            try await client.send(Self.get, leavingBefore: .now + .milliseconds(20))
        }

        #expect(error?.requestMayHaveArrived == false)
        #expect(ContinuousClock.now - started < HTTPClientLimits().requestDeadline / 2)
    }

    @Test func client_whenNoConnectionBecomesFree_timesOutUnsent() async throws {
        let client = try client(1) {
            $0.connectionsMax = 0
            $0.requestDeadline = .milliseconds(20)
        }

        let error = try await failure(client)

        #expect(error.code == .timedOut)
        #expect(!error.requestMayHaveArrived)
    }

    /// Where connecting takes longer than a request may wait to leave, those that follow find the connection open.
    @Test func client_whenItsTimeToLeaveIsOver_sendsNothing_andKeepsTheConnectionForTheNext()
        async throws
    {
        let server = try ScriptedServer([[.answer(Self.ok)]])
        let client = try client(server.port)

        let error = await #expect(throws: HTTPClientError.self) {
            try await client.send(HTTPRequest(method: "POST", target: "/"), leavingBefore: .now)
        }
        let next = try await client.send(Self.get)

        #expect(error?.code == .notSent)
        #expect(error?.requestMayHaveArrived == false)
        #expect(next.status == 200)
        #expect(server.connections == 1 && server.requests == 1)
        server.stop()
    }

    @Test func client_whenCancelled_returnsAtOnce() async throws {
        let server = try ScriptedServer([[.silence]])
        let client = try client(server.port)
        let sending = Task { try await failure(client) }
        try await eventually { server.connections > 0 }

        sending.cancel()

        let error = try await sending.value
        #expect(error.code == .cancelled)
        server.stop()
    }

    @Test func client_whenNobodyListens_cannotConnect() async throws {
        let port = try Listener(host: "127.0.0.1", port: 0).port

        let error = try await failure(client(port))

        #expect(error.code == .cannotConnect)
        #expect(!error.requestMayHaveArrived)
    }

    @Test func client_whenClosed_sendsNothing() async throws {
        let client = try client(1)

        client.close()

        #expect(try await failure(client).code == .closed)
    }

    @Test func client_with2MegabytesTooMany_readsThe413() async throws {
        try await withServer { _, port in
            let body = [UInt8](repeating: 0x61, count: 2_097_152)
            let request = HTTPRequest(method: "POST", target: "/", body: body)

            let response = try await self.client(port).send(request)

            #expect(response.status == 413)
        }
    }

    @Test func client_onHead_doesNotWaitForABody() async throws {
        try await withServer { _, port in
            let client = try self.client(port)

            let head = try await client.send(HTTPRequest(method: "HEAD", target: "/"))
            let next = try await client.send(Self.get)

            #expect(head.headers["Content-Length"] == "8" && head.body.isEmpty)
            #expect(next.status == 200)
        }
    }
}
