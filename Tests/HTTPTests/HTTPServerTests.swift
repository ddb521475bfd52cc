import Foundation
import Glibc
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import HTTP

@Suite struct HTTPServerTests {
    static let get = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
    static let last = "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

    private func statuses(_ text: String) -> [String] {
        text.components(separatedBy: "HTTP/1.1 ").dropFirst().map { String($0.prefix(3)) }
    }

    @Test func server_withPipelinedRequests_answersInOrder() async throws {
        try await withServer { _, port in
            let client = try RawClient(port: port)
            try client.send(
                Self.get + "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
            try client.send(Self.last)

            let text = try client.readToEnd()

            #expect(statuses(text) == ["200", "200", "200"])
            let bodies = ["GET /x 0", "POST /p 3", "GET /last 0"]
            #expect(bodies.allSatisfy(text.contains))
        }
    }

    @Test func server_withAByteAtATime_answers() async throws {
        try await withServer { _, port in
            let client = try RawClient(port: port)
            for byte in Self.last.utf8 { try client.send([byte]) }

            #expect(statuses(try client.readToEnd()) == ["200"])
        }
    }

    static let refused: [(String, String)] = [
        ("\u{16}\u{3}\u{1}garbage", "400"), ("HELLO\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\n\r\n", "400"), ("BR(W / HTTP/1.1\r\nHost: h\r\n\r\n", "400"),
        ("GET / HTTP/3.0\r\nHost: h\r\n\r\n", "400"),
        ("GET /\(String(repeating: "a", count: 20_000)) HTTP/1.1\r\n", "414"),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: \(String(repeating: "a", count: 20_000))\r\n\r\n", "431"),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "400"),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "400"
        ),
    ]

    @Test(arguments: refused)
    func server_onABadRequest_saysWhyCountsItAndCloses(text: String, status: String) async throws {
        let metrics = Metrics()
        try await withServer(metrics: metrics) { _, port in
            let client = try RawClient(port: port)
            try client.send(text + Self.get)
            client.endOutput()

            #expect(statuses(try client.readToEnd()) == [status])
        }
        #expect(refusals(in: metrics) == ["\(status) 1"])
    }

    @Test func server_onABodyOfTwoMegabytes_is413WithoutAReset() async throws {
        try await withServer { _, port in
            let client = try RawClient(port: port)
            try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2097152\r\n\r\n")
            try client.send([UInt8](repeating: 0x61, count: 2_097_152))

            #expect(statuses(try client.readToEnd()) == ["413"])
        }
    }

    @Test func server_onATooLargeChunkedBody_is413() async throws {
        try await withServer { _, port in
            let client = try RawClient(port: port)
            try client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
            let chunk = Array("10000\r\n".utf8) + [UInt8](repeating: 0x61, count: 65_536)
            for _ in 0..<20 { try client.send(chunk + Array("\r\n".utf8)) }

            #expect(statuses(try client.readToEnd()) == ["413"])
        }
    }

    @Test func server_whenTheClientExpectsIt_saysContinueFirst() async throws {
        try await withServer { _, port in
            let client = try RawClient(port: port)
            try client.send(
                "POST /e HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n"
                    + "Connection: close\r\n\r\n")
            let interim = try client.read(until: "\r\n\r\n")
            try client.send("abc")

            #expect(interim == "HTTP/1.1 100 Continue\r\n\r\n")
            #expect(try client.readToEnd().hasSuffix("POST /e 3"))
        }
    }

    @Test func server_whenTheExpectedBodyIsTooLarge_refusesAtOnce() async throws {
        try await withServer { _, port in
            let client = try RawClient(port: port)
            try client.send(
                "POST /e HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n"
                    + "Expect: 100-continue\r\n\r\n")
            client.endOutput()

            #expect(statuses(try client.readToEnd()) == ["413"])
        }
    }

    @Test func server_whenBytesOnlyTrickle_endsTheRequestAtItsDeadline() async throws {
        let answer = try await answerToTrickle(after: "GET / HTTP/1.1\r\nA: ")

        #expect(statuses(answer) == ["408"])
    }

    @Test func server_whenNothingComes_closesSilently() async throws {
        var limits = HTTPServerLimits.quick
        limits.idleTimeout = .milliseconds(20)
        let server = try HTTPServer(
            host: "127.0.0.1", port: 0, limits: limits, log: .silent
        ) { _ in .text(200, "") }
        let port = try server.bind()
        let answer = try await onOwnThread {
            // Sent before the server looks: its patience is shorter than the pauses of a busy machine.
            let client = try RawClient(port: port)
            try client.send(Self.get)
            let running = Task { try await server.run() }
            defer { running.cancel() }
            return try client.readToEnd()
        }

        #expect(statuses(answer) == ["200"])
    }

    @Test func server_whenFull_closesTheIdleConnectionForTheNewOne() async throws {
        var limits = HTTPServerLimits.quick
        limits.connectionsMax = 1
        limits.freshFor = .zero
        try await withServer(limits: limits) { server, port in
            let first = try RawClient(port: port)
            try first.send(Self.get)
            _ = try first.read(until: "GET /x 0")

            let second = try RawClient(port: port)
            try second.send(Self.last)

            #expect(try second.readToEnd().hasSuffix("GET /last 0"))
            #expect(try first.readToEnd() == "")
        }
    }

    /// Strangers connect as fast as they like; the log has a line for the beginning and one for the end.
    @Test(arguments: ["files", "threads"])
    func server_thatIsShortOfSomethingForATime_saysSoOnceAndServesAgain(
        _ shortage: String
    ) async throws {
        let lines = Mutex<[String]>([])
        let log = Log(component: "http", level: .notice) { line in
            lines.withLock { $0.append(line) }
        }
        let left = Mutex(5)
        @Sendable func isShort() -> Bool {
            left.withLock { left in
                left -= 1
                return left >= 0
            }
        }
        var system = HTTPServer.System()
        if shortage == "files" {
            system.accept = { descriptor in
                guard isShort() else { return Glibc.accept(descriptor, nil, nil) }
                errno = EMFILE
                return -1
            }
        } else {
            system.thread = { isShort() ? nil : ThreadExecutor.started(name: $0) }
        }
        var limits = HTTPServerLimits.quick
        limits.quietFor = .zero
        let server = try HTTPServer(
            host: "127.0.0.1", port: 0, limits: limits, system: system, log: log
        ) { _ in .text(200, "ok") }
        let port = try server.bind()
        let running = Task { try await server.run() }

        let answer = try await onOwnThread {
            // Without a thread a connection is closed at once.
            for _ in 0..<20 {
                let client = try RawClient(port: port)
                // One that is closed already can't be written to.
                try? client.send(Self.last)
                let text = (try? client.readToEnd()) ?? ""
                if !text.isEmpty { return text }
            }
            return ""
        }
        running.cancel()
        try await running.value

        #expect(statuses(answer) == ["200"])
        let (failure, recovery) =
            shortage == "files"
            ? ("cannot accept; trying again", "connections are accepted again")
            : ("no thread for a connection", "connections have threads again")
        let said = lines.withLock { $0 }
        #expect(said.count == 2, "\(said)")
        #expect(
            said.first?.contains(failure) == true && said.first?.contains("level=error") == true)
        #expect(said.last?.contains(recovery) == true && said.last?.contains("failures=5") == true)
    }

    @Test func server_withBlockingHandlers_servesThemAllAtOnce() async throws {
        let counter = Counter()
        try await withServer(handler: { _ in counter.arriveAndWait(for: 6) }) { _, port in
            let clients = try (0..<6).map { _ in try RawClient(port: port) }
            for client in clients { try client.send(Self.last) }

            for client in clients { #expect(statuses(try client.readToEnd()) == ["200"]) }
        }
    }

    @Test func server_whenStopped_finishesWhatRunsAndRefusesTheRest() async throws {
        let (started, mayEnd) = (Gate(), Gate())
        let server = try HTTPServer(
            host: "127.0.0.1", port: 0, limits: .quick, log: .silent
        ) { _ in
            started.open()
            await mayEnd.wait()
            return .text(200, Task.isCancelled ? "cancelled" : "finished")
        }
        let port = try server.bind()
        let running = Task { try await server.run() }
        let answer = Task {
            try await onOwnThread {
                let idle = try RawClient(port: port)
                let client = try RawClient(port: port)
                try client.send(Self.get)
                let text = try client.readToEnd()
                return (text, try idle.readToEnd())
            }
        }
        await started.wait()

        running.cancel()
        mayEnd.open()
        try await running.value

        let (text, idle) = try await answer.value
        #expect(text.hasSuffix("finished"))
        #expect(text.contains("Connection: close"))
        #expect(idle.isEmpty)
        #expect(throws: StreamError.self) { try RawClient(port: port) }
        #expect(server.connectionCount == 0)
    }

    @Test func server_onATakenPort_saysSo() throws {
        let taken = try Listener(host: "127.0.0.1", port: 0)
        let server = try HTTPServer(host: "127.0.0.1", port: taken.port, log: .silent) { _ in
            .text(200, "")
        }

        let error = #expect(throws: HTTPServerError.self) { try server.bind() }

        #expect(error?.code == .cannotBind)
        #expect(error?.description.contains(":\(taken.port)") == true)
    }

    @Test func server_withABrokenIdentity_isNotMade() {
        let identity = ServerIdentity(certificateChainPEM: "no", privateKeyPEM: "no")

        let error = #expect(throws: HTTPServerError.self) {
            try HTTPServer(host: "127.0.0.1", port: 0, tls: identity, log: .silent) { _ in
                .text(200, "")
            }
        }

        #expect(error?.code == .badIdentity)
    }

    @Test func server_onHead_sendsNoBody() async throws {
        try await withServer { _, port in
            let client = try RawClient(port: port)
            try client.send("HEAD /h HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")

            let text = try client.readToEnd()

            #expect(text.contains("Content-Length: 9\r\n"))
            #expect(text.hasSuffix("\r\n\r\n"))
        }
    }
}

/// Blocks its callers until enough of them have come.
private final class Counter: Sendable {
    private let condition = NSCondition()
    private let count = Mutex(0)

    func arriveAndWait(for total: Int) -> HTTPResponse {
        condition.lock()
        defer { condition.unlock() }
        count.withLock { $0 += 1 }
        condition.broadcast()
        let limit = Date(timeIntervalSinceNow: 60)
        while count.withLock({ $0 }) < total {
            guard condition.wait(until: limit) else { return .text(500, "alone") }
        }
        return .text(200, "together")
    }
}
