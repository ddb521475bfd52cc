/// Messages as bytes.
enum MessageWriter {
    /// A response with its framing; one that would break the framing becomes a bare 500.
    static func bytes(
        _ response: HTTPResponse, isHead: Bool, keepsAlive: Bool, date: String? = nil
    ) -> [UInt8] {
        var headers = response.headers
        let isSound =
            (200...599).contains(response.status)
            && headers.pairs.allSatisfy(HTTPCharacters.isWritable)
        guard isSound else {
            return bytes(
                HTTPResponse(status: 500), isHead: isHead, keepsAlive: keepsAlive, date: date)
        }
        let hasBody = response.status != 204 && response.status != 304
        headers["Transfer-Encoding"] = nil
        headers["Content-Length"] = hasBody ? String(response.body.count) : nil
        headers["Connection"] = keepsAlive ? "keep-alive" : "close"
        if let date, headers["Date"] == nil { headers["Date"] = date }
        let status = response.status
        var bytes = head("HTTP/1.1 \(status) \(HTTPResponse.reason(status))", headers)
        if hasBody && !isHead { bytes += response.body }
        return bytes
    }

    /// A request for `host`; nil when its method, target or a field would break the message.
    ///
    /// The body is sent with its length, or in one chunk when the caller asks for that coding.
    static func bytes(_ request: HTTPRequest, host: String) -> [UInt8]? {
        var headers = request.headers
        guard !request.method.isEmpty, request.method.utf8.allSatisfy(HTTPCharacters.isToken),
            request.target.hasPrefix("/"), request.target.utf8.allSatisfy(HTTPCharacters.isTarget),
            headers.pairs.allSatisfy(HTTPCharacters.isWritable)
        else { return nil }
        headers["Host"] = host
        headers["Content-Length"] = nil
        let isChunked = headers["Transfer-Encoding"] != nil
        if isChunked {
            headers["Transfer-Encoding"] = "chunked"
        } else if !request.body.isEmpty || ["POST", "PUT", "PATCH"].contains(request.method) {
            headers["Content-Length"] = String(request.body.count)
        }
        var bytes = head("\(request.method) \(request.target) HTTP/1.1", headers)
        guard isChunked else { return bytes + request.body }
        if !request.body.isEmpty {
            bytes += Array("\(String(request.body.count, radix: 16))\r\n".utf8)
            bytes += request.body
            bytes += Array("\r\n".utf8)
        }
        return bytes + Array("0\r\n\r\n".utf8)
    }

    private static func head(_ startLine: String, _ headers: HTTPHeaders) -> [UInt8] {
        let fields = headers.pairs.map { "\($0.name): \($0.value)\r\n" }.joined()
        return Array("\(startLine)\r\n\(fields)\r\n".utf8)
    }
}
