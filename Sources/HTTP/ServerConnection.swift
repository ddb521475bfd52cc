import ServiceKit

/// Serves one accepted connection, request after request, on its own thread.
struct ServerConnection: Sendable {
    let socket: SocketDescriptor
    let slot: ConnectionSlot
    let tls: TLSContext?
    let limits: HTTPServerLimits
    let stop: Listener
    let dates: HTTPDateCache
    let handler: HTTPServer.Handler
    let refused: HTTPServer.RefusalHandler
    let report: @Sendable (_ message: String, _ reason: String) -> Void

    private enum Received {
        case request(HTTPRequest, keepsAlive: Bool)
        case refused(status: Int, reason: String)
        /// The peer closed the connection or sent no request, so there is nothing to answer.
        case closed
    }

    /// Returns when the connection is closed.
    func run() async {
        // The id is random per connection and then counted, so that no request costs a system call.
        let name = String(UInt64.random(in: 0..<1 << 40), radix: 36)
        var answered = 0
        guard let stream = open(until: .now + limits.requestDeadline) else { return }
        var parser = MessageParser(role: .request, limits: limits.message)
        var received = receive(stream, &parser, mayWait: true)
        while true {
            switch received {
            case .closed: return
            case .refused(let status, let reason):
                refuse(status, reason, on: stream)
                return
            case .request(let request, let wantsMore):
                guard slot.enter(.handling) else {
                    refuse(503, "the server needs the connection", on: stream)
                    return
                }
                answered += 1
                let response = await answer(request, as: "\(name)-\(answered)")
                guard !response.isReset else {
                    socket.resetOnClose()
                    return
                }
                var keepsAlive = wantsMore
                var following: Received?
                if wantsMore && stop.isStopping {
                    // Requests that have arrived whole count as accepted and are still answered. It waits for no
                    // others, and the last answer says `Connection: close`.
                    let next = receive(stream, &parser, mayWait: false)
                    if case .closed = next { keepsAlive = false }
                    following = next
                }
                let isSent = send(
                    response, on: stream, isHead: request.method == "HEAD", keepsAlive: keepsAlive)
                guard isSent else { return }
                guard keepsAlive else {
                    close(stream)
                    return
                }
                received = following ?? receive(stream, &parser, mayWait: true)
            }
        }
    }

    /// Refuses the client because the server is full.
    func turnAway() {
        // All refusals share one thread, so each gets little time.
        let time = min(limits.drainTimeout, .milliseconds(500))
        guard let stream = open(until: .now + time) else { return }
        var response = HTTPResponse.text(503, "too many connections\n")
        response.headers["Retry-After"] = "1"
        send(response, on: stream, isHead: false, keepsAlive: false)
        stream.endOutput()
        stream.drain(bytesMax: limits.drainBytesMax, until: .now + time)
    }

    /// Answers a request. Where the client gave a request id, it is used, so that both logs can be matched.
    private func answer(_ request: HTTPRequest, as made: String) async -> HTTPResponse {
        let given = request.headers[Self.idField].flatMap { RequestID.isUsable($0) ? $0 : nil }
        let id = given ?? made
        var response = await RequestID.$current.withValue(id) { await answer(request) }
        response.headers[Self.idField] = id
        return response
    }

    private static let idField = "X-Request-Id"

    private func answer(_ request: HTTPRequest) async -> HTTPResponse {
        // OPTIONS for the server as a whole (RFC 9110, section 9.3.7). No route knows "*".
        if request.target == "*" { return HTTPResponse(status: 204) }
        return await handler(request)
    }

    private func refuse(_ status: Int, _ reason: String, on stream: SocketStream) {
        report("request refused", "\(status) \(reason)")
        refused(status)
        let response = HTTPResponse.text(status, reason + "\n")
        if send(response, on: stream, isHead: false, keepsAlive: false) { close(stream) }
    }

    private func open(until deadline: Deadline) -> SocketStream? {
        let stream = SocketStream(socket)
        guard let tls else { return stream }
        guard slot.enter(.receiving) else { return nil }
        do throws(StreamError) {
            try stream.startTLS(tls.serverSession(), asServer: true, until: deadline)
        } catch {
            report("TLS handshake failed", "\(error)")
            return nil
        }
        return slot.enter(.silent) ? stream : nil
    }

    /// The next whole request. Without `mayWait` only one that has already arrived is returned.
    private func receive(
        _ stream: SocketStream, _ parser: inout MessageParser, mayWait: Bool
    ) -> Received {
        var deadline: Deadline?
        do throws(HTTPParseError) {
            while true {
                switch try parser.next() {
                case .message(let head, let body): return received(head, body)
                case .head(let head):
                    guard head.expectsContinue, mayWait else { continue }
                    guard let end = begin(&deadline, mayWait), sendContinue(stream, until: end)
                    else { return .closed }
                    continue
                case nil: break
                }
                if mayWait, parser.isBetweenMessages, !waitForRequest(stream) { return .closed }
                guard let end = begin(&deadline, mayWait) else { return .closed }
                guard let bytes = read(stream, until: mayWait ? end : .now) else {
                    return parser.isBetweenMessages || !mayWait
                        ? .closed : .refused(status: 408, reason: "the request took too long")
                }
                guard !bytes.isEmpty else {
                    if slot.mustLeave && !parser.isBetweenMessages {
                        return .refused(status: 408, reason: "the request took too long")
                    }
                    _ = try parser.finish()
                    return .closed
                }
                parser.append(bytes)
            }
        } catch {
            return .refused(status: error.kind.status, reason: error.reason)
        }
    }

    /// When the request must be complete: one deadline for all of it, which a trickle of bytes does not extend. Nil
    /// when the connection must close.
    private func begin(_ deadline: inout Deadline?, _ mayWait: Bool) -> Deadline? {
        if let deadline { return deadline }
        if mayWait, !slot.enter(.receiving) { return nil }
        deadline = .now + limits.requestDeadline
        return deadline
    }

    /// Waits for the next request. Returns false when there will be none.
    private func waitForRequest(_ stream: SocketStream) -> Bool {
        let idle = Deadline.now + limits.idleTimeout
        switch stream.waitReadable(until: idle, stop: stop.stopDescriptor) {
        case .ready: return true
        case .timedOut: return false
        // A request that arrived before the server stopped is still served.
        case .stopped: return stream.waitReadable(until: .now) == .ready
        }
    }

    /// Reads some bytes: empty at the end of the stream, and nil when the deadline has passed.
    private func read(_ stream: SocketStream, until deadline: Deadline) -> [UInt8]? {
        do throws(StreamError) {
            return try stream.read(until: deadline)
        } catch {
            switch error {
            case .timedOut: return nil
            case .lost, .tls: return []
            }
        }
    }

    private func received(_ head: MessageHead, _ body: [UInt8]) -> Received {
        switch head.start {
        case .request(let method, let target, _):
            let request = HTTPRequest(
                method: method, target: target, headers: head.headers, body: body)
            return .request(request, keepsAlive: head.keepsAlive)
        case .response:
            return .refused(status: 400, reason: "this is not a request")
        }
    }

    private func sendContinue(_ stream: SocketStream, until deadline: Deadline) -> Bool {
        let line = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)
        do throws(StreamError) {
            try stream.write(line, until: deadline)
            return true
        } catch {
            return false
        }
    }

    /// Writes an answer and enters the connection's next stage. Returns false when the connection broke.
    @discardableResult
    private func send(
        _ response: HTTPResponse, on stream: SocketStream, isHead: Bool, keepsAlive: Bool
    ) -> Bool {
        let bytes = MessageWriter.bytes(
            response, isHead: isHead, keepsAlive: keepsAlive, date: dates.text)
        // A connection that must close still gets its answer, but only as fast as its peer reads it.
        let time =
            slot.enter(.answering)
            ? limits.requestDeadline : min(.milliseconds(500), limits.drainTimeout)
        do throws(StreamError) {
            try stream.write(bytes, until: .now + time)
            return slot.enter(keepsAlive ? .kept : .closing) || !keepsAlive
        } catch {
            report("response not delivered", "\(error)")
            return false
        }
    }

    private func close(_ stream: SocketStream) {
        stream.endOutput()
        if slot.mustLeave { return }
        stream.drain(bytesMax: limits.drainBytesMax, until: .now + limits.drainTimeout)
    }
}
