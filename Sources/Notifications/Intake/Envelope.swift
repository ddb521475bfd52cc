import JSON

/// `{"signedPayload":"…"}`: the body of a notification, and a line of a file.
enum Envelope {
    /// The limits of a body or a line. An envelope is never deeply nested.
    private static let limits = JSONDocument.Limits(bytesMax: 1 << 20, depthMax: 32)
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// The codes that say why there is no payload.
    static let codes = ["not_json", "no_signed_payload", "two_signed_payloads"]

    /// The payload, or why there is none. It never quotes the input.
    ///
    /// Two payloads are refused, because we would have to guess which one the sender meant, and a program on the way
    /// may have read the other one.
    static func payload(in bytes: some Sequence<UInt8>) -> Result<String, NotificationRefusal> {
        var text = Array(bytes)
        // RFC 8259 section 8.1 lets a reader ignore the byte order mark, and some senders' libraries write one.
        if text.starts(with: byteOrderMark) { text.removeFirst(byteOrderMark.count) }
        guard let json = JSONDocument.read(text, limits: limits) else {
            return refusal("not_json", "the body is not a JSON object in UTF-8")
        }
        guard let payload = json["signedPayload"]?.text else {
            return refusal(
                "no_signed_payload", "the JSON object must carry the text signedPayload")
        }
        guard json.count(of: "signedPayload") == 1 else {
            return refusal("two_signed_payloads", "the JSON object carries signedPayload twice")
        }
        return .success(payload)
    }

    private static func refusal(
        _ code: String, _ message: String
    ) -> Result<String, NotificationRefusal> {
        .failure(NotificationRefusal(.malformed, code: code, message: message))
    }
}
