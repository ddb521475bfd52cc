import Foundation
import ServiceKit
import Synchronization
import TestSupport

@testable import HTTP

/// Runs a server while `body` talks to it, then stops it and waits until it has drained.
///
/// The body may block: it has a thread of its own, as Swift's shared pool must stay free.
func withServer(
    tls: ServerIdentity? = nil, limits: HTTPServerLimits = .quick, metrics: Metrics = Metrics(),
    handler: @escaping HTTPServer.Handler = {
        .text(200, "\($0.method) \($0.target) \($0.body.count)")
    },
    _ body: @Sendable @escaping (_ server: HTTPServer, _ port: Int) async throws -> Void
) async throws {
    let server = try HTTPServer(
        host: "127.0.0.1", port: 0, tls: tls, limits: limits, log: .silent,
        refused: HTTPServer.refusals(of: "test", in: metrics), handler: handler)
    let port = try server.bind()
    let running = Task { try await server.run() }
    let result: Result<Void, any Error>
    do {
        result = .success(try await onOwnThread { try await body(server, port) })
    } catch {
        result = .failure(error)
    }
    running.cancel()
    try await running.value
    try result.get()
}

/// What the server answered by itself, of any status: `status count`.
func refusals(in metrics: Metrics) -> [String] {
    metrics.render().split(separator: "\n").compactMap { line in
        guard line.hasPrefix("repricer_http_refusals_total{port=\"test\""), !line.hasSuffix(" 0")
        else { return nil }
        return line.split(separator: "\"").suffix(2).joined().replacing("}", with: "")
    }
}

extension HTTPServerLimits {
    /// Generous enough for a busy machine, quick where a test must see the limit.
    static var quick: HTTPServerLimits {
        var limits = HTTPServerLimits()
        limits.requestDeadline = .seconds(60)
        limits.drainTimeout = .seconds(60)
        limits.stopGrace = .seconds(60)
        return limits
    }
}

/// What a server says to a request that begins so and then only trickles, until its deadline and beyond.
///
/// A process that stands still meanwhile sends nothing before the deadline: then it is a longer one's turn.
func answerToTrickle(after start: String) async throws -> String {
    for deadline in [Duration.milliseconds(100), .seconds(1), .seconds(8)] {
        var limits = HTTPServerLimits.quick
        limits.requestDeadline = deadline
        let seen = Mutex((bytes: 0, answer: ""))
        try await withServer(limits: limits) { _, port in
            let client = try RawClient(port: port)
            try client.send(start)
            var bytes = 0
            while !client.hasAnswer(within: .milliseconds(5)) && bytes < 4000 {
                try client.send("a")
                bytes += 1
            }
            client.endOutput()
            let answer = try client.readToEnd()
            seen.withLock { [bytes] in $0 = (bytes, answer) }
        }
        let (bytes, answer) = seen.withLock { $0 }
        if bytes > 1 { return answer }
    }
    throw StreamError.lost("nothing trickled before the deadline")
}

/// A client that sends what it likes.
final class RawClient {
    private let stream: SocketStream
    private let deadline = Deadline.now + .seconds(60)

    /// `source` is an address of this machine; all of 127.0.0.0/8 are.
    init(port: Int, from source: String = "127.0.0.1") throws {
        let addresses = AddressList(host: "127.0.0.1", port: port, isPassive: false)
        guard let address = addresses.entries.first else { throw StreamError.lost("no address") }
        let descriptor = address.openSocket()
        stream = SocketStream(descriptor: descriptor)
        guard
            AddressList(host: source, port: 0, isPassive: false).entries.first?.bind(descriptor)
                == 0
        else { throw StreamError.lost("cannot bind to \(source)") }
        let code = stream.connect(to: address, until: deadline)
        guard code == 0 else { throw StreamError.lost(String(cString: strerror(code))) }
    }

    func send(_ text: String) throws {
        try stream.write(Array(text.utf8), until: deadline)
    }

    func send(_ bytes: [UInt8]) throws {
        try stream.write(bytes, until: deadline)
    }

    func endOutput() {
        stream.endOutput()
    }

    /// Whether an answer or the end comes within a few milliseconds.
    func hasAnswer(within time: Duration) -> Bool {
        stream.waitReadable(until: .now + time) == .ready
    }

    /// Everything up to the end of the connection.
    func readToEnd() throws -> String {
        var all: [UInt8] = []
        while true {
            let bytes = try stream.read(until: deadline)
            guard !bytes.isEmpty else { return String(decoding: all, as: UTF8.self) }
            all += bytes
        }
    }

    /// Everything until the text has come.
    func read(until mark: String) throws -> String {
        var all = ""
        while !all.contains(mark) {
            let bytes = try stream.read(until: deadline)
            guard !bytes.isEmpty else { throw StreamError.lost("ended before \(mark): \(all)") }
            all += String(decoding: bytes, as: UTF8.self)
        }
        return all
    }
}

/// A server that answers each connection by a script: what to send after each request head.
final class ScriptedServer: Sendable {
    enum Step: Sendable {
        /// Waits for a whole request, then sends this.
        case answer(String)
        /// Waits for a whole request, then for the client to go away.
        case silence
        /// Waits for a whole request, sends the first text, and then the second one again and again, until the client goes
        /// away.
        case endless(String, then: String)
    }

    let port: Int
    private let listener: Listener
    private let accepted = Mutex(0)
    private let finished = Mutex(0)
    private let asked = Mutex(0)
    private let repeated = Mutex(0)

    /// How often the second text of an `endless` step has been sent.
    var repetitions: Int { repeated.withLock { $0 } }
    /// Requests that have arrived whole.
    var requests: Int { asked.withLock { $0 } }
    var connections: Int { accepted.withLock { $0 } }
    var closedConnections: Int { finished.withLock { $0 } }

    /// One script for each connection in turn; after its script a connection is closed.
    init(_ scripts: [[Step]]) throws {
        let listener = try Listener(host: "127.0.0.1", port: 0)
        self.listener = listener
        port = listener.port
        Thread.detachNewThread { [self] in
            for script in scripts {
                guard serve(script) else { return }
                finished.withLock { $0 += 1 }
            }
            listener.refuseFurther()
        }
    }

    func stop() {
        listener.stop()
    }

    private func serve(_ script: [Step]) -> Bool {
        let deadline = Deadline.now + .seconds(60)
        guard
            SocketStream.wait(
                for: listener.descriptor, events: POLLIN, until: deadline,
                stop: listener.stopDescriptor) == .ready
        else { return false }
        let stream = SocketStream(descriptor: accept(listener.descriptor, nil, nil))
        accepted.withLock { $0 += 1 }
        var parser = MessageParser(role: .request, limits: MessageLimits())
        for step in script {
            guard waitForRequest(stream, &parser, deadline) else { return true }
            asked.withLock { $0 += 1 }
            switch step {
            case .answer(let text):
                // The client may have closed already; the script does not mind.
                try? stream.write(Array(text.utf8), until: deadline)
            case .silence:
                _ = stream.waitReadable(until: deadline, stop: listener.stopDescriptor)
            case .endless(let start, let rest):
                goOn(stream, start, rest, until: deadline)
            }
        }
        return true
    }

    private func goOn(
        _ stream: SocketStream, _ start: String, _ rest: String, until deadline: Deadline
    ) {
        do {
            try stream.write(Array(start.utf8), until: deadline)
            let pause = Duration.milliseconds(rest.utf8.count == 1 ? 5 : 0)
            // Readable: the client has closed, or the test is over.
            while .now < deadline,
                stream.waitReadable(until: .now + pause, stop: listener.stopDescriptor) == .timedOut
            {
                try stream.write(Array(rest.utf8), until: deadline)
                repeated.withLock { $0 += 1 }
            }
        } catch {
            // The client has gone away.
        }
    }

    private func waitForRequest(
        _ stream: SocketStream, _ parser: inout MessageParser, _ deadline: Deadline
    ) -> Bool {
        while true {
            // A script is for sound requests; anything else ends the connection.
            while let event = try? parser.next() { if case .message = event { return true } }
            guard let bytes = try? stream.read(until: deadline), !bytes.isEmpty else {
                return false
            }
            parser.append(bytes)
        }
    }
}

/// A door that opens once.
final class Gate: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() {
        (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    }

    func open() {
        continuation.finish()
    }

    func wait() async {
        for await _ in stream {}
    }
}

/// Certificates for the tests, made once by the openssl command in a temporary folder.
struct TestCertificates: Sendable {
    let caFile: String
    let loopback: ServerIdentity
    let elsewhere: ServerIdentity

    static let shared = Result { try TestCertificates() }

    private init() throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("http-tests-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        func path(_ name: String) -> String { folder.appendingPathComponent(name).path }
        func make(_ name: String, _ more: [String]) throws {
            try Self.openssl(
                ["req", "-x509"] + key + [
                    "-keyout", path("\(name).key"), "-out", path("\(name).pem"),
                ]
                    + ["-subj", "/CN=\(name)"] + more)
        }
        func identity(_ name: String, san: String) throws -> ServerIdentity {
            try make(
                name,
                [
                    "-CA", path("ca.pem"), "-CAkey", path("ca.key"),
                    "-addext", "subjectAltName=\(san)", "-addext", "basicConstraints=CA:FALSE",
                ])
            return ServerIdentity(
                certificateChainPEM: try String(
                    contentsOfFile: path("\(name).pem"), encoding: .utf8),
                privateKeyPEM: try String(contentsOfFile: path("\(name).key"), encoding: .utf8))
        }
        try make("ca", [])
        caFile = path("ca.pem")
        loopback = try identity("loopback", san: "IP:127.0.0.1,DNS:localhost")
        elsewhere = try identity("elsewhere", san: "IP:192.0.2.1,DNS:elsewhere.example")
    }

    private static func openssl(_ arguments: [String]) throws {
        try Program.command(["openssl"] + arguments)
    }
}

/// Counts what has arrived.
final class Arrivals: Sendable {
    private let total = Mutex(0)

    var count: Int { total.withLock { $0 } }

    func add() {
        total.withLock { $0 += 1 }
    }
}
