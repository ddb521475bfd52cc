import Glibc
package import ServiceKit
import Synchronization

/// An HTTP/1.1 server, plain or TLS. It has a thread for each connection, and bounds in every direction.
package final class HTTPServer: Service {
    package typealias Handler = @Sendable (HTTPRequest) async -> HTTPResponse
    /// Learns the status of each answer that is to no request, also where the connection was closed without it.
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

    /// What the system gives a server, and may refuse for a time. Tests refuse it.
    package struct System: Sendable {
        /// The next connection, or a negative number with `errno` set.
        var accept: @Sendable (Int32) -> Int32 = { Glibc.accept($0, nil, nil) }
        var thread: @Sendable (String) -> ThreadExecutor? = { ThreadExecutor.started(name: $0) }

        package static let real = System()
    }

    /// What strangers can cause as fast as they connect. Each gets a line when it begins and one when it has ended.
    private struct Outages {
        let accepting: Outage
        let threads: Outage
        let places: Outage

        /// Connections come and go while files, threads or places are short, so a success soon after a failure is no
        /// end.
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

    /// - Parameter port: 0 takes any free one. It throws when the identity cannot be used.
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

    /// Connections open at this moment.
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

    /// Serves until it is cancelled, then finishes what it has accepted, and returns.
    ///
    /// Accepted is each request that runs, each that has arrived whole (pipelined ones too), and each that is
    /// arriving and completes within `stopGrace`. The last answer says `Connection: close`.
    package func run() async throws {
        let listener = try boundListener()
        log.info("listening", ["host": host, "port": "\(listener.port)"])
        let executor = ThreadExecutor(name: "\(name)-accept")
        await withTaskCancellationHandler {
            // It is detached from the caller's cancellation, which must not reach running requests: they end by
            // themselves, and only then is the server done. It begins inside the handler, so that whoever cancels
            // while a request runs has stopped the listener before that request is answered.
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
                    // It is named here so that the thread outlives every suspension of its connection.
                    executor.shutdown()
                }
            }
            listener.refuseFurther()
            grace = Task { [connections, limits] in
                // A cancelled sleep means that all have ended by themselves.
                guard (try? await Task.sleep(for: limits.stopGrace)) != nil else { return }
                connections.endAll()
            }
        }
        grace?.cancel()
        rejects.shutdown()
    }

    /// Finds a place for a newcomer. When all were taken a moment ago, by requests that may yet prove honest, it
    /// waits for as long as that takes, because a burst of slow requests must not cost the next sender its answer.
    /// Those who come meanwhile wait in the queue of the system.
    ///
    /// It counts tries and not time: after a moment in which the whole process stood still, the holders of the places
    /// have not had their chance yet. Even without patience there is a second try, because whoever was about to be
    /// sent away may just have gone on to its next stage.
    ///
    /// Nobody waits for a holder that has its full share.
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
            // Whether it is cancelled does not matter, because the tries are bounded.
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

    /// Answers 503 on one shared thread. When even that queue is long, it only closes.
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
                // It is mostly EMFILE. A pause is needed, because the waiting connection would wake us at once again.
                outages.accepting.note(String(cString: strerror(errno)))
                let pause = Deadline.now + .milliseconds(100)
                let outcome = SocketStream.wait(
                    for: -1, events: 0, until: pause, stop: listener.stopDescriptor)
                if outcome == .stopped { return nil }
            }
        }
    }
}
