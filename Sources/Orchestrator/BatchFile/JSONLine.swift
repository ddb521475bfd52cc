/// A value of a batch line, as far as batches have values.
enum BatchCell: Hashable {
    case text(String)
    /// A number as it was written.
    case number(String)
    case texts([String])
    /// `true` or `false`: no column takes one.
    case flag
}

/// Reads one NDJSON line: an object of texts, numbers and arrays of texts.
struct JSONLine {
    struct Malformed: Error, Hashable {
        var message: String
    }

    private let bytes: [UInt8]
    private var position = 0

    private init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The members; one that is null is left out, as if it were not there.
    static func members(_ bytes: [UInt8]) throws(Malformed) -> [String: BatchCell] {
        var line = JSONLine(bytes)
        let members = try line.object()
        line.skipBlanks()
        guard line.position == bytes.count else {
            throw Malformed(message: "there is more than one JSON object in the line")
        }
        return members
    }

    private mutating func object() throws(Malformed) -> [String: BatchCell] {
        try expect("{", "the line is not a JSON object")
        var members: [String: BatchCell] = [:]
        var names: Set<String> = []
        if take("}") { return members }
        repeat {
            skipBlanks()
            let name = try string()
            try expect(":", "a colon is missing after \"\(name)\"")
            guard names.insert(name).inserted else {
                throw Malformed(message: "\"\(name)\" is there twice")
            }
            if let value = try value(of: name) { members[name] = value }
        } while take(",")
        try expect("}", "the JSON object is not closed")
        return members
    }

    private mutating func value(of name: String) throws(Malformed) -> BatchCell? {
        skipBlanks()
        guard position < bytes.count else { throw Malformed(message: "the line is cut off") }
        switch bytes[position] {
        case UInt8(ascii: "\""): return .text(try string())
        case UInt8(ascii: "["): return .texts(try texts(name))
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(number())
        default:
            if takeWord("null") { return nil }
            if takeWord("true") || takeWord("false") { return .flag }
            throw Malformed(message: "\"\(name)\" has no value that a batch can hold")
        }
    }

    private mutating func texts(_ name: String) throws(Malformed) -> [String] {
        try expect("[", "an array is expected")
        var texts: [String] = []
        if take("]") { return texts }
        repeat {
            skipBlanks()
            texts.append(try string())
        } while take(",")
        try expect("]", "the array of \"\(name)\" is not closed")
        return texts
    }

    private mutating func number() -> String {
        let start = position
        let marks = Array("+-.eE".utf8)
        while position < bytes.count,
            (0x30...0x39).contains(bytes[position]) || marks.contains(bytes[position])
        {
            position += 1
        }
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }

    private mutating func string() throws(Malformed) -> String {
        try expect("\"", "a text in quotes is expected")
        var text: [UInt8] = []
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let string = String(validating: text, as: UTF8.self) else {
                    throw Malformed(message: "the line is not UTF-8")
                }
                return string
            case UInt8(ascii: "\\"): text += Array(String(try escape()).utf8)
            case 0..<0x20: throw Malformed(message: "a text holds a raw control character")
            default: text.append(byte)
            }
        }
        throw Malformed(message: "a text is not closed")
    }

    private mutating func escape() throws(Malformed) -> Unicode.Scalar {
        guard position < bytes.count else { throw Malformed(message: "a text is not closed") }
        let byte = bytes[position]
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            let first = try unit()
            if let scalar = Unicode.Scalar(first) { return scalar }
            guard first < 0xDC00, takeWord("\\u") else { break }
            let second = try unit()
            guard (0xDC00...0xDFFF).contains(second) else { break }
            let value = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            if let scalar = Unicode.Scalar(value) { return scalar }
        default: break
        }
        throw Malformed(message: "a text holds an escape that JSON does not have")
    }

    private mutating func unit() throws(Malformed) -> UInt32 {
        let digits = bytes[position...].prefix(4)
        guard digits.count == 4, digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
            let unit = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw Malformed(message: "a text holds an escape that JSON does not have") }
        position += 4
        return unit
    }

    private mutating func skipBlanks() {
        while position < bytes.count, [0x20, 0x09, 0x0D, 0x0A].contains(bytes[position]) {
            position += 1
        }
    }

    private mutating func takeWord(_ word: StaticString) -> Bool {
        let expected = Array("\(word)".utf8)
        guard bytes[position...].starts(with: expected) else { return false }
        position += expected.count
        return true
    }

    private mutating func take(_ mark: Unicode.Scalar) -> Bool {
        skipBlanks()
        guard position < bytes.count, bytes[position] == UInt8(ascii: mark) else { return false }
        position += 1
        return true
    }

    private mutating func expect(
        _ mark: Unicode.Scalar, _ message: @autoclosure () -> String
    ) throws(Malformed) {
        guard take(mark) else { throw Malformed(message: message()) }
    }
}
