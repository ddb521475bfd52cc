import Glibc
import ServiceKit
import TestSupport
import Testing

@testable import HTTP

/// What clients that are slow, silent or many may not do to the others.
@Suite struct CrowdTests {
    private static let get = "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

    private func isServed(_ port: Int, from source: String = "127.0.0.1") throws -> Bool {
        let client = try RawClient(port: port, from: source)
        try client.send(
            "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
        return try client.readToEnd().hasSuffix("POST /p 3")
    }

    private static func limits(_ connectionsMax: Int) -> HTTPServerLimits {
        var limits = HTTPServerLimits.quick
        limits.connectionsMax = connectionsMax
        limits.freshFor = .zero
        return limits
    }

    @Test func server_when600ConnectionsAreHeldOpen_servesAnotherSender() async throws {
        Self.allowManyDescriptors()
        try await withServer { server, port in
            let idle = try (0..<600).map { _ in try RawClient(port: port) }

            for _ in 0..<20 { #expect(try isServed(port)) }

            #expect(server.connectionCount <= 512 + 64)
            #expect(try idle[0].readToEnd() == "", "the oldest made room")
            #expect(!idle[599].hasAnswer(within: .zero), "the newest stays")
        }
    }

    /// Both ends are ours, and 1024 is what many a shell allows.
    private static func allowManyDescriptors() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = min(limit.rlim_max, max(limit.rlim_cur, 4096))
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    /// The address of one sender that keeps every place busy that it gets.
    private static let greedy = "127.0.0.2"

    @Test func server_when560BusyConnectionsComeFromOneAddress_servesEveryPostOfAnother()
        async throws
    {
        Self.allowManyDescriptors()
        let (busy, mayEnd) = (Arrivals(), Gate())
        try await withServer(handler: { request in
            guard request.path == "/busy" else { return .text(200, "POST /p 3") }
            busy.add()
            await mayEnd.wait()
            return .text(200, "done")
        }) { server, port in
            defer { mayEnd.open() }
            let crowd = try (0..<560).map { _ in try RawClient(port: port, from: Self.greedy) }
            for client in crowd {
                // One that was refused may be closed by now.
                try? client.send("GET /busy HTTP/1.1\r\nHost: h\r\n\r\n")
            }
            try await eventually { busy.count >= 128 }

            let served = try (3..<43).map {
                try isServed(port, from: "127.0.0.\($0)")
            }

            #expect(served.allSatisfy { $0 })
            #expect(busy.count == 128)
        }
    }

    @Test(arguments: [("127.0.0.1", []), (greedy, [AddressRange.all])])
    func server_whenBusyConnectionsAreAProxys_countsThemAgainstNoShare(
        _ source: String, _ proxies: [AddressRange]
    ) async throws {
        var limits = Self.limits(8)
        limits.proxies += proxies
        let (busy, mayEnd) = (Arrivals(), Gate())
        try await withServer(
            limits: limits,
            handler: { _ in
                busy.add()
                await mayEnd.wait()
                return .text(200, "done")
            }
        ) { _, port in
            defer { mayEnd.open() }
            let crowd = try (0..<8).map { _ in try RawClient(port: port, from: source) }
            for client in crowd { try client.send(Self.get) }
            try await eventually { busy.count >= 8 }

            mayEnd.open()
            for client in crowd { #expect(try client.readToEnd().hasSuffix("done")) }
        }
    }

    @Test func server_whenAnAddressHasItsShare_answers503AndSaysWho() async throws {
        let (busy, mayEnd) = (Arrivals(), Gate())
        try await withServer(
            limits: Self.limits(8),
            handler: { _ in
                busy.add()
                await mayEnd.wait()
                return .text(200, "done")
            }
        ) { _, port in
            defer { mayEnd.open() }
            let crowd = try (0..<2).map { _ in try RawClient(port: port, from: Self.greedy) }
            for client in crowd { try client.send(Self.get) }
            try await eventually { busy.count >= 2 }

            let refusal = try RawClient(port: port, from: Self.greedy).readToEnd()

            mayEnd.open()
            #expect(refusal.hasPrefix("HTTP/1.1 503 "))
            #expect(refusal.contains("Retry-After: 1\r\n"))
            for client in crowd { #expect(try client.readToEnd().hasSuffix("done")) }
        }
    }

    static let slow = [
        "GET / HTTP/1.1\r\nHost: h\r\nA: ",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ]

    @Test(arguments: slow)
    func server_whenSlowRequestsTakeEveryPlace_servesAnotherSender(start: String) async throws {
        try await withServer(limits: Self.limits(4)) { _, port in
            let slow = try (0..<4).map { _ in try RawClient(port: port) }
            for client in slow { try client.send(start) }
            // Until one of the four has been read, none of them is known to be slow.
            while try !isServed(port) {}

            let evicted = try #require(firstAnswered(slow))
            #expect(try evicted.readToEnd().hasPrefix("HTTP/1.1 408 "))
        }
    }

    /// Until `freshFor` is over none of the four counts as slow, and the newcomer is not turned away for that.
    @Test func server_whenSlowRequestsHaveJustTakenEveryPlace_servesTheNextSender() async throws {
        var limits = Self.limits(4)
        limits.freshFor = .milliseconds(100)
        try await withServer(limits: limits) { _, port in
            let slow = try (0..<4).map { _ in try RawClient(port: port) }
            for client in slow { try client.send(Self.slow[1]) }

            #expect(try isServed(port))
            #expect(firstAnswered(slow) != nil)
        }
    }

    private func firstAnswered(_ clients: [RawClient]) -> RawClient? {
        for _ in 0..<2000 {
            if let answered = clients.first(where: { $0.hasAnswer(within: .milliseconds(2)) }) {
                return answered
            }
        }
        return nil
    }

    @Test func server_whenSlowReadersTakeEveryPlace_servesAnotherSender() async throws {
        let large = HTTPResponse(status: 200, body: [UInt8](repeating: 0x61, count: 64 << 20))
        let reading = Arrivals()
        try await withServer(
            limits: Self.limits(2),
            handler: { request in
                guard request.path == "/large" else { return .text(200, "POST /p 3") }
                reading.add()
                return large
            }
        ) { _, port in
            let slow = try (0..<2).map { _ in try RawClient(port: port) }
            for client in slow {
                try client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
                _ = try client.read(until: "aaa")
            }

            #expect(reading.count == 2)
            #expect(try isServed(port))
        }
    }

    @Test func server_whenKeptConnectionsTakeEveryPlace_closesOneOfThem() async throws {
        try await withServer(limits: Self.limits(2)) { _, port in
            let kept = try (0..<2).map { _ in try RawClient(port: port) }
            for client in kept {
                try client.send("GET /k HTTP/1.1\r\nHost: h\r\n\r\n")
                _ = try client.read(until: "GET /k 0")
            }

            let newcomer = try RawClient(port: port)
            try newcomer.send(Self.get)
            let served = try newcomer.readToEnd()

            #expect(served.hasSuffix("GET /x 0"))
            let closed = try #require(firstAnswered(kept))
            #expect(try closed.readToEnd() == "")
        }
    }

    @Test func server_whenEveryPlaceIsBusy_answers503CountsItAndServesOn() async throws {
        let (started, mayEnd) = (Gate(), Gate())
        let metrics = Metrics()
        try await withServer(
            limits: Self.limits(1), metrics: metrics,
            handler: { _ in
                started.open()
                await mayEnd.wait()
                return .text(200, "done")
            }
        ) { _, port in
            let first = try RawClient(port: port)
            try first.send(Self.get)
            await started.wait()

            let refusal = try RawClient(port: port).readToEnd()
            mayEnd.open()

            #expect(refusal.hasPrefix("HTTP/1.1 503 "))
            #expect(refusal.contains("Retry-After: 1\r\n"))
            #expect(try first.readToEnd().hasSuffix("done"))
        }
        #expect(refusals(in: metrics) == ["503 1"])
    }

    @Test func server_whenABodyTrickles_endsTheRequestAtItsDeadline() async throws {
        let answer = try await answerToTrickle(
            after: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n")

        #expect(answer.hasPrefix("HTTP/1.1 408 "))
    }

    @Test func server_whenAnAnswerIsNotRead_closesAtItsDeadline() async throws {
        var limits = HTTPServerLimits.quick
        limits.requestDeadline = .milliseconds(50)
        limits.drainTimeout = .seconds(1)
        let large = HTTPResponse(status: 200, body: [UInt8](repeating: 0x61, count: 64 << 20))
        try await withServer(limits: limits, handler: { _ in large }) { server, port in
            let client = try RawClient(port: port)
            try client.send(Self.get)
            let limit = Deadline.now + .seconds(30)
            _ = client.hasAnswer(within: .seconds(30))
            while server.connectionCount > 0 && Deadline.now < limit {
                _ = SocketStream.wait(
                    for: -1, events: 0, until: .now + .milliseconds(5), stop: nil)
            }

            #expect(server.connectionCount == 0)
            #expect(try client.readToEnd().utf8.count < 64 << 20)
        }
    }
}

/// Stopping: what was accepted is finished.
@Suite struct StopTests {
    /// Stops a server while its first request runs; returns what the client read.
    private func answers(
        limits: HTTPServerLimits = .quick, _ sent: String...
    ) async throws -> String {
        let (started, mayEnd) = (Gate(), Gate())
        let server = try HTTPServer(
            host: "127.0.0.1", port: 0, limits: limits, log: .silent
        ) { request in
            started.open()
            await mayEnd.wait()
            return .text(200, "<\(request.path)>")
        }
        let port = try server.bind()
        let running = Task { try await server.run() }
        let answer = Task {
            try await onOwnThread {
                let client = try RawClient(port: port)
                for text in sent { try client.send(text) }
                return try client.readToEnd()
            }
        }
        await started.wait()

        running.cancel()
        mayEnd.open()
        try await running.value
        #expect(server.connectionCount == 0)
        return try await answer.value
    }

    private static func get(_ path: String) -> String { "GET \(path) HTTP/1.1\r\nHost: h\r\n\r\n" }

    @Test func stop_withPipelinedRequests_answersThoseThatHaveArrived() async throws {
        let text = try await answers(Self.get("/a") + Self.get("/b") + Self.get("/c") + "GET /d")

        #expect(["</a>", "</b>", "</c>"].allSatisfy(text.contains))
        #expect(!text.contains("/d"))
        #expect(text.components(separatedBy: "Connection: close").count == 2, "only the last")
        #expect(text.components(separatedBy: "Connection: close").last?.hasSuffix("</c>") == true)
    }

    @Test func stop_withABadPipelinedRequest_refusesIt() async throws {
        let text = try await answers(Self.get("/a") + "GET /b HTTP/1.1\r\n\r\n")

        #expect(text.contains("</a>"))
        #expect(text.contains("HTTP/1.1 400 "))
    }

    @Test func stop_whileRequestsOnlyTrickle_endsAfterItsGrace() async throws {
        var limits = HTTPServerLimits.quick
        limits.stopGrace = .milliseconds(50)
        let server = try HTTPServer(
            host: "127.0.0.1", port: 0, limits: limits, log: .silent
        ) { _ in .text(200, "") }
        let port = try server.bind()
        let running = Task { try await server.run() }
        let text = try await onOwnThread {
            let client = try RawClient(port: port)
            try client.send(
                Self.get("/a") + "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n"
                    + "Expect: 100-continue\r\n\r\n")
            // The server says so once the second request is under way: from then on it is worth an answer.
            _ = try client.read(until: "100 Continue\r\n\r\n")
            try client.send("abc")
            running.cancel()
            let text = try client.readToEnd()
            try await running.value
            return text
        }

        #expect(text.hasPrefix("HTTP/1.1 408 "))
    }
}
