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

    /// A request for `host`, with its length; nil when its method, target or a field would break the message.
    static func bytes(_ request: HTTPRequest, host: String) -> [UInt8]? {
        var headers = request.headers
        guard !request.method.isEmpty, request.method.utf8.allSatisfy(HTTPCharacters.isToken),
            request.target.hasPrefix("/"), request.target.utf8.allSatisfy(HTTPCharacters.isTarget),
            headers.pairs.allSatisfy(HTTPCharacters.isWritable)
        else { return nil }
        headers["Host"] = host
        headers["Transfer-Encoding"] = nil
        let hasLength =
            !request.body.isEmpty || MessageHead.methodsWithBody.contains(request.method)
        headers["Content-Length"] = hasLength ? String(request.body.count) : nil
        return head("\(request.method) \(request.target) HTTP/1.1", headers) + request.body
    }

    private static func head(_ startLine: String, _ headers: HTTPHeaders) -> [UInt8] {
        let fields = headers.pairs.map { "\($0.name): \($0.value)\r\n" }.joined()
        return Array("\(startLine)\r\n\(fields)\r\n".utf8)
    }
}
