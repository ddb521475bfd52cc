import ServiceKit

/// The target of a request line: RFC 9112, section 3.2.
///
/// The origin form (`/path?query`), the absolute form that a proxy sends, and `*` for OPTIONS. The
/// authority form belongs to CONNECT, which is not served.
struct RequestTarget {
    /// The path with its query, or `*`.
    let path: String
    /// The host and port of an absolute form.
    let authority: String?

    /// nil where RFC 3986 does not allow the bytes there, a stray percent sign included.
    init?(_ bytes: ArraySlice<UInt8>, method: String) {
        if bytes.first == UInt8(ascii: "/") {
            guard Self.isPath(bytes) else { return nil }
            path = String(decoding: bytes, as: UTF8.self)
            authority = nil
            return
        }
        if bytes.elementsEqual([UInt8(ascii: "*")]) {
            guard method == "OPTIONS" else { return nil }
            path = "*"
            authority = nil
            return
        }
        guard let rest = Self.afterScheme(bytes) else { return nil }
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") }
        let host = rest[..<(end ?? rest.endIndex)]
        let tail = rest[(end ?? rest.endIndex)...]
        guard Self.isAuthority(host), Self.isPath(tail) else { return nil }
        let text = String(decoding: tail, as: UTF8.self)
        path = text.hasPrefix("/") ? text : "/" + text
        authority = String(decoding: host, as: UTF8.self)
    }

    private static func afterScheme(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        for scheme in ["http://", "https://"] {
            let head = String(decoding: bytes.prefix(scheme.utf8.count), as: UTF8.self)
            if HTTPHeaders.isSame(head, scheme) { return bytes.dropFirst(scheme.utf8.count) }
        }
        return nil
    }

    /// Characters of a path and its query.
    private static func isPath(_ bytes: ArraySlice<UInt8>) -> Bool {
        isEncoded(bytes) { byte in
            HTTPCharacters.isUnreservedOrDelimiter(byte) || byte == UInt8(ascii: "/")
                || byte == UInt8(ascii: "?") || byte == UInt8(ascii: ":")
                || byte == UInt8(ascii: "@")
        }
    }

    /// Whether the bytes are `host` or `host:port`: no user, no path, not empty.
    static func isAuthority(_ bytes: ArraySlice<UInt8>) -> Bool {
        var port = bytes[bytes.endIndex...]
        var host = bytes
        if bytes.first == UInt8(ascii: "[") {
            guard let end = bytes.firstIndex(of: UInt8(ascii: "]")) else { return false }
            port = bytes[(end + 1)...]
            host = bytes[(bytes.startIndex + 1)..<end]
            let isAddress = { (byte: UInt8) in
                byte == UInt8(ascii: ":") || byte == UInt8(ascii: ".")
                    || Hex.value(of: byte) != nil
            }
            guard host.allSatisfy(isAddress) else { return false }
        } else {
            if let colon = bytes.firstIndex(of: UInt8(ascii: ":")) {
                host = bytes[..<colon]
                port = bytes[colon...]
            }
            guard isEncoded(host, HTTPCharacters.isUnreservedOrDelimiter) else { return false }
        }
        guard !host.isEmpty else { return false }
        guard let colon = port.first else { return true }
        let digits = port.dropFirst()
        return colon == UInt8(ascii: ":")
            && (digits.isEmpty || MessageHead.decimal(digits).map { $0 <= 65_535 } == true)
    }

    /// Whether each byte is allowed or part of a valid percent encoding.
    private static func isEncoded(
        _ bytes: ArraySlice<UInt8>, _ isAllowed: (UInt8) -> Bool
    ) -> Bool {
        var position = bytes.startIndex
        while position < bytes.endIndex {
            if bytes[position] == UInt8(ascii: "%") {
                let digits = bytes[(position + 1)...].prefix(2)
                guard digits.count == 2,
                    digits.allSatisfy({ Hex.value(of: $0) != nil })
                else { return false }
                position += 3
            } else {
                guard isAllowed(bytes[position]) else { return false }
                position += 1
            }
        }
        return true
    }
}
