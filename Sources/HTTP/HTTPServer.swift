import Glibc
package import ServiceKit
import Synchronization

/// An HTTP/1.1 server, plain or TLS. It has a thread for each connection, and limits on everything that a client can
/// use.
package final class HTTPServer: Service {
    package typealias Handler = @Sendable (HTTPRequest) async -> HTTPResponse
    /// Gets the status of each refusal that no request led to, also where the connection was closed without an answer.
    package typealias RefusalHandler = @Sendable (_ status: Int) -> Void

    /// The time between two tries to find a place while all are taken.
    private static let turnPause: Duration = .milliseconds(5)

    package let name: String
    private let host: String
    private let port: Int
    private let tls: TLSContext?
    private let limits: HTTPServerLimits
    private let log: Log
    private let handler: Handler
    private let refused: RefusalHandler
    private let listener = Mutex<Listener?>(nil)
    private let connections = ConnectionTable()
    private let dates: HTTPDateCache
    private let throttle = Throttle(perSecond: 10)
    private let system: System
    private let outages: Outages

    /// The system calls that may fail for a time. Tests replace them.
    package struct System: Sendable {
        /// The next connection, or a negative number with `errno` set.
        var accept: @Sendable (Int32) -> Int32 = { Glibc.accept($0, nil, nil) }
        var thread: @Sendable (String) -> ThreadExecutor? = { ThreadExecutor.started(name: $0) }

        package static let real = System()
    }

    /// Why this machine can't listen on a host's address, whatever the port; nil where it can.
    package static func obstacle(host: String) -> String? { Listener.obstacle(host: host) }

    /// The shortages that clients can cause as fast as they connect. Each gets one log line when it begins and one when
    /// it has ended.
    private struct Outages {
        let accepting: Outage
        let threads: Outage
        let places: Outage

        /// Some connections succeed while files, threads or places are short, so a success soon after a failure does
        /// not end the shortage.
        init(_ log: Log, quietFor: Duration) {
            accepting = Outage(
                log: log, failure: "cannot accept; trying again",
                recovery: "connections are accepted again", quietFor: quietFor)
            threads = Outage(
                log: log, failure: "no thread for a connection",
                recovery: "connections have threads again", quietFor: quietFor)
            places = Outage(
                log: log, level: .warning, failure: "too many connections",
                recovery: "connections have places again", againAfter: .seconds(60),
                quietFor: quietFor)
        }
    }

    /// - Parameter port: 0 takes any free port. The initialiser throws when the identity cannot be used.
    package init(
        name: String = "http", host: String, port: Int, tls: ServerIdentity? = nil,
        limits: HTTPServerLimits = HTTPServerLimits(), clock: any WallClock = SystemClock(),
        system: System = .real, log: Log, refused: @escaping RefusalHandler = { _ in },
        handler: @escaping Handler
    ) throws(HTTPServerError) {
        self.name = name
        self.host = host
        self.port = port
        self.limits = limits
        self.log = log
        self.system = system
        outages = Outages(log, quietFor: limits.quietFor)
        dates = HTTPDateCache(clock: clock)
        self.handler = handler
        self.refused = refused
        do throws(TLSContextError) {
            self.tls = if let tls { try TLSContext(identity: tls) } else { nil }
        } catch {
            throw HTTPServerError(code: .badIdentity, reason: error.reason)
        }
        Signals.ignoreBrokenPipes()
    }

    /// The number of open connections.
    package var connectionCount: Int { connections.count }

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

    /// Serves until it is cancelled, then finishes the accepted requests and returns.
    ///
    /// A request counts as accepted when its handler runs, when it has arrived whole (pipelined ones too), or when it
    /// is arriving and completes within `stopGrace`. The last answer says `Connection: close`.
    package func run() async throws {
        let listener = try boundListener()
        log.info("listening", ["host": host, "port": "\(listener.port)"])
        let executor = ThreadExecutor(name: "\(name)-accept")
        await withTaskCancellationHandler {
            // It is detached from the caller's cancellation, which must not reach running requests: the server ends
            // only once they have ended. It starts inside the cancellation handler's scope, so that a cancellation
            // while a request runs stops the listener before that request is answered.
            await Task(executorPreference: executor) { await self.acceptAll(listener) }.value
        } onCancel: {
            listener.stop()
        }
        executor.shutdown()
        self.listener.withLock { $0 = nil }
        log.info("stopped", ["host": host, "port": "\(listener.port)"])
    }

    private func acceptAll(_ listener: Listener) async {
        let rejects = ThreadExecutor(name: "\(name)-full")
        var afterStop = 0
        var grace: Task<Void, Never>?
        await withDiscardingTaskGroup { group in
            while let descriptor = accept(listener, &afterStop) {
                let socket = SocketDescriptor(descriptor)
                let peer = PeerAddress(peerOf: descriptor)
                let slot: ConnectionSlot
                switch await admit(socket, peer) {
                case .admitted(let admitted):
                    slot = admitted
                    outages.places.end()
                case .full:
                    reject(
                        socket, "any address", limits.connectionsMax, listener, on: rejects,
                        in: &group)
                    continue
                case .overShare:
                    reject(
                        socket, peer?.text ?? "", limits.addressMax, listener, on: rejects,
                        in: &group)
                    continue
                }
                guard let executor = system.thread("\(name)-conn") else {
                    outages.threads.note("the system gives none")
                    refused(503)
                    connections.leave(slot)
                    continue
                }
                outages.threads.end()
                let connection = connection(socket, slot, listener)
                group.addTask(executorPreference: executor) {
                    await connection.run()
                    self.connections.leave(slot)
                    // This use keeps the executor, and so its thread, alive across every suspension of the connection's
                    // task.
                    executor.shutdown()
                }
            }
            listener.refuseFurther()
            grace = Task { [connections, limits] in
                // A cancelled sleep means that all connections have ended by themselves.
                guard (try? await Task.sleep(for: limits.stopGrace)) != nil else { return }
                connections.endAll()
            }
        }
        grace?.cancel()
        rejects.shutdown()
    }

    /// Finds a place for a new connection. When all places were taken a moment ago by requests that are still fresh, it
    /// waits until they are not, because a burst of slow requests must not cost the next sender its answer. Connections
    /// that arrive meanwhile wait in the system's accept queue.
    ///
    /// It counts tries instead of time: if the whole process was suspended, the connections had no chance to proceed
    /// meanwhile. Even with a `freshFor` of zero there is a second try, because the connection to be closed may just
    /// have entered its next stage.
    ///
    /// A holder with its full share is refused without a wait.
    private func admit(
        _ socket: SocketDescriptor, _ peer: PeerAddress?
    ) async -> ConnectionTable.Admission {
        let isProxy = peer.map { peer in limits.proxies.contains { $0.contains(peer) } } ?? true
        var tries = 2 + Int(min(limits.freshFor * 2 / Self.turnPause, 1_000_000))
        while true {
            let admission = connections.admit(
                socket, of: isProxy ? nil : peer?.holder, share: limits.addressMax,
                max: limits.connectionsMax, freshFor: limits.freshFor)
            guard case .full = admission else { return admission }
            tries -= 1
            guard tries > 0, connections.isWorthWaiting else { return .full }
            // A cancellation does not matter here, because the tries are bounded.
            try? await Task.sleep(for: Self.turnPause)
        }
    }

    private func connection(
        _ socket: SocketDescriptor, _ slot: ConnectionSlot, _ listener: Listener
    ) -> ServerConnection {
        ServerConnection(
            socket: socket, slot: slot, tls: tls, limits: limits, stop: listener, dates: dates,
            handler: handler, refused: refused
        ) { [log, throttle] message, reason in
            guard let dropped = throttle.pass() else { return }
            log.info(message, ["reason": reason, "unlogged": "\(dropped)"])
        }
    }

    /// Answers 503 on one shared thread. When that thread's queue is long too, it only closes the connection.
    private func reject(
        _ socket: SocketDescriptor, _ address: String, _ max: Int, _ listener: Listener,
        on executor: ThreadExecutor, in group: inout DiscardingTaskGroup
    ) {
        refused(503)
        guard connections.enterReject() else { return }
        outages.places.note("\(address): all \(max) places are taken")
        let connection = connection(socket, ConnectionSlot(id: 0, socket: socket), listener)
        group.addTask(executorPreference: executor) {
            connection.turnAway()
            self.connections.leaveReject()
        }
    }

    /// The next connection, or nil once the server must stop.
    private func accept(_ listener: Listener, _ afterStop: inout Int) -> Int32? {
        while true {
            let readiness = SocketStream.wait(
                for: listener.descriptor, events: POLLIN, until: .now + .seconds(3600),
                stop: listener.stopDescriptor)
            switch readiness {
            case .stopped:
                // The system has accepted these already, and their requests may have come.
                afterStop += 1
                guard afterStop <= Listener.backlog else { return nil }
                let descriptor = system.accept(listener.descriptor)
                return descriptor >= 0 ? descriptor : nil
            case .timedOut: continue
            case .ready: break
            }
            let descriptor = system.accept(listener.descriptor)
            if descriptor >= 0 {
                outages.accepting.end()
                return descriptor
            }
            switch errno {
            case EAGAIN, EINTR, ECONNABORTED: continue
            default:
                // It is mostly EMFILE. A pause is needed, because the pending connection would end the next wait at
                // once.
                outages.accepting.note(String(cString: strerror(errno)))
                let pause = Deadline.now + .milliseconds(100)
                let outcome = SocketStream.wait(
                    for: -1, events: 0, until: pause, stop: listener.stopDescriptor)
                if outcome == .stopped { return nil }
            }
        }
    }
}
