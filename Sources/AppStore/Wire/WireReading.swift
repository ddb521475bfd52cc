internal import JSON
internal import Pricing

/// An object of Apple's JSON, read field by field under the App Store's names. A field that is absent, null or of an
/// unexpected type is nil. Codes and enumerations are kept raw.
///
/// The App Store adds and changes fields without notice, and one odd field must not lose a whole event. `json` keeps
/// what was written.
protocol WireObject: Sendable {
    var json: JSONNode { get }

    init(json: JSONNode)
}

extension WireObject {
    /// nil where the value is no object.
    init?(_ json: JSONNode) {
        guard json.kind == .object else { return nil }
        self.init(json: json)
    }
}

/// Text that PostgreSQL can store: a `text` column cannot hold U+0000, it becomes U+FFFD in every
/// field that we extract. The raw JWS, which is base64url, keeps what was signed.
func storable(_ text: String) -> String {
    guard text.utf8.contains(0) else { return text }
    return String(
        String.UnicodeScalarView(text.unicodeScalars.map { $0 == "\0" ? "\u{FFFD}" : $0 }))
}

/// The longest `JSONNode.word`, in Unicode characters of 4 bytes at most.
private let wordLengthMax = 200

extension JSONNode {
    var storableText: String? { text.map(storable) }

    /// The `appAccountToken` of a customer. A text that is no UUID, or is all zeros, is no token: otherwise two
    /// subscriptions that have it would count as one customer's ("appAccountToken" of Create a Subscription may be an
    /// empty string).
    var customerToken: String? {
        guard let text = storableText, text.isUUID, text.contains(where: { $0 != "0" && $0 != "-" })
        else { return nil }
        return text
    }

    /// A name that is a single word in Apple's payloads, cut to a length that fits into an index with another column.
    /// The raw JWS keeps the rest.
    var word: String? {
        guard let text = storableText, text.utf8.count > wordLengthMax else { return storableText }
        return String(String.UnicodeScalarView(text.unicodeScalars.prefix(wordLengthMax)))
    }

    /// UTC milliseconds; a fraction is cut off.
    var instant: Instant? { int64RoundedDown.map(Instant.init(milliseconds:)) }

    var int: Int? { int64.flatMap(Int.init(exactly:)) }

    /// The texts of an array. Elements that are no texts are left out.
    var texts: [String]? { elements?.compactMap(\.storableText) }

    func object(_ name: StaticString) -> JSONNode? {
        self[name].flatMap { $0.kind == .object ? $0 : nil }
    }
}
