import FoundationEssentials

/// `{"signedPayload":"…"}`: the body of a notification, and a line of a file.
struct Envelope: Decodable {
    let signedPayload: String

    /// The payload, or why there is none; never quotes the input.
    static func payload(in bytes: some Sequence<UInt8>) -> Result<String, NotificationRefusal> {
        do {
            let envelope = try JSONDecoder().decode(Envelope.self, from: Data(bytes))
            return .success(envelope.signedPayload)
        } catch DecodingError.keyNotFound, DecodingError.valueNotFound, DecodingError.typeMismatch {
            return .failure(
                NotificationRefusal(
                    .malformed, code: "no_signed_payload",
                    message: "the JSON object must carry the text signedPayload"))
        } catch {
            return .failure(
                NotificationRefusal(
                    .malformed, code: "not_json", message: "the body is not a JSON object in UTF-8")
            )
        }
    }
}
