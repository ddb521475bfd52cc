/// An optional field that never fails: absent, null, or of another type than we know all read as
/// nil.
///
/// The App Store adds and changes fields without notice; one odd field must not lose a whole event.
@propertyWrapper
struct Lenient<Value: Decodable>: Decodable {
    var wrappedValue: Value?

    init(wrappedValue: Value?) {
        self.wrappedValue = wrappedValue
    }

    init(from decoder: any Decoder) throws {
        // Any failure means "not a value that we understand", which is the same as absent.
        wrappedValue = try? decoder.singleValueContainer().decode(Value.self)
    }
}

extension KeyedDecodingContainer {
    /// The synthesised decoders of the wire models call this for each `@Lenient` field.
    func decode<Value>(_ type: Lenient<Value>.Type, forKey key: Key) throws -> Lenient<Value> {
        // See `Lenient.init(from:)`: an odd field counts as absent.
        (try? decodeIfPresent(type, forKey: key)) ?? Lenient(wrappedValue: nil)
    }
}

/// Text that PostgreSQL can store.
///
/// A `text` column cannot hold U+0000: it becomes U+FFFD here, in every field that we extract. The
/// raw JWS, which is base64url, keeps what was signed.
struct WireText: Decodable {
    var text: String

    init(from decoder: any Decoder) throws {
        text = Self.storable(try decoder.singleValueContainer().decode(String.self))
    }

    static func storable(_ text: String) -> String {
        guard text.utf8.contains(0) else { return text }
        return String(
            String.UnicodeScalarView(text.unicodeScalars.map { $0 == "\0" ? "\u{FFFD}" : $0 }))
    }
}

/// UTC milliseconds; a fraction is cut off.
struct WireInstant: Decodable {
    var milliseconds: Int64

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        // Whole numbers first: they must not pass through floating point.
        if let whole = try? container.decode(Int64.self) {
            milliseconds = whole
            return
        }
        let fraction = try container.decode(Double.self)
        guard let whole = Int64(exactly: fraction.rounded(.down)) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "no instant in range")
        }
        milliseconds = whole
    }
}

/// An array whose unreadable elements are counted instead of failing.
struct WireList<Element: Decodable>: Decodable {
    var elements: [Element] = []
    var unreadable = 0

    init(from decoder: any Decoder) throws {
        var container = try decoder.unkeyedContainer()
        while !container.isAtEnd {
            if let element = try container.decode(Lenient<Element>.self).wrappedValue {
                elements.append(element)
            } else {
                unreadable += 1
            }
        }
    }
}
