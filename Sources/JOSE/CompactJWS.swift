internal import Glibc

/// A JWS in compact form, split and decoded, but not verified.
package struct CompactJWS: Sendable {
    /// The most bytes that any caller accepts: the receiver's body limit.
    package static let sizeMax = 1 << 20

    /// The decoded header: JSON, not yet parsed.
    package let header: [UInt8]
    /// The decoded payload.
    package let payload: [UInt8]
    /// The decoded signature, of any length.
    package let signature: [UInt8]
    /// What the signature covers: the first two parts as they were sent.
    package let signingInput: [UInt8]

    /// Splits three base64url parts; throws `.tooLarge` above `limit` bytes, else `.malformed`.
    package init(parsing text: String, limit: Int = CompactJWS.sizeMax) throws(JOSEError) {
        try self.init(parsing: text.utf8Span.span, limit: limit)
    }

    /// Splits three base64url parts; throws `.tooLarge` above `limit` bytes, else `.malformed`.
    package init(
        parsing text: Span<UInt8>, limit: Int = CompactJWS.sizeMax
    ) throws(JOSEError) {
        (header, payload, signature, signingInput) = try text.withUnsafeBufferPointer {
            text throws(JOSEError) in
            let parts = try JWSParts(text, limit: limit)
            return (
                try parts.decodedHeader(), try parts.decodedPayload(),
                try parts.decodedSignature(), Array(parts.signingInput)
            )
        }
    }
}

/// The three parts of a compact JWS, as pointers into its text. It must not outlive the text.
struct JWSParts {
    let header: UnsafeBufferPointer<UInt8>
    let payload: UnsafeBufferPointer<UInt8>
    let signature: UnsafeBufferPointer<UInt8>
    /// What the signature covers: the first two parts as they were sent.
    let signingInput: UnsafeBufferPointer<UInt8>

    init(_ text: UnsafeBufferPointer<UInt8>, limit: Int) throws(JOSEError) {
        guard text.count <= limit else {
            throw JOSEError(.tooLarge, "\(text.count) bytes, at most \(limit) are accepted")
        }
        guard let first = Self.dot(in: text, from: 0), first > 0,
            let second = Self.dot(in: text, from: first + 1),
            Self.dot(in: text, from: second + 1) == nil
        else { throw JOSEError(.malformed, "not three parts joined by dots") }
        header = Self.part(text, 0..<first)
        payload = Self.part(text, (first + 1)..<second)
        signature = Self.part(text, (second + 1)..<text.count)
        signingInput = Self.part(text, 0..<second)
    }

    private static func part(
        _ text: UnsafeBufferPointer<UInt8>, _ range: Range<Int>
    ) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: text[range])
    }

    private static func dot(in text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        guard start < text.count, let base = UnsafeRawPointer(text.baseAddress) else { return nil }
        let found = memchr(base + start, Int32(UInt8(ascii: ".")), text.count - start)
        return found.map { UnsafeRawPointer($0) - base }
    }

    func decodedHeader() throws(JOSEError) -> [UInt8] { try Self.decoded(header) }
    func decodedPayload() throws(JOSEError) -> [UInt8] { try Self.decoded(payload) }
    func decodedSignature() throws(JOSEError) -> [UInt8] { try Self.decoded(signature) }

    private static func decoded(_ part: UnsafeBufferPointer<UInt8>) throws(JOSEError) -> [UInt8] {
        guard let bytes = Base64URL.decode(part) else {
            throw JOSEError(.malformed, "a part is not base64url without padding")
        }
        return bytes
    }
}

/// Signs `payload` under the JSON `header` and joins the three parts.
package func signCompactJWS(
    header: [UInt8], payload: [UInt8], key: ES256PrivateKey
) throws(JOSEError) -> String {
    let input = "\(Base64URL.encode(header)).\(Base64URL.encode(payload))"
    return "\(input).\(Base64URL.encode(try key.signature(over: Array(input.utf8))))"
}
