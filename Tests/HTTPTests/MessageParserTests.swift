import ServiceKit
import TestSupport
import Testing

@testable import HTTP

/// Feeds a parser in pieces of a given size and collects whole messages.
func parse(
    _ bytes: [UInt8], role: MessageParser.Role = .request, piece: Int = .max,
    limits: MessageLimits = MessageLimits(), atEnd: Bool = false
) throws(HTTPParseError) -> [(head: MessageHead, body: [UInt8])] {
    var parser = MessageParser(role: role, limits: limits)
    var messages: [(head: MessageHead, body: [UInt8])] = []
    var rest = bytes[...]
    while !rest.isEmpty {
        parser.append(rest.prefix(piece))
        rest = rest.dropFirst(piece)
        while let event = try parser.next() {
            if case .message(let head, let body) = event { messages.append((head, body)) }
        }
    }
    while atEnd, let event = try parser.finish() {
        if case .message(let head, let body) = event { messages.append((head, body)) }
    }
    return messages
}

@Suite(.ownThread) struct MessageParserTests {
    static let post = "POST /a?b=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
    static let chunked =
        "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
        + "3;name=value\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"
    static let get = "GET / HTTP/1.1\r\nhost: x\r\nX-Empty:\r\n\r\n"

    @Test(arguments: [1, 2, 3, 7, 1000])
    func requests_inPiecesOfAnySize_areReadTheSame(piece: Int) throws {
        let bytes = Array((Self.post + Self.chunked + "\r\n" + Self.get).utf8)

        let messages = try parse(bytes, piece: piece)

        #expect(messages.map(\.body) == [Array("hello".utf8), Array("abc0123456789".utf8), []])
        #expect(
            messages.map(\.head.start) == [
                .request(method: "POST", target: "/a?b=1"),
                .request(method: "POST", target: "/c"), .request(method: "GET", target: "/"),
            ])
        #expect(messages.last?.head.headers["x-empty"] == "")
        #expect(messages.allSatisfy { $0.head.keepsAlive })
    }

    static let refused: [(String, Int)] = [
        ("\u{16}\u{03}\u{01}", 400),
        ("GET /\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: x\n\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\rY: z\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: \u{0}\r\n\r\n", 400),
        ("GET /\u{1} HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET other HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET / HTTQ/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET / HTTP/1.x\r\nHost: x\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", 413),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400
        ),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        ("POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n", 417),
        (chunkedHead + "\r\n", 400), (chunkedHead + "-1\r\n", 400),
        (chunkedHead + "1\r\nab\r\n", 400), (chunkedHead + "100001\r\n", 413),
        (chunkedHead + "FFFFFFFFFFFFFFFFFFFF\r\n", 413),
        (String(repeating: "\r\n", count: 9), 400),
        ("GET /" + String(repeating: "a", count: 9000) + " HTTP/1.1\r\n", 414),
        ("GET /" + String(repeating: "a", count: 9000), 414),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: " + String(repeating: "a", count: 17_000), 431),
        ("GET / HTTP/1.1\r\n" + String(repeating: "A: b\r\n", count: 101), 431),
    ]
    static let chunkedHead = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    @Test(arguments: refused)
    func request_whenItCanBeReadInTwoWaysOrTooLarge_isRefused(text: String, status: Int) {
        for piece in [1, 1000, Int.max] {
            let error = #expect(throws: HTTPParseError.self) {
                try parse(Array(text.utf8), piece: piece)
            }
            #expect(error?.kind.status == status, "in pieces of \(piece)")
        }
    }

    @Test func request_inAbsoluteForm_isReducedToItsPath() throws {
        let text =
            "GET http://h:1/p?q HTTP/1.1\r\nHost: h:1\r\n\r\nGET https://h HTTP/1.1\r\nHost: H\r\n\r\n"

        let starts = try parse(Array(text.utf8)).map(\.head.start)

        #expect(
            starts == [
                .request(method: "GET", target: "/p?q", authority: "h:1"),
                .request(method: "GET", target: "/", authority: "h"),
            ])
    }

    static let connections: [(String, Bool)] = [
        ("1.1\r\nHost: x", true), ("1.1\r\nHost: x\r\nConnection: Close", false),
        ("1.1\r\nHost: x\r\nConnection: te, close", false), ("1.0", false),
        ("1.0\r\nConnection: keep-alive", true),
    ]

    @Test(arguments: connections)
    func connection_afterARequest_livesAsTheSenderSays(version: String, lives: Bool) throws {
        let messages = try parse(Array("GET / HTTP/\(version)\r\n\r\n".utf8))

        #expect(messages.map(\.head.keepsAlive) == [lives])
    }

    @Test func request_whenTheInputEndsInside_isTruncated() {
        for count in 1..<Self.post.utf8.count {
            let error = #expect(throws: HTTPParseError.self) {
                try parse(Array(Self.post.utf8.prefix(count)), atEnd: true)
            }
            #expect(error?.kind == .truncated)
        }
    }

    @Test func response_withoutLength_lastsUntilTheEnd() throws {
        let text = "HTTP/1.1 200\r\n\r\nbody"

        let open = try parse(Array(text.utf8), role: .response(toHead: false))
        let ended = try parse(Array(text.utf8), role: .response(toHead: false), atEnd: true)

        #expect(open.isEmpty)
        #expect(ended.map(\.body) == [Array("body".utf8)])
        #expect(ended.map(\.head.keepsAlive) == [false])
    }

    @Test func response_withoutBody_endsWithItsHead() throws {
        let head = "HTTP/1.1 204 No Content\r\n\r\n"
        let interim = "HTTP/1.1 100 Continue\r\n\r\n"
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"

        let plain = try parse(Array((interim + head).utf8), role: .response(toHead: false))
        let toHead = try parse(Array(length.utf8), role: .response(toHead: true))

        #expect(plain.map(\.head.start) == [.response(status: 204)])
        #expect(toHead.map(\.body) == [[]])
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func parser_onMutatedInput_neverDependsOnThePieces(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for _ in 0..<100 {
            var bytes = Array((Self.post + Self.chunked + Self.get + Self.post).utf8)
            for _ in 0..<Int.random(in: 0...4, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.remove(at: place)
                default: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
                }
            }

            let whole = outcome(bytes, piece: .max)
            let pieces = outcome(bytes, piece: Int.random(in: 1...40, using: &random))

            #expect(whole == pieces, "seed \(seed)")
        }
    }

    /// The messages before the first error, and that error's status.
    private func outcome(_ bytes: [UInt8], piece: Int) -> [String] {
        var parser = MessageParser(role: .request, limits: MessageLimits())
        var found: [String] = []
        var rest = bytes[...]
        do throws(HTTPParseError) {
            while !rest.isEmpty {
                parser.append(rest.prefix(piece))
                rest = rest.dropFirst(piece)
                while let event = try parser.next() {
                    guard case .message(let head, let body) = event else { continue }
                    found.append("\(head.start) \(head.headers.pairs) \(body)")
                }
            }
        } catch {
            found.append("\(error.kind.status)")
        }
        return found
    }
}
