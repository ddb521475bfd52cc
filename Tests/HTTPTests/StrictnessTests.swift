import Testing

@testable import HTTP

/// Requests as raw bytes on a real socket, each followed by a sound one.
///
/// A refused request must be answered once and the connection closed: were the follower answered
/// too, bytes of an attacker would have become a request of their own.
@Suite struct StrictnessTests {
    private static let follower = "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

    private func statuses(_ text: String) -> [Int] {
        text.components(separatedBy: "HTTP/1.1 ").dropFirst().compactMap { Int($0.prefix(3)) }
    }

    private static func get(_ fields: String, line: String = "GET / HTTP/1.1") -> String {
        "\(line)\r\nHost: h\r\n\(fields)\r\n"
    }

    private static func post(_ fields: String, _ body: String = "") -> String {
        "POST / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n\(body)"
    }

    private static func chunks(_ body: String) -> String {
        post("Transfer-Encoding: chunked\r\n", body)
    }

    private static func line(_ line: String) -> String { get("", line: line) }

    private static func host(_ value: String) -> String {
        "GET / HTTP/1.1\r\nHost:\(value)\r\n\r\n"
    }

    static let refused: [(String, Int, String)] = [
        (
            "two lengths that differ", 400,
            post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd")
        ),
        ("two equal lengths", 400, post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc")),
        ("a list of equal lengths", 400, post("Content-Length: 3, 3\r\n", "abc")),
        ("a list of lengths", 400, post("Content-Length: 3,4\r\n", "abcd")),
        ("an empty length", 400, post("Content-Length:\r\n")),
        ("a signed length", 400, post("Content-Length: +3\r\n", "abc")),
        ("a negative length", 400, post("Content-Length: -1\r\n")),
        ("a hexadecimal length", 400, post("Content-Length: 0x3\r\n", "abc")),
        ("a fractional length", 400, post("Content-Length: 3.0\r\n", "abc")),
        ("a length with a blank inside", 400, post("Content-Length: 1 0\r\n", "a")),
        ("a length with a vertical tab", 400, post("Content-Length: \u{B}3\r\n", "abc")),
        ("a length with a no-break space", 400, post("Content-Length: \u{A0}3\r\n", "abc")),
        ("a length beyond 64 bits", 413, post("Content-Length: 18446744073709551619\r\n", "abc")),
        ("a length beyond the limit", 413, post("Content-Length: 1048577\r\n")),
        ("no length", 411, post("")),
        ("no length in HTTP/1.0", 411, "POST / HTTP/1.0\r\n\r\n"),
        ("no length of a PUT", 411, get("", line: "PUT / HTTP/1.1")),

        (
            "length and chunked", 400,
            post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")
        ),
        (
            "chunked and length", 400,
            post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n")
        ),
        ("chunked twice", 400, post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n")),
        (
            "chunked in two fields", 400,
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")
        ),
        (
            "chunked beside identity", 400,
            post("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")
        ),
        ("identity", 400, post("Transfer-Encoding: identity\r\n", "abc")),
        ("a coding that is not chunked", 400, post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")),
        ("chunked before another", 400, post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n")),
        ("another before chunked", 400, post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")),
        ("chunked in quotes", 400, post("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n")),
        ("chunked with a parameter", 400, post("Transfer-Encoding: chunked;a=b\r\n", "0\r\n\r\n")),
        ("chunked after a comma", 400, post("Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n")),
        ("chunked after a control", 400, post("Transfer-Encoding: \u{B}chunked\r\n", "0\r\n\r\n")),
        ("an empty coding", 400, post("Transfer-Encoding:\r\n", "0\r\n\r\n")),
        (
            "a coding and a blank before its colon", 400,
            post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n")
        ),
        (
            "chunked in HTTP/1.0", 400,
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        (
            "a coding of a GET beside a length", 400,
            get("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n")
        ),

        ("a bare LF in the request line", 400, "GET / HTTP/1.1\nHost: h\r\n\r\n"),
        ("a bare LF in a field", 400, get("A: b\nC: d\r\n")),
        ("a bare CR in a field", 400, get("A: b\rC: d\r\n")),
        ("a bare CR before the line end", 400, get("A: b\r\r\n")),
        ("a bare LF at the end of the head", 400, "GET / HTTP/1.1\r\nHost: h\r\n\n"),
        ("a bare CR in the request line", 400, "GET /\r HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("a bare LF before the request", 400, "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("a folded field", 400, get("A: b\r\n c\r\n")),
        ("a folded field with a tab", 400, get("A: b\r\n\tc\r\n")),
        ("a folded first field", 400, "GET / HTTP/1.1\r\n Host: h\r\n\r\n"),
        ("a line of blanks", 400, get(" \r\n")),
        ("a blank before the colon", 400, get("A : b\r\n")),
        ("a tab before the colon", 400, get("A\t: b\r\n")),
        ("a field without a colon", 400, get("AB\r\n")),
        ("a field without a name", 400, get(": b\r\n")),
        ("a name with a slash", 400, get("A/B: c\r\n")),
        ("a name in parentheses", 400, get("A(B): c\r\n")),
        ("a name that is not ASCII", 400, get("Ä: c\r\n")),
        ("a zero byte in a name", 400, get("A\u{0}B: c\r\n")),
        ("a zero byte in a value", 400, get("A: b\u{0}c\r\n")),
        ("a control in a value", 400, get("A: b\u{1}c\r\n")),
        ("a delete in a value", 400, get("A: b\u{7F}c\r\n")),
        ("an escape in a value", 400, get("A: \u{1B}[2J\r\n")),

        ("two blanks after the method", 400, line("GET  / HTTP/1.1")),
        ("two blanks after the target", 400, line("GET /  HTTP/1.1")),
        ("a tab after the method", 400, line("GET\t/ HTTP/1.1")),
        ("a tab after the target", 400, line("GET /\tHTTP/1.1")),
        ("a blank at the end", 400, line("GET / HTTP/1.1 ")),
        ("a blank at the start", 400, line(" GET / HTTP/1.1")),
        ("a blank in the target", 400, line("GET /a b HTTP/1.1")),
        ("no target", 400, line("GET HTTP/1.1")),
        ("no version", 400, line("GET /")),
        ("HTTP/0.9", 400, "GET /\r\n"),
        ("a method that is not a token", 400, line("G\"ET / HTTP/1.1")),
        ("CONNECT with an authority", 400, line("CONNECT h:443 HTTP/1.1")),
        ("a version in lower case", 400, line("GET / http/1.1")),
        ("a version with a blank", 400, line("GET / HTTP /1.1")),
        ("a version with two digits", 400, line("GET / HTTP/1.10")),
        ("a version with a leading zero", 400, line("GET / HTTP/01.1")),
        ("a version without a dot", 400, line("GET / HTTP/11")),
        ("HTTP/2.0", 400, line("GET / HTTP/2.0")),
        ("the preface of HTTP/2", 400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("a TLS hello", 400, "\u{16}\u{3}\u{1}\u{0}"),

        ("an authority as a target", 400, line("GET h:80 HTTP/1.1")),
        ("a star for a GET", 400, line("GET * HTTP/1.1")),
        ("a relative target", 400, line("GET a/b HTTP/1.1")),
        ("a fragment", 400, line("GET /a#b HTTP/1.1")),
        ("a backslash", 400, line("GET /a\\..\\b HTTP/1.1")),
        ("an angle bracket", 400, line("GET /<a> HTTP/1.1")),
        ("a percent sign alone", 400, line("GET /a% HTTP/1.1")),
        ("a percent sign with one digit", 400, line("GET /%2 HTTP/1.1")),
        ("a percent sign with letters", 400, line("GET /%zz HTTP/1.1")),
        ("a target that is not ASCII", 400, line("GET /ä HTTP/1.1")),
        ("a zero byte in the target", 400, line("GET /a\u{0} HTTP/1.1")),
        ("an absolute target of another host", 400, line("GET http://other/ HTTP/1.1")),
        ("an absolute target with a user", 400, line("GET http://u@h/ HTTP/1.1")),
        ("an absolute target without a host", 400, line("GET http:/// HTTP/1.1")),
        ("an absolute target of another scheme", 400, line("GET ftp://h/ HTTP/1.1")),

        ("no Host", 400, "GET / HTTP/1.1\r\nA: b\r\n\r\n"),
        ("two Hosts", 400, get("Host: h\r\n")),
        ("two Hosts that differ", 400, get("host: other\r\n")),
        ("two Hosts in HTTP/1.0", 400, "GET / HTTP/1.0\r\nHost: h\r\nHost: h\r\n\r\n"),
        ("an empty Host", 400, host(" ")),
        ("a Host with a path", 400, host(" h/p")),
        ("a Host with a user", 400, host(" u@h")),
        ("a Host with a blank", 400, host(" h h")),
        ("a list of Hosts", 400, host(" h, h")),
        ("a Host with a long port", 400, host(" h:65536")),
        ("a Host with an odd port", 400, host(" h:8o")),
        ("a Host with an open bracket", 400, host(" [::1")),
        ("a Host with two ports", 400, host(" h:1:2")),

        ("a chunk size of nothing", 400, chunks("\r\n0\r\n\r\n")),
        ("a signed chunk size", 400, chunks("+3\r\nabc\r\n0\r\n\r\n")),
        ("a chunk size with 0x", 400, chunks("0x3\r\nabc\r\n0\r\n\r\n")),
        ("a chunk size after a blank", 400, chunks(" 3\r\nabc\r\n0\r\n\r\n")),
        ("a chunk size before a blank", 400, chunks("3 \r\nabc\r\n0\r\n\r\n")),
        ("a chunk size and junk", 400, chunks("3 x\r\nabc\r\n0\r\n\r\n")),
        ("a chunk size beyond 64 bits", 413, chunks("10000000000000003\r\nabc\r\n0\r\n\r\n")),
        ("a chunk beyond the limit", 413, chunks("100001\r\n")),
        ("a chunk line with a bare LF", 400, chunks("3\nabc\r\n0\r\n\r\n")),
        ("a chunk that ends with a bare LF", 400, chunks("3\r\nabc\n0\r\n\r\n")),
        ("a chunk longer than its size", 400, chunks("3\r\nabcd\r\n0\r\n\r\n")),
        ("a chunk shorter than its size", 400, chunks("5\r\nabc\r\n0\r\n\r\n0\r\n\r\n")),
        ("a bare CR in an extension", 400, chunks("3;a\rb\r\nabc\r\n0\r\n\r\n")),
        ("a bare LF in an extension", 400, chunks("3;a\nb\r\nabc\r\n0\r\n\r\n")),
        ("a zero byte in an extension", 400, chunks("3;a=\u{0}\r\nabc\r\n0\r\n\r\n")),
        ("an extension without a name", 400, chunks("3;\r\nabc\r\n0\r\n\r\n")),
        ("an extension with an open quote", 400, chunks("3;a=\"b\r\nabc\r\n0\r\n\r\n")),
        (
            "an endless chunk line", 400,
            chunks("3;a=" + String(repeating: "b", count: 300) + "\r\nabc\r\n0\r\n\r\n")
        ),
        (
            "more extensions than body", 413,
            chunks(
                String(
                    repeating: "1;" + String(repeating: "a", count: 250) + "\r\nx\r\n", count: 70))
        ),
        ("a folded trailer", 400, chunks("0\r\nA: b\r\n c\r\n\r\n")),
        ("a trailer with a blank before its colon", 400, chunks("0\r\nA : b\r\n\r\n")),
        ("a trailer with a bare LF", 400, chunks("0\r\nA: b\nC: d\r\n\r\n")),
        ("endless trailers", 431, chunks("0\r\n" + String(repeating: "A: b\r\n", count: 101))),
        (
            "a trailer beyond the head's limit", 431,
            chunks("0\r\nA: \(String(repeating: "b", count: 17_000))\r\n\r\n")
        ),

        ("a long target", 414, line("GET /\(String(repeating: "a", count: 9000)) HTTP/1.1")),
        ("an endless request line", 414, "GET /\(String(repeating: "a", count: 9000))"),
        ("a long field", 431, get("A: \(String(repeating: "a", count: 17_000))\r\n")),
        (
            "many long fields", 431,
            get(String(repeating: "A: \(String(repeating: "a", count: 1000))\r\n", count: 20))
        ),
        ("many fields", 431, get(String(repeating: "A: b\r\n", count: 100))),
        ("many empty lines", 400, String(repeating: "\r\n", count: 9)),
        ("an unknown expectation", 417, post("Expect: tea\r\nContent-Length: 3\r\n", "abc")),
        (
            "two expectations", 417,
            post("Expect: 100-continue, tea\r\nContent-Length: 3\r\n", "abc")
        ),
    ]

    @Test func request_whenItIsNotStrictlyHTTP_isRefusedAndTheConnectionClosed() async throws {
        try await withServer { _, port in
            for (what, status, text) in Self.refused {
                let client = try RawClient(port: port)
                try client.send(text + Self.follower)
                client.endOutput()

                let answer = try client.readToEnd()

                #expect(statuses(answer) == [status], "\(what)")
                #expect(answer.contains("Connection: close\r\n"), "\(what)")
            }
        }
    }

    static let accepted: [(String, String, String)] = [
        ("a GET", "GET / 0", get("")),
        ("blanks around a value", "GET / 0", get("A: \t b \t\r\n")),
        ("a value above ASCII", "GET / 0", get("A: ä\r\n")),
        ("an empty value", "GET / 0", get("A:\r\n")),
        ("empty lines before it", "GET / 0", "\r\n\r\n" + get("")),
        ("HTTP/1.1 with a higher minor version", "GET / 0", line("GET / HTTP/1.2")),
        ("a GET with a body", "GET / 3", get("Content-Length: 3\r\n") + "abc"),
        (
            "a length with zeros", "POST / 3",
            post("Content-Length: 00000000000000000000003\r\n", "abc")
        ),
        ("no body", "POST / 0", post("Content-Length: 0\r\n")),
        ("chunks", "POST / 4", chunks("3\r\nabc\r\n01\r\nd\r\n0\r\n\r\n")),
        (
            "a coding in capitals", "POST / 1",
            post("TRANSFER-ENCODING: CHUNKED\r\n", "1\r\na\r\n0\r\n\r\n")
        ),
        (
            "extensions", "POST / 3",
            chunks("3;a;b=c ; d = \"e;\\\"\"\r\nabc\r\n0;last\r\n\r\n")
        ),
        ("trailers", "POST / 3", chunks("3\r\nabc\r\n0\r\nContent-Length: 9\r\nA: b\r\n\r\n")),
        (
            "a known expectation of nothing", "POST / 0",
            post("Expect: 100-continue\r\nContent-Length: 0\r\n")
        ),
        (
            "a sound target", "GET /a;b=c/%20?d=e&f=/?:@!$'()*+, 0",
            line("GET /a;b=c/%20?d=e&f=/?:@!$'()*+, HTTP/1.1")
        ),
        ("an absolute target", "GET /a?b 0", line("GET http://h/a?b HTTP/1.1")),
        ("an absolute target without a path", "GET /?b 0", line("GET HTTPS://H?b HTTP/1.1")),
        ("a Host with a port", "GET / 0", host("h:8080")),
        ("a Host of version 6", "GET / 0", host("  [::1]:80 ")),
        ("HTTP/1.0 that stays", "GET / 0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
    ]

    @Test func request_whenItIsOddButSound_isAnsweredAndTheConnectionKept() async throws {
        try await withServer { _, port in
            for (what, answer, text) in Self.accepted {
                let client = try RawClient(port: port)
                try client.send(text + Self.follower)

                let all = try client.readToEnd()

                #expect(statuses(all) == [200, 200], "\(what)")
                #expect(all.contains("\r\n\r\n\(answer)HTTP/1.1 200"), "\(what): \(all)")
            }
        }
    }

    static let ended: [(String, String)] = [
        ("close", get("Connection: close\r\n")),
        ("close among others", get("Connection: TE, Close\r\n")),
        ("close in a second field", get("Connection: keep-alive\r\nConnection: close\r\n")),
        ("HTTP/1.0", "GET / HTTP/1.0\r\n\r\n"),
        ("HTTP/1.0 with Host", "GET / HTTP/1.0\r\nHost: h\r\n\r\n"),
        (
            "HTTP/1.0 with an expectation",
            "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na"
        ),
    ]

    @Test func request_whenItAsksForTheEnd_isTheLastOne() async throws {
        try await withServer { _, port in
            for (what, text) in Self.ended {
                let client = try RawClient(port: port)
                try client.send(text + Self.follower)

                let all = try client.readToEnd()

                #expect(statuses(all) == [200], "\(what): \(all)")
                #expect(all.contains("Connection: close\r\n"), "\(what)")
            }
        }
    }

    @Test func optionsOfTheServer_areAnsweredWithoutAHandler() async throws {
        try await withServer { _, port in
            let client = try RawClient(port: port)
            try client.send(Self.line("OPTIONS * HTTP/1.1") + Self.follower)

            #expect(statuses(try client.readToEnd()) == [204, 200])
        }
    }

    @Test func request_whenTheInputEndsInside_isRefused() async throws {
        try await withServer { _, port in
            for text in [
                "GET / HT", "GET / HTTP/1.1\r\nHost", Self.post("Content-Length: 3\r\n", "ab"),
            ] {
                let client = try RawClient(port: port)
                try client.send(text)
                client.endOutput()

                #expect(statuses(try client.readToEnd()) == [400], "\(text)")
            }
        }
    }
}
