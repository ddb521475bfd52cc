extension MessageHead {
    /// Completes a request's head: decides where its body ends, or refuses what is ambiguous.
    static func request(
        _ start: StartLine, minorVersion: Int, headers: HTTPHeaders
    ) throws(HTTPParseError) -> MessageHead {
        let hosts = headers.values("Host").count
        guard hosts == 1 || (hosts == 0 && minorVersion == 0) else {
            throw HTTPParseError(.malformed, "there must be exactly one Host")
        }
        let framing = try declaredFraming(headers, minorVersion: minorVersion) ?? .length(0)
        let expectations = headers.tokens("Expect")
        guard expectations.allSatisfy({ $0 == "100-continue" }) else {
            throw HTTPParseError(.expectationUnknown, "the expectation is not known")
        }
        return MessageHead(
            start: start, minorVersion: minorVersion, headers: headers, framing: framing,
            expectsContinue: !expectations.isEmpty && minorVersion >= 1 && framing != .length(0))
    }

    /// Completes a response's head; `hasNoBody` for an answer to HEAD.
    static func response(
        _ start: StartLine, status: Int, minorVersion: Int, headers: HTTPHeaders, hasNoBody: Bool
    ) throws(HTTPParseError) -> MessageHead {
        let declared = try declaredFraming(headers, minorVersion: minorVersion)
        let isBare = hasNoBody || status < 200 || status == 204 || status == 304
        return MessageHead(
            start: start, minorVersion: minorVersion, headers: headers,
            framing: isBare ? .length(0) : declared ?? .untilClose, expectsContinue: false)
    }

    // Two readers that disagree about a body's end let one request hide inside another: RFC 9112,
    // section 6.3. Whatever could be read in two ways is refused.
    private static func declaredFraming(
        _ headers: HTTPHeaders, minorVersion: Int
    ) throws(HTTPParseError) -> Framing? {
        let lengths = headers.values("Content-Length")
        let codings = headers.values("Transfer-Encoding")
        if let coding = codings.first {
            guard lengths.isEmpty else {
                throw HTTPParseError(.malformed, "Content-Length and Transfer-Encoding together")
            }
            guard codings.count == 1, minorVersion >= 1 else {
                throw HTTPParseError(.malformed, "Transfer-Encoding is out of place")
            }
            guard HTTPHeaders.isSame(coding, "chunked") else {
                throw HTTPParseError(.notImplemented, "only the chunked transfer coding is known")
            }
            return .chunked
        }
        guard let length = lengths.first else { return nil }
        guard lengths.count == 1 else {
            throw HTTPParseError(.malformed, "Content-Length came more than once")
        }
        guard let count = decimal(Array(length.utf8)[...]) else {
            throw HTTPParseError(.malformed, "Content-Length is not a number")
        }
        return .length(count)
    }
}
