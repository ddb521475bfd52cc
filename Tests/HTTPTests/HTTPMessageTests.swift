import Testing

@testable import HTTP

@Suite struct HTTPMessageTests {
    @Test func headers_withAnyCase_areTheSameField() {
        var headers = HTTPHeaders([("Content-Type", "a"), ("X", "1"), ("x", "2")])

        headers["content-type"] = "b"

        #expect(headers["CONTENT-TYPE"] == "b")
        #expect(headers.values("X") == ["1", "2"])
        #expect(headers.pairs.count == 3)
    }

    @Test func request_withQuery_isDecoded() {
        let request = HTTPRequest(method: "GET", target: "/a%20b/%zz//c?x=1+2&x=%C3%A4&y&z=a=b")

        #expect(request.path == "/a%20b/%zz//c")
        #expect(request.pathSegments == ["a b", "%zz", "c"])
        #expect(request.query == ["x": ["1 2", "ä"], "y": [""], "z": ["a=b"]])
    }

    @Test func percentCoding_ofAnyText_comesBack() {
        let text = "a/b?c=d&e%ä 日~"

        let encoded = PercentCoding.encode(text)

        #expect(encoded == "a%2Fb%3Fc%3Dd%26e%25%C3%A4%20%E6%97%A5~")
        #expect(HTTPRequest(method: "GET", target: "/\(encoded)").pathSegments == [text])
    }

    @Test func response_withABrokenField_becomesAnError() {
        let forged = HTTPResponse(status: 200, headers: HTTPHeaders([("A", "b\r\nSet-Cookie: c")]))

        let bytes = MessageWriter.bytes(forged, isHead: false, keepsAlive: true)

        #expect(String(decoding: bytes, as: UTF8.self).hasPrefix("HTTP/1.1 500 "))
    }

    @Test func request_withABrokenPart_isNotWritten() {
        let broken = [
            HTTPRequest(method: "GE T", target: "/"), HTTPRequest(method: "GET", target: "/a b"),
            HTTPRequest(method: "GET", target: "a"),
            HTTPRequest(method: "GET", target: "/", headers: HTTPHeaders([("A", "\n")])),
        ]

        #expect(broken.allSatisfy { MessageWriter.bytes($0, host: "h") == nil })
    }

    static let badURLs = [
        "", "ftp://h", "http://example.org", "https://", "https://h:0", "https://h:65536",
        "https://h:x", "https://u@h", "https://h/path", "https://h?q", "https://[::1",
        "https://a b",
        "https://[fe80", "http://127.0.0.1.evil.example",
    ]

    @Test(arguments: badURLs)
    func origin_withABadURL_isRefused(text: String) {
        let error = #expect(throws: HTTPClientError.self) { try Origin(text) }

        #expect(error?.code == .badURL)
    }

    @Test func origin_withAGoodURL_isTakenApart() throws {
        #expect(try Origin("https://api.example.org").hostField == "api.example.org")
        #expect(try Origin("https://[::1]:8443/").hostField == "[::1]:8443")
        #expect(try Origin("HTTP://localhost:80").port == 80)
    }
}
