package import JSONReading
internal import Pricing

/// Apple's JSON, read field by field: absent, null and of another type than we know are all nil.
///
/// The App Store adds and changes fields without notice; one odd field must not lose a whole event.
/// What was written stays in `json`.
package protocol WireObject: Sendable {
    var json: JSONNode { get }

    /// nil where the value is no object, or lacks what it cannot be without.
    init?(_ json: JSONNode)
}

/// An array, the unreadable elements of which are counted instead of failing.
package struct WireList<Element: Sendable>: Sendable {
    package var elements: [Element] = []
    package var unreadable = 0

    init?(_ json: JSONNode?, _ read: (JSONNode) -> Element?) {
        guard let values = json?.elements else { return nil }
        for value in values {
            if let element = read(value) { elements.append(element) } else { unreadable += 1 }
        }
    }
}

/// Text that PostgreSQL can store: a `text` column cannot hold U+0000, it becomes U+FFFD in every
/// field that we extract. The raw JWS, which is base64url, keeps what was signed.
func storable(_ text: String) -> String {
    guard text.utf8.contains(0) else { return text }
    return String(
        String.UnicodeScalarView(text.unicodeScalars.map { $0 == "\0" ? "\u{FFFD}" : $0 }))
}

/// Of `JSONNode.word`, in characters of Unicode, each of 4 bytes at most.
private let wordLengthMax = 200

extension JSONNode {
    var storableText: String? { text.map(storable) }

    /// A name that is one word wherever Apple writes it, cut to what an index takes beside another. The raw JWS
    /// keeps the rest.
    var word: String? {
        guard let text = storableText, text.utf8.count > wordLengthMax else { return storableText }
        return String(String.UnicodeScalarView(text.unicodeScalars.prefix(wordLengthMax)))
    }

    /// UTC milliseconds; a fraction is cut off.
    var instant: Instant? { int64RoundedDown.map(Instant.init(milliseconds:)) }

    var int: Int? { int64.flatMap(Int.init(exactly:)) }

    func object<Model: WireObject>(_ name: StaticString, _ type: Model.Type = Model.self) -> Model?
    {
        self[name].flatMap(type.init)
    }

    func list<Model: WireObject>(
        _ name: StaticString, _ type: Model.Type = Model.self
    ) -> WireList<Model>? {
        WireList(self[name], type.init)
    }

    func texts(_ name: StaticString) -> WireList<String>? {
        WireList(self[name], \.storableText)
    }
}
