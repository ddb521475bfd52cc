extension MessageHead {
    /// Completes a request's head: decides where its body ends, or refuses an ambiguous head.
    static func request(
        _ start: StartLine, minorVersion: Int, headers: HTTPHeaders
    ) throws(HTTPParseError) -> MessageHead {
        try checkHost(headers.values("Host"), start, minorVersion: minorVersion)
        let declared = try declaredFraming(headers, minorVersion: minorVersion)
        if declared == nil, case .request(let method, _, _) = start,
            methodsWithBody.contains(method)
        {
            throw HTTPParseError(.lengthRequired, "\(method) needs a Content-Length")
        }
        let framing = declared ?? .length(0)
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

    // Where two readers disagree about a body's end, one request can hide inside another (RFC 9112, section 6.3). So
    // every head that could be read in two ways is refused.
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
            // A body whose last coding is not chunked has no detectable end, and no other coding is supported.
            guard HTTPHeaders.isSame(coding, "chunked") else {
                throw HTTPParseError(.malformed, "only the chunked transfer coding is known")
            }
            return .chunked
        }
        guard let length = lengths.first else { return nil }
        guard lengths.count == 1 else {
            throw HTTPParseError(.malformed, "Content-Length came more than once")
        }
        guard let count = decimal(length.utf8) else {
            throw HTTPParseError(.malformed, "Content-Length is not a number")
        }
        return .length(count)
    }

    /// Requires exactly one valid Host; an absolute target must name the same host.
    ///
    /// RFC 9112, section 3.2.2 lets a server use the target instead of Host. Here two different names are refused: a
    /// proxy before this server may have used the other one.
    private static func checkHost(
        _ hosts: [String], _ start: StartLine, minorVersion: Int
    ) throws(HTTPParseError) {
        guard hosts.count == 1 || (hosts.isEmpty && minorVersion == 0) else {
            throw HTTPParseError(.malformed, "there must be exactly one Host")
        }
        guard let host = hosts.first else { return }
        guard RequestTarget.isAuthority(Array(host.utf8)[...]) else {
            throw HTTPParseError(.malformed, "Host is not a host and port")
        }
        if case .request(_, _, .some(let authority)) = start,
            !HTTPHeaders.isSame(authority, host)
        {
            throw HTTPParseError(.malformed, "Host and the target name different hosts")
        }
    }
}
