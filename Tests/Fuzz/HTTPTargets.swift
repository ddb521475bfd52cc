@testable import HTTP

enum HTTPRequestTarget: FuzzTarget {
    static let name = "http-request"
    static let words = [
        "\r\n", "\r\n\r\n", "\n", "\r", "GET ", "POST ", "HEAD ", "OPTIONS *", " HTTP/1.1\r\n",
        " HTTP/1.0\r\n", "HTTP/2.0", "Host: h\r\n", "Content-Length: ",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding:", "chunked", "gzip, chunked", "Connection: close\r\n", "keep-alive",
        "Expect: 100-continue\r\n", "0\r\n\r\n", "1\r\na\r\n", ";a=\"b\"", ";", "http://h/", "%41",
        "http://", "Host: ", "[::1]", ":65535", ":0",
        ":", " ", "\t", "FFFFFFFFFFFFFFFF", "18446744073709551616", "\u{0}",
    ]
    static let seeds = [
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST /a?b=1 HTTP/1.1\r\nHost: h:80\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        "POST /c HTTP/1.1\r\nhost: [::1]\r\nTransfer-Encoding: chunked\r\n\r\n"
            + "3;name=value;q=\"a\\\"b\"\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
        "\r\nHEAD http://h/p HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n"
            + "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;a=\"b\"\"c\"\r\na\r\n0\r\n\r\n",
    ].map { [UInt8]($0) }

    static func check(_ input: [UInt8]) {
        let whole = HTTPReading(input, [input[...]], .request, atEnd: false)
        var cuts = Cuts(input)
        let cut = HTTPReading(input, cuts.pieces(input), .request, atEnd: false)
        require(whole == cut, "the answer depends on the pieces: \(whole) or \(cut)")
        var slow = SlowHTTP(input, kind: .request)
        let (messages, end) = slow.messages(isClosed: false)
        whole.compare(messages, end)
        for message in whole.heads { writeAgain(message.head, message.body) }
    }

    /// What was accepted must be the same request when our own client sends it on.
    private static func writeAgain(_ head: MessageHead, _ body: [UInt8]) {
        guard case .request(let method, let target, _) = head.start, target != "*" else { return }
        let dropped = ["host", "content-length", "transfer-encoding", "expect", "connection"]
        var request = HTTPRequest(method: method, target: target, body: body)
        for (name, value) in head.headers.pairs where !dropped.contains(name.lowercased()) {
            request.headers.append(name, value)
        }
        guard head.headers.pairs.count < 95,
            let bytes = MessageWriter.bytes(request, host: "h"), bytes.count < 12_000
        else { return }
        let again = HTTPReading(bytes, [bytes[...]], .request, atEnd: false)
        require(again.end == "clean" && again.heads.count == 1, "it is not one request again")
        guard let (other, otherBody) = again.heads.first else { return }
        require(other.start == .request(method: method, target: target), "another request line")
        require(otherBody == body, "another body")
        let kept = other.headers.pairs.filter { !dropped.contains($0.name.lowercased()) }
        require(
            kept.map { "\($0.name):\($0.value)" }
                == request.headers.pairs.map { "\($0.name):\($0.value)" }, "other fields")
    }
}

enum HTTPResponseTarget: FuzzTarget {
    static let name = "http-response"
    static let words =
        HTTPRequestTarget.words + [
            "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 204\r\n", "HTTP/1.0 ",
            "304", "101", "599",
        ]
    static let seeds = [
        "0HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "0HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        "0HTTP/1.1 200\r\n\r\nuntil the end", "1HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "0HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n",
        "0HTTP/1.0 304 Not Modified\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ].map { [UInt8]($0) }

    static func check(_ input: [UInt8]) {
        // The first byte says whether HEAD was asked.
        let toHead = input.first == UInt8(ascii: "1")
        let bytes = Array(input.dropFirst())
        let role = MessageParser.Role.response(toHead: toHead)
        for atEnd in [false, true] {
            let whole = HTTPReading(bytes, [bytes[...]], role, atEnd: atEnd)
            var cuts = Cuts(bytes)
            let cut = HTTPReading(bytes, cuts.pieces(bytes), role, atEnd: atEnd)
            require(whole == cut, "the answer depends on the pieces: \(whole) or \(cut)")
            var slow = SlowHTTP(bytes, kind: .response(toHead: toHead))
            let (messages, end) = slow.messages(isClosed: atEnd)
            whole.compare(messages, end)
        }
    }
}

/// What the parser makes of an input.
struct HTTPReading: Equatable, CustomStringConvertible {
    var heads: [(head: MessageHead, body: [UInt8])] = []
    /// `clean`, `incomplete` or the error's kind.
    var end = ""

    init(_ input: [UInt8], _ pieces: [ArraySlice<UInt8>], _ role: MessageParser.Role, atEnd: Bool) {
        var parser = MessageParser(role: role, limits: MessageLimits())
        do throws(HTTPParseError) {
            for piece in pieces {
                parser.append(Array(piece))
                while let event = try parser.next() { take(event) }
            }
            if atEnd {
                while let event = try parser.finish() { take(event) }
            }
            end = parser.isBetweenMessages ? "clean" : "incomplete"
        } catch {
            end = error.kind == .truncated ? "incomplete" : "\(error.kind)"
        }
    }

    private mutating func take(_ event: MessageParser.Event) {
        if case .message(let head, let body) = event { heads.append((head, body)) }
    }

    var messages: [SlowHTTP.Message] {
        heads.map { head, body in
            var message = SlowHTTP.Message()
            switch head.start {
            case .request(let method, let target, let authority):
                (message.first, message.second, message.authority) = (method, target, authority)
            case .response(let status): message.second = "\(status)"
            }
            message.minorVersion = head.minorVersion
            message.fields = head.headers.pairs.map { [$0.name, $0.value] }
            message.body = body
            return message
        }
    }

    var description: String { "\(messages) \(end)" }

    static func == (left: HTTPReading, right: HTTPReading) -> Bool {
        left.end == right.end && left.messages == right.messages
    }

    func compare(_ slow: [SlowHTTP.Message], _ slowEnd: SlowHTTP.End) {
        let mine = messages
        require(
            zip(mine, slow).allSatisfy { $0 == $1 }, "messages differ: \(self), slowly \(slow)")
        require(mine.count <= slow.count, "accepted what the slow reader refuses: \(self)")
        let ends = end == "clean" || end == "incomplete" ? end : "refused"
        require(
            mine.count == slow.count && ends == slowEnd.rawValue,
            "\(self), slowly \(slow) \(slowEnd)")
    }
}
