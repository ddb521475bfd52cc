import Glibc
package import ServiceKit
import Synchronization

/// An HTTP/1.1 server, plain or TLS: a thread for each connection, bounded in every direction.
package final class HTTPServer: Service {
    package typealias Handler = @Sendable (HTTPRequest) async -> HTTPResponse

    package let name: String
    private let host: String
    private let port: Int
    private let tls: TLSContext?
    private let limits: HTTPServerLimits
    private let log: Log
    private let handler: Handler
    private let listener = Mutex<Listener?>(nil)
    private let connections = ConnectionCount()

    /// Port 0 takes any free one; throws when the identity cannot be used.
    package init(
        name: String = "http", host: String, port: Int, tls: ServerIdentity? = nil,
        limits: HTTPServerLimits = HTTPServerLimits(), log: Log, handler: @escaping Handler
    ) throws(HTTPServerError) {
        self.name = name
        self.host = host
        self.port = port
        self.limits = limits
        self.log = log
        self.handler = handler
        do throws(TLSContextError) {
            self.tls = if let tls { try TLSContext(identity: tls) } else { nil }
        } catch {
            throw HTTPServerError(code: .badIdentity, reason: error.reason)
        }
        Signals.ignoreBrokenPipes()
    }

    /// Connections open at this moment.
    package var connectionCount: Int { connections.value }

    /// Starts listening and returns the port; connections wait until `run()` accepts them.
    @discardableResult
    package func bind() throws(HTTPServerError) -> Int {
        try boundListener().port
    }

    private func boundListener() throws(HTTPServerError) -> Listener {
        let result = listener.withLock { current -> Result<Listener, HTTPServerError> in
            if let current { return .success(current) }
            return Result { () throws(HTTPServerError) in
                let fresh = try Listener(host: host, port: port)
                current = fresh
                return fresh
            }
        }
        return try result.get()
    }

    /// Serves until cancelled; then finishes the requests that have begun, and returns.
    package func run() async throws {
        let listener = try boundListener()
        log.info("listening", ["host": host, "port": "\(listener.port)"])
        let executor = ThreadExecutor(name: "\(name)-accept")
        // Detached from the caller's cancellation, which must not reach requests that are running:
        // they end by themselves, and only then is the server done.
        let serving = Task(executorPreference: executor) { await self.acceptAll(listener) }
        await withTaskCancellationHandler {
            await serving.value
        } onCancel: {
            listener.stop()
        }
        executor.shutdown()
        self.listener.withLock { $0 = nil }
        log.info("stopped", ["host": host, "port": "\(listener.port)"])
    }

    private func acceptAll(_ listener: Listener) async {
        let rejects = ThreadExecutor(name: "\(name)-full")
        await withDiscardingTaskGroup { group in
            while let descriptor = accept(listener) {
                guard connections.enter(max: limits.connectionsMax) else {
                    reject(descriptor, listener, on: rejects, in: &group)
                    continue
                }
                guard let executor = ThreadExecutor.started(name: "\(name)-conn") else {
                    log.error("no thread for a connection", ["serving": "\(connectionCount)"])
                    close(descriptor)
                    connections.leave()
                    continue
                }
                group.addTask(executorPreference: executor) {
                    await self.connection(descriptor, listener).run()
                    self.connections.leave()
                    // Named here so that the thread outlives every suspension of its connection.
                    executor.shutdown()
                }
            }
            listener.refuseFurther()
        }
        rejects.shutdown()
    }

    private func connection(_ descriptor: Int32, _ listener: Listener) -> ServerConnection {
        ServerConnection(
            descriptor: descriptor, tls: tls, limits: limits, stop: listener, handler: handler,
            log: log)
    }

    /// Answers 503 on one shared thread; when even that queue is long, just closes.
    private func reject(
        _ descriptor: Int32, _ listener: Listener, on executor: ThreadExecutor,
        in group: inout DiscardingTaskGroup
    ) {
        guard connections.enterReject() else {
            close(descriptor)
            return
        }
        log.warning("too many connections", ["max": "\(limits.connectionsMax)"])
        group.addTask(executorPreference: executor) {
            self.connection(descriptor, listener).refuse()
            self.connections.leaveReject()
        }
    }

    /// The next connection, or nil once the server must stop.
    private func accept(_ listener: Listener) -> Int32? {
        while true {
            let readiness = SocketStream.wait(
                for: listener.descriptor, events: POLLIN, until: .now + .seconds(3600),
                stop: listener.stopDescriptor)
            switch readiness {
            case .stopped: return nil
            case .timedOut: continue
            case .ready: break
            }
            let descriptor = Glibc.accept(listener.descriptor, nil, nil)
            if descriptor >= 0 { return descriptor }
            switch errno {
            case EAGAIN, EINTR, ECONNABORTED: continue
            default:
                // Mostly EMFILE: pause, since the waiting connection would wake us at once again.
                log.error("cannot accept", ["reason": String(cString: strerror(errno))])
                let pause = Deadline.now + .milliseconds(100)
                let outcome = SocketStream.wait(
                    for: -1, events: 0, until: pause, stop: listener.stopDescriptor)
                if outcome == .stopped { return nil }
            }
        }
    }
}

/// How many connections are being served, and how many are being turned away.
private final class ConnectionCount: Sendable {
    private static let rejectsMax = 32

    private let counts = Mutex((serving: 0, rejecting: 0))

    var value: Int { counts.withLock { $0.serving } }

    func enter(max: Int) -> Bool {
        counts.withLock { counts in
            guard counts.serving < max else { return false }
            counts.serving += 1
            return true
        }
    }

    func leave() {
        counts.withLock { $0.serving -= 1 }
    }

    func enterReject() -> Bool {
        counts.withLock { counts in
            guard counts.rejecting < Self.rejectsMax else { return false }
            counts.rejecting += 1
            return true
        }
    }

    func leaveReject() {
        counts.withLock { $0.rejecting -= 1 }
    }
}
