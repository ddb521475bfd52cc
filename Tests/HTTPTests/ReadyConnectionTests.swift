import ServiceKit
import TestSupport
import Testing

@testable import HTTP

/// A request that must leave at its instant finds its connection open.
@Suite struct ReadyConnectionTests {
    private static let get = HTTPRequest(method: "GET", target: "/a")
    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    private func client(_ port: Int, connections: Int = 8) throws -> HTTPClient {
        var limits = HTTPClientLimits()
        limits.connectionsMax = connections
        return try HTTPClient(baseURL: "http://127.0.0.1:\(port)", limits: limits)
    }

    @Test func work_beginsWithAnOpenConnection_andItsFirstRequestUsesIt() async throws {
        // It says that it closes each connection after one answer. Otherwise the second request may meet the end of the first.
        let closing = Self.ok.replacing("OK\r\n", with: "OK\r\nConnection: close\r\n")
        let server = try ScriptedServer([[.answer(closing)], [.answer(closing)]])
        let client = try client(server.port)

        let (opened, statuses) = await client.whileReady {
            let isOpen = (try? await eventually { server.connections == 1 }) != nil
            var statuses: [Int] = []
            for _ in 0..<2 {
                statuses.append((try? await client.send(Self.get))?.status ?? 0)
            }
            return (isOpen, statuses)
        }

        #expect(opened)
        // The second request has a connection of its own.
        #expect(statuses == [200, 200])
        #expect(server.connections == 2 && server.requests == 2)
        server.stop()
    }

    /// However many wait at once for their turn, none of their requests opens a connection then.
    @Test func waitingWork_holdsAConnectionEach() async throws {
        try await withServer { server, port in
            let client = try self.client(port)
            let gate = AsyncStream.makeStream(of: Void.self)
            let waiting = AsyncStream.makeStream(of: Void.self)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<5 {
                    group.addTask {
                        await client.whileReady {
                            waiting.continuation.yield()
                            for await _ in gate.stream { break }
                            _ = try? await client.send(Self.get)
                        }
                    }
                }
                var ready = waiting.stream.makeAsyncIterator()
                for _ in 0..<5 { await ready.next() }
                try await eventually { server.connectionCount == 5 }
                for _ in 0..<5 { gate.continuation.yield() }
                gate.continuation.finish()
            }
            #expect(server.connectionCount == 5)
            client.close()
        }
    }

    @Test func connectionThatWasNotUsed_isGivenBack() async throws {
        let server = try ScriptedServer([[.answer(Self.ok)]])
        let client = try client(server.port, connections: 1)

        await client.whileReady {}
        let response = try await client.send(Self.get)

        #expect(response.status == 200)
        #expect(server.connections == 1)
        server.stop()
    }

    @Test func work_whereNoConnectionIsFree_isDoneAllTheSame() async throws {
        let server = try ScriptedServer([[.answer(Self.ok)]])
        let client = try client(server.port, connections: 1)

        let done = await client.whileReady {
            await client.whileReady { true }
        }

        #expect(done)
        server.stop()
    }

    /// One client's connection is not for another host.
    @Test func requestToAnotherHost_hasItsOwnConnection() async throws {
        let server = try ScriptedServer([[.answer(Self.ok)]])
        let other = try ScriptedServer([[.answer(Self.ok)]])
        let (one, two) = (try client(server.port), try client(other.port))

        let response = await one.whileReady { try? await two.send(Self.get) }

        #expect(response?.status == 200)
        #expect(other.requests == 1 && server.requests == 0)
        server.stop()
        other.stop()
    }
}
