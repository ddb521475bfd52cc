/// A JWS in compact form, split and decoded, not yet believed.
package struct CompactJWS: Sendable {
    /// The most that any caller accepts: the receiver's body limit.
    package static let sizeMax = 1 << 20

    private let text: [UInt8]
    private let headerEnd: Int
    private let payloadEnd: Int
    /// The decoded header: JSON, not yet parsed.
    package let header: [UInt8]
    /// The decoded payload.
    package let payload: [UInt8]
    /// The decoded signature, of any length.
    package let signature: [UInt8]

    /// Splits three base64url parts; throws `.tooLarge` above `limit` bytes, else `.malformed`.
    package init(parsing text: String, limit: Int = CompactJWS.sizeMax) throws(JOSEError) {
        guard text.utf8.count <= limit else {
            throw JOSEError(.tooLarge, "\(text.utf8.count) bytes, at most \(limit) are accepted")
        }
        try self.init(bytes: Array(text.utf8))
    }

    private init(bytes: [UInt8]) throws(JOSEError) {
        let dot = UInt8(ascii: ".")
        guard let first = bytes.firstIndex(of: dot),
            let second = bytes[(first + 1)...].firstIndex(of: dot),
            !bytes[(second + 1)...].contains(dot)
        else { throw JOSEError(.malformed, "not three parts joined by dots") }
        guard let header = Base64URL.decode(bytes[..<first]), !header.isEmpty,
            let payload = Base64URL.decode(bytes[(first + 1)..<second]),
            let signature = Base64URL.decode(bytes[(second + 1)...])
        else { throw JOSEError(.malformed, "a part is not base64url without padding") }
        self.text = bytes
        self.headerEnd = first
        self.payloadEnd = second
        self.header = header
        self.payload = payload
        self.signature = signature
    }

    /// What the signature covers: the first two parts as they were sent.
    package var signingInput: ArraySlice<UInt8> { text[..<payloadEnd] }
}

/// Signs `payload` under the JSON `header` and joins the three parts.
package func signCompactJWS(
    header: [UInt8], payload: [UInt8], key: ES256PrivateKey
) throws(JOSEError) -> String {
    let input = "\(Base64URL.encode(header)).\(Base64URL.encode(payload))"
    return "\(input).\(Base64URL.encode(try key.signature(over: Array(input.utf8))))"
}
