/// Header fields in the order of arrival. Names are compared without regard to case.
package struct HTTPHeaders: Sendable {
    package private(set) var pairs: [(name: String, value: String)]

    package init(_ pairs: [(String, String)] = []) {
        self.pairs = pairs.map { (name: $0.0, value: $0.1) }
    }

    /// The first value of a field; setting replaces all of them, nil removes them.
    package subscript(name: String) -> String? {
        get { pairs.first { Self.isSame($0.name, name) }?.value }
        set {
            pairs.removeAll { Self.isSame($0.name, name) }
            if let newValue { pairs.append((name, newValue)) }
        }
    }

    /// Every value of a field, one for each time that it occurs.
    package func values(_ name: String) -> [String] {
        pairs.filter { Self.isSame($0.name, name) }.map(\.value)
    }

    /// Adds a value to those that exist.
    package mutating func append(_ name: String, _ value: String) {
        pairs.append((name, value))
    }

    /// The members of a comma-separated field, in lower case.
    func tokens(_ name: String) -> [String] {
        values(name).flatMap { $0.split(separator: ",") }
            .map { Self.trimmed($0).lowercased() }
    }

    private static func trimmed(_ text: Substring) -> Substring {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        let start = text.drop(while: isBlank)
        return start.lastIndex { !isBlank($0) }.map { start[...$0] } ?? ""
    }

    static func isSame(_ left: String, _ right: String) -> Bool {
        left.utf8.count == right.utf8.count
            && zip(left.utf8, right.utf8).allSatisfy { lowercase($0) == lowercase($1) }
    }

    private static func lowercase(_ byte: UInt8) -> UInt8 {
        (0x41...0x5A).contains(byte) ? byte + 0x20 : byte
    }
}

/// The character classes of RFC 9110 that both directions need.
enum HTTPCharacters {
    static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E...0x60, 0x7C, 0x7E: true
        default: false
        }
    }

    /// Whether the byte is a visible character, a blank or above ASCII, and so neither a line end nor a zero byte.
    static func isFieldValue(_ byte: UInt8) -> Bool {
        byte == 0x09 || (byte >= 0x20 && byte != 0x7F)
    }

    static func isTarget(_ byte: UInt8) -> Bool {
        (0x21...0x7E).contains(byte)
    }

    /// Whether the byte is among the "unreserved" and "sub-delims" of RFC 3986.
    static func isUnreservedOrDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
        case 0x21, 0x24, 0x26...0x2C, 0x3B, 0x3D: true
        default: false
        }
    }

    /// Whether a field can be written without breaking the message apart.
    static func isWritable(name: String, value: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy(isToken) && value.utf8.allSatisfy(isFieldValue)
    }
}
