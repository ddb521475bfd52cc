import ServiceKit

/// The start line and the fields of a message, and what they mean for the connection.
struct MessageHead: Sendable {
    enum StartLine: Sendable, Equatable {
        /// `authority` is what an absolute target names beside the path.
        case request(method: String, target: String, authority: String? = nil)
        case response(status: Int)
    }

    /// How the end of the body is found.
    enum Framing: Sendable, Equatable {
        case length(Int)
        case chunked
        case untilClose
    }

    let start: StartLine
    let minorVersion: Int
    let headers: HTTPHeaders
    let framing: Framing
    let expectsContinue: Bool

    /// Whether the sender keeps the connection open after this message.
    var keepsAlive: Bool {
        let options = headers.tokens("Connection")
        if options.contains("close") || framing == .untilClose { return false }
        return minorVersion >= 1 || options.contains("keep-alive")
    }
}

/// Limits of one message; beyond them parsing fails instead of holding more memory.
struct MessageLimits: Sendable {
    var startLineBytesMax = 8 * 1024
    var headBytesMax = 16 * 1024
    var fieldsMax = 100
    var bodyBytesMax = 1 << 20
}

extension MessageHead {
    /// Methods whose meaning is their body: without a length a missing body could not be detected.
    static let methodsWithBody: Set<String> = ["POST", "PUT", "PATCH"]

    /// Reads `METHOD target HTTP/1.1`. The routes decide what a method means, because they know what to allow.
    static func requestLine(
        _ line: ArraySlice<UInt8>
    ) throws(HTTPParseError) -> (StartLine, minorVersion: Int) {
        let parts = line.split(separator: 0x20, omittingEmptySubsequences: false)
        guard parts.count == 3, let method = parts.first, let target = parts.dropFirst().first,
            let version = parts.last
        else { throw HTTPParseError(.malformed, "the request line does not have three parts") }
        guard !method.isEmpty, method.allSatisfy(HTTPCharacters.isToken) else {
            throw HTTPParseError(.malformed, "the method is not a token")
        }
        let minor = try minorVersion(version)
        let name = String(decoding: method, as: UTF8.self)
        guard let parsed = RequestTarget(target, method: name) else {
            throw HTTPParseError(.malformed, "the target is not a path, or must be encoded")
        }
        return (.request(method: name, target: parsed.path, authority: parsed.authority), minor)
    }

    /// Reads `HTTP/1.1 200 OK`; the phrase may be missing.
    static func statusLine(
        _ line: ArraySlice<UInt8>
    ) throws(HTTPParseError) -> (StartLine, minorVersion: Int) {
        let parts = line.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        guard let version = parts.first, let code = parts.dropFirst().first, code.count == 3,
            let status = decimal(code), (100...599).contains(status),
            parts.last?.allSatisfy(HTTPCharacters.isFieldValue) == true
        else { throw HTTPParseError(.malformed, "the status line is not HTTP") }
        return (.response(status: status), try minorVersion(version))
    }

    private static func minorVersion(_ text: ArraySlice<UInt8>) throws(HTTPParseError) -> Int {
        let digits = Array(text.suffix(3))
        guard text.count == 8, text.starts(with: "HTTP/".utf8), let major = digits.first,
            let minor = digits.last, digits[1] == 0x2E, (0x30...0x39).contains(major),
            (0x30...0x39).contains(minor)
        else { throw HTTPParseError(.malformed, "the version is not HTTP") }
        guard major == 0x31 else {
            throw HTTPParseError(.malformed, "only HTTP 1.0 and 1.1 are spoken")
        }
        return Int(minor - 0x30)
    }

    /// Reads `Name: value`.
    static func field(
        _ line: ArraySlice<UInt8>
    ) throws(HTTPParseError) -> (name: String, value: String) {
        guard let colon = line.firstIndex(of: 0x3A) else {
            throw HTTPParseError(.malformed, "a header line has no colon")
        }
        let name = line[..<colon]
        // A folded line, or a blank before the colon, is how requests are smuggled past a proxy.
        guard !name.isEmpty, name.allSatisfy(HTTPCharacters.isToken) else {
            throw HTTPParseError(.malformed, "a header name is not a token")
        }
        let isBlank = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
        let start = line[line.index(after: colon)...].drop(while: isBlank)
        let value = start.lastIndex { !isBlank($0) }.map { start[...$0] } ?? []
        guard value.allSatisfy(HTTPCharacters.isFieldValue) else {
            throw HTTPParseError(.malformed, "a header value holds a control character")
        }
        return (String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
    }

    /// A number of digits only. `Int.max` stands for every number that is larger.
    static func decimal(_ digits: some Collection<UInt8>) -> Int? {
        number(digits, radix: 10)
    }

    /// The same in base sixteen.
    static func hexadecimal(_ digits: some Collection<UInt8>) -> Int? {
        number(digits, radix: 16)
    }

    private static func number(_ digits: some Collection<UInt8>, radix: Int) -> Int? {
        // A sign is no digit.
        let isDigit = { (byte: UInt8) in Hex.value(of: byte).map { $0 < radix } ?? false }
        guard !digits.isEmpty, digits.allSatisfy(isDigit) else { return nil }
        return Int(String(decoding: digits, as: UTF8.self), radix: radix) ?? .max
    }
}
