import Glibc
import ServiceKit
import Synchronization

/// One kept connection on its own thread; it opens, checks and drops its socket as needed.
actor ClientConnection {
    nonisolated let interrupter = Interrupter()
    private nonisolated let executor: ThreadExecutor
    private let origin: Origin
    private let tls: TLSContext?
    private let limits: HTTPClientLimits
    private var stream: SocketStream?
    private var usedAt = Deadline.now {
        didSet { fresh.withLock { $0 = usedAt + Self.freshFor } }
    }
    /// Until when it counts as open without a check.
    private nonisolated let fresh = Mutex<Deadline?>(nil)
    /// Servers close unused connections, but hardly any server within this time.
    private static let freshFor: Duration = .seconds(1)

    /// Whether it was open a moment ago, so that it need not be checked. Reading this does not need its thread.
    nonisolated var isFresh: Bool { fresh.withLock { $0.map { .now < $0 } ?? false } }

    nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.asUnownedSerialExecutor()
    }

    init(origin: Origin, tls: TLSContext?, limits: HTTPClientLimits) {
        executor = ThreadExecutor(name: "http-client")
        self.origin = origin
        self.tls = tls
        self.limits = limits
    }

    /// Sends the bytes of one request and reads its response.
    func exchange(
        _ bytes: [UInt8], toHead: Bool, leavingBefore: Deadline?, until deadline: Deadline
    ) -> Result<HTTPResponse, HTTPClientError> {
        interrupter.begin()
        defer { interrupter.end() }
        // `begin` has discarded an interruption before it, but the task still knows that it was cancelled.
        if Task.isCancelled { return .failure(Self.cancelled(mayHaveArrived: false)) }
        var mayHaveArrived = false
        do throws(HTTPClientError) {
            let stream = try usableStream(until: deadline)
            // The instant is checked as late as possible, because this thread, or the whole process, may have been
            // suspended meanwhile.
            if let leavingBefore, .now >= leavingBefore {
                // The connection is kept. Where opening one takes longer than a request may wait, dropping it would let
                // none of the following requests be sent in time.
                usedAt = .now
                return .failure(
                    HTTPClientError(.notSent, "the request's time to leave is over"))
            }
            let response = try exchange(
                bytes, toHead: toHead, on: stream, until: deadline, &mayHaveArrived)
            if self.stream != nil { usedAt = .now }
            return .success(response)
        } catch {
            drop()
            return .failure(
                interrupter.isInterrupted ? Self.cancelled(mayHaveArrived: mayHaveArrived) : error)
        }
    }

    /// Opens the connection unless it is open.
    func prepare(until deadline: Deadline) {
        interrupter.begin()
        defer { interrupter.end() }
        do throws(HTTPClientError) {
            let kept = stream
            if try usableStream(until: deadline) !== kept { usedAt = .now }
        } catch {
            drop()
        }
    }

    private static func cancelled(mayHaveArrived: Bool) -> HTTPClientError {
        HTTPClientError(
            .cancelled, "the request was cancelled", requestMayHaveArrived: mayHaveArrived)
    }

    private func drop() {
        interrupter.detach()
        stream = nil
        fresh.withLock { $0 = nil }
    }

    /// The kept connection if it is still good, else a new one. That is safe, because nothing has been sent yet.
    private func usableStream(until deadline: Deadline) throws(HTTPClientError) -> SocketStream {
        if let stream, stream.isQuiet, .now - usedAt < limits.idleTimeout {
            interrupter.attach(stream.socket)
            return stream
        }
        drop()
        let end = min(deadline, .now + limits.connectTimeout)
        let fresh = try connect(until: end)
        do throws(StreamError) {
            if let tls {
                let session = try tls.clientSession(
                    host: origin.host, isAddress: AddressList.isNumeric(origin.host))
                try fresh.startTLS(session, asServer: false, until: end)
            }
        } catch {
            switch error {
            case .timedOut: throw HTTPClientError(.timedOut, "the TLS handshake took too long")
            case .lost(let why): throw HTTPClientError(.tlsFailed, why)
            case .tls(let why):
                let detail = fresh.verificationFailure ?? why
                throw HTTPClientError(.tlsFailed, "\(origin.hostField): \(detail)")
            }
        }
        stream = fresh
        return fresh
    }

    private func connect(until deadline: Deadline) throws(HTTPClientError) -> SocketStream {
        let addresses = AddressList(host: origin.host, port: origin.port, isPassive: false)
        var reason = addresses.failure ?? "it has no address"
        for address in addresses.entries {
            let descriptor = address.openSocket()
            guard descriptor >= 0 else {
                reason = String(cString: strerror(errno))
                continue
            }
            let stream = SocketStream(descriptor: descriptor)
            interrupter.attach(stream.socket)
            let code = stream.connect(to: address, until: deadline)
            if code == 0 { return stream }
            interrupter.detach()
            reason = String(cString: strerror(code))
        }
        throw HTTPClientError(
            Deadline.now >= deadline ? .timedOut : .cannotConnect,
            "cannot connect to \(origin.host):\(origin.port): \(reason)")
    }

    private func exchange(
        _ bytes: [UInt8], toHead: Bool, on stream: SocketStream, until deadline: Deadline,
        _ mayHaveArrived: inout Bool
    ) throws(HTTPClientError) -> HTTPResponse {
        // The request waited too long for this thread, and must not be sent any more.
        guard .now < deadline else {
            throw HTTPClientError(.timedOut, "the deadline passed before the request was sent")
        }
        var writeFailure: StreamError?
        do throws(StreamError) {
            try stream.write(bytes, until: deadline) { mayHaveArrived = true }
        } catch {
            writeFailure = error
        }
        // A server may answer (with 413, for example) and close before it has read everything.
        if let writeFailure, !mayHaveArrived {
            throw Self.failure(writeFailure, false)
        }
        return try receive(toHead: toHead, on: stream, until: deadline, mayHaveArrived)
    }

    private func receive(
        toHead: Bool, on stream: SocketStream, until deadline: Deadline, _ mayHaveArrived: Bool
    ) throws(HTTPClientError) -> HTTPResponse {
        var parser = MessageParser(role: .response(toHead: toHead), limits: limits.message)
        while true {
            let bytes: [UInt8]
            do throws(StreamError) {
                // A server that sends all the time never makes a read wait, so the deadline is checked here.
                guard .now < deadline else { throw StreamError.timedOut }
                bytes = try stream.read(until: deadline)
            } catch {
                if let answer = answerWithoutBody(parser) { return answer }
                throw Self.failure(error, mayHaveArrived)
            }
            do throws(HTTPParseError) {
                parser.append(bytes)
                if let response = try Self.message(&parser, atEnd: bytes.isEmpty) {
                    // Bytes after the response answer no request, so the connection cannot be trusted.
                    if !response.keepsAlive || !parser.isBetweenMessages { drop() }
                    return response.response
                }
            } catch {
                if let answer = answerWithoutBody(parser) { return answer }
                throw Self.failure(error, mayHaveArrived)
            }
            guard !bytes.isEmpty else {
                throw HTTPClientError(
                    .connectionLost, "the server closed the connection without an answer",
                    requestMayHaveArrived: mayHaveArrived)
            }
        }
    }

    /// The response without its body, where the body failed and is not needed. The connection is dropped.
    private func answerWithoutBody(_ parser: MessageParser) -> HTTPResponse? {
        guard !limits.isBodyNeeded, !interrupter.isInterrupted, let head = parser.head,
            case .response(let status) = head.start
        else { return nil }
        drop()
        return HTTPResponse(status: status, headers: head.headers, body: [])
    }

    private static func message(
        _ parser: inout MessageParser, atEnd: Bool
    ) throws(HTTPParseError) -> (response: HTTPResponse, keepsAlive: Bool)? {
        while let event = try atEnd ? parser.finish() : parser.next() {
            guard case .message(let head, let body) = event else { continue }
            guard case .response(let status) = head.start else { return nil }
            let response = HTTPResponse(status: status, headers: head.headers, body: body)
            return (response, head.keepsAlive)
        }
        return nil
    }

    private static func failure(_ error: StreamError, _ mayHaveArrived: Bool) -> HTTPClientError {
        switch error {
        case .timedOut:
            HTTPClientError(
                .timedOut, "no complete response before the deadline",
                requestMayHaveArrived: mayHaveArrived)
        case .lost(let why), .tls(let why):
            HTTPClientError(
                mayHaveArrived ? .connectionLost : .notSent, "the connection was lost: \(why)",
                requestMayHaveArrived: mayHaveArrived)
        }
    }

    private static func failure(
        _ error: HTTPParseError, _ mayHaveArrived: Bool
    ) -> HTTPClientError {
        let code: HTTPClientError.Code =
            switch error.kind {
            case .truncated: .connectionLost
            case .bodyTooLarge, .headTooLarge: .responseTooLarge
            case .malformed, .lengthRequired, .targetTooLong, .expectationUnknown:
                .malformedResponse
            }
        return HTTPClientError(
            code, "the response cannot be used: \(error.reason)",
            requestMayHaveArrived: mayHaveArrived)
    }
}

/// Lets another thread interrupt a connection's wait.
final class Interrupter: Sendable {
    private struct State {
        var socket: SocketDescriptor?
        var isActive = false
        var isInterrupted = false
    }

    private let state = Mutex(State())

    var isInterrupted: Bool { state.withLock { $0.isInterrupted } }

    /// Begins an exchange: interruptions count from here on.
    func begin() {
        state.withLock {
            $0.isActive = true
            $0.isInterrupted = false
        }
    }

    /// Ends the exchange, so that a late interruption does not harm the next one.
    func end() {
        state.withLock { $0.isActive = false }
    }

    func attach(_ socket: SocketDescriptor) {
        let isLate = state.withLock {
            $0.socket = socket
            return $0.isInterrupted
        }
        if isLate { socket.breakOff() }
    }

    func detach() {
        state.withLock { $0.socket = nil }
    }

    func interrupt() {
        let socket = state.withLock { state -> SocketDescriptor? in
            guard state.isActive else { return nil }
            state.isInterrupted = true
            return state.socket
        }
        socket?.breakOff()
    }
}
