/// The protected header of a JWS, read by RFC 7515 section 4: one JSON object, each name once.
///
/// A parser of its own, because the common ones let the last of two equal names win in silence: two readers
/// of one header could see two algorithms. What we don't use (`typ`, `kid`, `jku`, `jwk`, `x5u` …) is
/// checked for its form and ignored: the key comes from the proved chain and from nowhere else.
struct JWSHeader {
    /// Certificates of the App Store's size are about 1 KB each.
    static let bytesMax = 64 << 10
    private static let depthMax = 16
    private static let membersMax = 64

    /// nil where `alg` is missing or no text.
    private(set) var algorithm: String?
    /// nil where `x5c` is missing or no list of texts.
    private(set) var certificates: [String]?
    /// RFC 7515 section 4.1.11: extensions that we do not know must be refused.
    private(set) var isCritical = false

    init(json: [UInt8]) throws(JOSEError) {
        guard json.count <= Self.bytesMax else {
            throw JOSEError(.header, "the header is larger than \(Self.bytesMax) bytes")
        }
        var reader = HeaderReader(bytes: json)
        var names: Set<String> = []
        try reader.object { (reader, name) throws(JOSEError) in
            guard names.insert(name).inserted else {
                throw JOSEError(.header, "the header holds a name twice")
            }
            guard names.count <= Self.membersMax else {
                throw JOSEError(.header, "the header holds more than \(Self.membersMax) names")
            }
            switch name {
            case "alg": algorithm = try reader.text()
            case "x5c": certificates = try reader.texts()
            case "crit":
                isCritical = true
                try reader.skip(depth: Self.depthMax)
            default: try reader.skip(depth: Self.depthMax)
            }
        }
        try reader.end()
    }
}

/// A cursor over JSON; every method throws `.header` where the text is none.
private struct HeaderReader {
    private static let fault = JOSEError(.header, "the header is no JSON object")

    private let bytes: [UInt8]
    private var index = 0

    init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    private mutating func peek() -> UInt8? {
        while index < bytes.count {
            switch bytes[index] {
            case 0x20, 0x09, 0x0A, 0x0D: index += 1
            default: return bytes[index]
            }
        }
        return nil
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard peek() == UInt8(ascii: character) else { return false }
        index += 1
        return true
    }

    private mutating func demand(_ character: Unicode.Scalar) throws(JOSEError) {
        guard take(character) else { throw Self.fault }
    }

    mutating func end() throws(JOSEError) {
        guard peek() == nil else { throw Self.fault }
    }

    mutating func object(
        _ member: (inout HeaderReader, String) throws(JOSEError) -> Void
    ) throws(JOSEError) {
        try demand("{")
        if take("}") { return }
        repeat {
            let name = try string()
            try demand(":")
            try member(&self, name)
        } while take(",")
        try demand("}")
    }

    private mutating func array(
        _ element: (inout HeaderReader) throws(JOSEError) -> Void
    ) throws(JOSEError) {
        try demand("[")
        if take("]") { return }
        repeat { try element(&self) } while take(",")
        try demand("]")
    }

    /// A text; nil, and skipped, where the value is something else.
    mutating func text() throws(JOSEError) -> String? {
        guard peek() == UInt8(ascii: "\"") else {
            try skip(depth: 16)
            return nil
        }
        return try string()
    }

    /// A list of texts; nil where the value is something else.
    mutating func texts() throws(JOSEError) -> [String]? {
        guard peek() == UInt8(ascii: "[") else {
            try skip(depth: 16)
            return nil
        }
        var texts: [String] = []
        var isClean = true
        try array { (reader) throws(JOSEError) in
            if let text = try reader.text() { texts.append(text) } else { isClean = false }
        }
        return isClean ? texts : nil
    }

    /// Any value, read for its form only.
    mutating func skip(depth: Int) throws(JOSEError) {
        guard depth > 0, let first = peek() else { throw Self.fault }
        switch first {
        case UInt8(ascii: "\""): _ = try string()
        case UInt8(ascii: "{"):
            try object { (reader, _) throws(JOSEError) in try reader.skip(depth: depth - 1) }
        case UInt8(ascii: "["):
            try array { (reader) throws(JOSEError) in try reader.skip(depth: depth - 1) }
        default: try scalar()
        }
    }

    /// `true`, `false`, `null` or a number.
    private mutating func scalar() throws(JOSEError) {
        let start = index
        while index < bytes.count, !Self.delimiters.contains(bytes[index]) { index += 1 }
        let word = bytes[start..<index]
        if Self.words.contains(where: word.elementsEqual) { return }
        guard word.first.map({ $0 == 0x2D || (0x30...0x39).contains($0) }) ?? false,
            Double(String(decoding: word, as: UTF8.self)) != nil,
            word.allSatisfy({ Self.numeric.contains($0) })
        else { throw Self.fault }
    }

    private static let delimiters = Set(" \t\n\r,]}".utf8)
    private static let numeric = Set("0123456789+-.eE".utf8)
    private static let words = ["true", "false", "null"].map { Array($0.utf8) }

    private mutating func string() throws(JOSEError) -> String {
        try demand("\"")
        var text: [UInt8] = []
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let string = String(validating: text, as: UTF8.self) else { throw Self.fault }
                return string
            case UInt8(ascii: "\\"): text.append(contentsOf: String(try escaped()).utf8)
            case 0..<0x20: throw Self.fault
            default: text.append(byte)
            }
        }
        throw Self.fault
    }

    private mutating func escaped() throws(JOSEError) -> Character {
        guard index < bytes.count else { throw Self.fault }
        let byte = bytes[index]
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"):
            return Character(Unicode.Scalar(byte))
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return try unicode()
        default: throw Self.fault
        }
    }

    private mutating func unicode() throws(JOSEError) -> Character {
        let unit = try unit()
        if let scalar = Unicode.Scalar(unit) { return Character(scalar) }
        // Half of a pair: the other half must follow.
        guard unit < 0xDC00, bytes[index...].starts(with: "\\u".utf8) else { throw Self.fault }
        index += 2
        let low = try self.unit()
        guard (0xDC00...0xDFFF).contains(low),
            let scalar = Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00))
        else { throw Self.fault }
        return Character(scalar)
    }

    private mutating func unit() throws(JOSEError) -> UInt32 {
        guard bytes.count - index >= 4 else { throw Self.fault }
        var value: UInt32 = 0
        for byte in bytes[index..<(index + 4)] {
            guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
                throw Self.fault
            }
            value = value << 4 | UInt32(digit)
        }
        index += 4
        return value
    }
}
