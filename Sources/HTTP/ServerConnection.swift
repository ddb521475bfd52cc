import ServiceKit

/// Serves one accepted connection, request after request, on the thread that it was given.
struct ServerConnection: Sendable {
    let descriptor: Int32
    let tls: TLSContext?
    let limits: HTTPServerLimits
    let stop: Listener
    let handler: HTTPServer.Handler
    let log: Log

    private enum Received {
        case request(HTTPRequest, keepsAlive: Bool)
        case refused(status: Int, reason: String)
        /// The peer went away or has nothing to ask; nobody is there to be answered.
        case closed
    }

    /// Returns when the connection is closed.
    func run() async {
        guard let stream = open(until: .now + limits.requestDeadline) else { return }
        var parser = MessageParser(role: .request, limits: limits.message)
        while true {
            switch receive(stream, &parser) {
            case .closed: return
            case .refused(let status, let reason):
                log.info("request refused", ["status": "\(status)", "reason": reason])
                let response = HTTPResponse.text(status, reason + "\n")
                send(response, on: stream, isHead: false, keepsAlive: false)
                close(stream)
                return
            case .request(let request, let wantsMore):
                let response = await handler(request)
                let keepsAlive = wantsMore && !stop.isStopping
                let isSent = send(
                    response, on: stream, isHead: request.method == "HEAD", keepsAlive: keepsAlive)
                if isSent && keepsAlive { continue }
                if isSent { close(stream) }
                return
            }
        }
    }

    /// Turns the client away because the server is full.
    func refuse() {
        // All refusals share a thread, so that each gets little time.
        let time = min(limits.drainTimeout, .milliseconds(500))
        guard let stream = open(until: .now + time) else { return }
        var response = HTTPResponse.text(503, "too many connections\n")
        response.headers["Retry-After"] = "1"
        send(response, on: stream, isHead: false, keepsAlive: false)
        stream.endOutput()
        stream.drain(bytesMax: limits.drainBytesMax, until: .now + time)
    }

    private func open(until deadline: Deadline) -> SocketStream? {
        let stream = SocketStream(descriptor: descriptor)
        guard let tls else { return stream }
        do throws(StreamError) {
            try stream.startTLS(tls.serverSession(), asServer: true, until: deadline)
            return stream
        } catch {
            log.info("TLS handshake failed", ["reason": "\(error)"])
            return nil
        }
    }

    private func receive(_ stream: SocketStream, _ parser: inout MessageParser) -> Received {
        var deadline: Deadline?
        do throws(HTTPParseError) {
            while true {
                switch try parser.next() {
                case .message(let head, let body): return received(head, body)
                case .head(let head):
                    guard head.expectsContinue else { continue }
                    guard sendContinue(stream) else { return .closed }
                    continue
                case nil: break
                }
                if parser.isBetweenMessages {
                    let idle = Deadline.now + limits.idleTimeout
                    let readiness = stream.waitReadable(until: idle, stop: stop.stopDescriptor)
                    guard readiness == .ready else { return .closed }
                }
                // One deadline for the whole request: a byte now and then does not extend it.
                let end = deadline ?? .now + limits.requestDeadline
                deadline = end
                let bytes = try read(stream, until: end)
                guard let bytes else {
                    return parser.isBetweenMessages
                        ? .closed : .refused(status: 408, reason: "the request took too long")
                }
                guard !bytes.isEmpty else {
                    _ = try parser.finish()
                    return .closed
                }
                parser.append(bytes)
            }
        } catch {
            return .refused(status: error.kind.status, reason: error.reason)
        }
    }

    /// Bytes, none at the end of the stream, nil when the deadline passed.
    private func read(
        _ stream: SocketStream, until deadline: Deadline
    ) throws(HTTPParseError) -> [UInt8]? {
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
        case .request(let method, let target):
            let request = HTTPRequest(
                method: method, target: target, headers: head.headers, body: body)
            return .request(request, keepsAlive: head.keepsAlive)
        case .response:
            return .refused(status: 400, reason: "this is not a request")
        }
    }

    private func sendContinue(_ stream: SocketStream) -> Bool {
        let line = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)
        do throws(StreamError) {
            try stream.write(line, until: .now + limits.requestDeadline)
            return true
        } catch {
            return false
        }
    }

    @discardableResult
    private func send(
        _ response: HTTPResponse, on stream: SocketStream, isHead: Bool, keepsAlive: Bool
    ) -> Bool {
        let bytes = MessageWriter.bytes(response, isHead: isHead, keepsAlive: keepsAlive)
        do throws(StreamError) {
            try stream.write(bytes, until: .now + limits.requestDeadline)
            return true
        } catch {
            log.info("response not delivered", ["reason": "\(error)"])
            return false
        }
    }

    private func close(_ stream: SocketStream) {
        stream.endOutput()
        stream.drain(bytesMax: limits.drainBytesMax, until: .now + limits.drainTimeout)
    }
}
