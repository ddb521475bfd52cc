import ServiceKit

/// The limits of one client.
package struct HTTPClientLimits: Sendable {
    /// The most connections at once, each with a thread. Further requests wait for one.
    package var connectionsMax = 64
    /// The most requests that wait for a connection. Further ones fail as `overloaded`.
    package var waitersMax = 10_000
    /// The limit for connecting and the TLS handshake, within the request's deadline.
    package var connectTimeout = Duration.seconds(10)
    /// The limit from the call of `send` to the last byte of the response.
    package var requestDeadline = Duration.seconds(30)
    package var responseHeadBytesMax = 32 * 1024
    package var responseBytesMax = 4 << 20
    /// False where only the status is of interest: a body that is too large, cut off, late or malformed is then no
    /// error.
    package var isBodyNeeded = true
    /// How long a connection may be unused and still be used again.
    package var idleTimeout = Duration.seconds(50)

    package init() {}

    var message: MessageLimits {
        var limits = MessageLimits()
        limits.headBytesMax = responseHeadBytesMax
        limits.bodyBytesMax = responseBytesMax
        return limits
    }
}

/// An HTTP/1.1 client of one host that keeps its connections.
///
/// It never repeats a request by itself: the error says whether the server may have seen it.
package final class HTTPClient: Sendable {
    private static let preparationMax: Duration = .seconds(2)
    private let origin: Origin
    private let limits: HTTPClientLimits
    private let tls: TLSContext?
    private let pool: ResourcePool<ClientConnection>

    /// `baseURL` is `https://host[:port]`, or `http://` for this machine only.
    ///
    /// `extraCAFile` (PEM) is trusted beside the system's authorities. `isPlainAllowed` lets `http://` reach other
    /// machines. Use it only for messages that carry no secret and are signed, such as OCSP.
    package init(
        baseURL: String, extraCAFile: String? = nil, limits: HTTPClientLimits = HTTPClientLimits(),
        isPlainAllowed: Bool = false
    ) throws(HTTPClientError) {
        let origin = try Origin(baseURL, isPlainAllowed: isPlainAllowed)
        do throws(TLSContextError) {
            tls = origin.isTLS ? try TLSContext(trustingSystemAnd: extraCAFile) : nil
        } catch {
            throw HTTPClientError(.badCAFile, error.reason)
        }
        self.origin = origin
        self.limits = limits
        pool = ResourcePool(size: limits.connectionsMax, waitersMax: limits.waitersMax)
        Signals.ignoreBrokenPipes()
    }

    deinit {
        pool.close()
    }

    /// Sends a request and waits for the whole response, whatever its status, and never beyond the deadline.
    ///
    /// - Parameter leavingBefore: No byte is sent after this instant, which is checked last, once a connection is open.
    ///   The request then fails as `notSent`.
    package func send(
        _ request: HTTPRequest, leavingBefore: ContinuousClock.Instant? = nil
    ) async throws(HTTPClientError) -> HTTPResponse {
        let deadline = Deadline.now + limits.requestDeadline
        guard let bytes = MessageWriter.bytes(request, host: origin.hostField) else {
            throw HTTPClientError(.badRequest, "the request cannot be written as HTTP")
        }
        let connection = try await connection(until: min(deadline, leavingBefore ?? deadline))
        defer { pool.release(connection) }
        let result = await withTaskCancellationHandler {
            await connection.exchange(
                bytes, toHead: request.method == "HEAD", leavingBefore: leavingBefore,
                until: deadline)
        } onCancel: {
            connection.interrupter.interrupt()
        }
        return try result.get()
    }

    /// The connection that is held for this request, or the next free one.
    private func connection(
        until deadline: Deadline
    ) async throws(HTTPClientError) -> ClientConnection {
        if let ready = ReadyConnection.held?.take(for: self) { return ready }
        do throws(PoolRefusal) {
            return connection(try await pool.acquire(until: deadline))
        } catch {
            throw HTTPClientError(error)
        }
    }

    /// An unused connection, or a place for a new one; nil where there is neither. It must be given back.
    func freeConnection() -> ClientConnection? { pool.acquireFree().map(connection) }

    func giveBack(_ connection: ClientConnection) { pool.release(connection) }

    /// Opens the connection, which may take up to `connectTimeout` and is worthwhile even if it comes late, because the
    /// connection is kept. It reports no failure: the request will.
    func open(_ connection: ClientConnection) async {
        await withTaskCancellationHandler {
            await connection.prepare(until: .now + limits.connectTimeout)
        } onCancel: {
            connection.interrupter.interrupt()
        }
    }

    private func connection(_ grant: ResourcePool<ClientConnection>.Grant) -> ClientConnection {
        switch grant {
        case .idle(let connection): connection
        case .slot: ClientConnection(origin: origin, tls: tls, limits: limits)
        }
    }

    /// Opens connections until `count` are ready, so that requests that must be sent at their instant need no
    /// handshake.
    ///
    /// It only takes unused places, and reports no failure: the requests will.
    package func prepare(_ count: Int) async {
        let deadline = Deadline.now + min(limits.connectTimeout, Self.preparationMax)
        let free = (0..<max(0, count)).compactMap { _ in pool.acquireFree().map(connection) }
        await withTaskGroup(of: Void.self) { group in
            for connection in free {
                group.addTask {
                    await connection.prepare(until: deadline)
                    self.pool.release(connection)
                }
            }
        }
    }

    /// Refuses further requests and drops kept connections; running requests finish.
    package func close() {
        pool.close()
    }
}

extension HTTPClientError {
    fileprivate init(_ refusal: PoolRefusal) {
        switch refusal {
        case .closed: self.init(.closed, "the client has been closed")
        case .full: self.init(.overloaded, "too many requests wait to be sent")
        case .timedOut: self.init(.timedOut, "no connection became free in time")
        case .cancelled: self.init(.cancelled, "the request was cancelled")
        }
    }
}

/// The host that a client talks to.
struct Origin: Sendable, Equatable {
    let isTLS: Bool
    let host: String
    let port: Int
    /// The value of the Host field.
    let hostField: String

    init(_ text: String, isPlainAllowed: Bool = false) throws(HTTPClientError) {
        let schemes = [("https://", true), ("http://", false)]
        guard let (scheme, isTLS) = schemes.first(where: { text.lowercased().hasPrefix($0.0) })
        else { throw HTTPClientError(.badURL, "the URL must begin with https://") }
        var authority = text.dropFirst(scheme.count)
        if authority.last == "/" { authority.removeLast() }
        guard !authority.contains(where: { "/?#@".contains($0) }) else {
            throw HTTPClientError(.badURL, "the URL must be only https://host or https://host:port")
        }
        let standardPort = isTLS ? 443 : 80
        let (host, portText) = Self.split(authority)
        let digits = portText.map { Array($0.utf8)[...] }
        guard let port = digits.map(MessageHead.decimal) ?? standardPort,
            (1...65535).contains(port), Self.isHost(host)
        else { throw HTTPClientError(.badURL, "the URL has no usable host and port") }
        guard isTLS || isPlainAllowed || AddressList.isLoopback(host) else {
            throw HTTPClientError(.badURL, "http:// is only for this machine; use https://")
        }
        self.isTLS = isTLS
        self.host = host
        self.port = port
        let name = host.contains(":") ? "[\(host)]" : host
        hostField = port == standardPort ? name : "\(name):\(port)"
    }

    private static func split(_ authority: Substring) -> (host: String, port: Substring?) {
        if authority.hasPrefix("["), let end = authority.firstIndex(of: "]") {
            let rest = authority[end...].dropFirst()
            let host = String(authority[..<end].dropFirst())
            if rest.isEmpty { return (host, nil) }
            return (host, rest.hasPrefix(":") ? rest.dropFirst() : "?")
        }
        guard let colon = authority.firstIndex(of: ":") else { return (String(authority), nil) }
        return (String(authority[..<colon]), authority[colon...].dropFirst())
    }

    private static func isHost(_ host: String) -> Bool {
        guard !host.contains(":") else { return AddressList.isNumeric(host) }
        return !host.isEmpty
            && host.utf8.allSatisfy { byte in
                HTTPCharacters.isToken(byte) && byte != 0x25
            }
    }
}
