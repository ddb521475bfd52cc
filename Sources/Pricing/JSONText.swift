/// Just enough JSON to write a plan without a library: one buffer, no intermediate texts.
struct JSONText {
    private(set) var bytes: [UInt8]
    private var needsComma = false

    init() {
        bytes = []
        // A whole row with its rules; growing step by step would copy it several times.
        bytes.reserveCapacity(1500)
    }

    var text: String { String(decoding: bytes, as: UTF8.self) }

    mutating func object(_ members: (inout JSONText) -> Void) {
        enclosed(UInt8(ascii: "{"), UInt8(ascii: "}"), members)
    }

    mutating func array(_ elements: (inout JSONText) -> Void) {
        enclosed(UInt8(ascii: "["), UInt8(ascii: "]"), elements)
    }

    mutating func key(_ name: String) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    mutating func member(_ name: String, _ value: String?) {
        key(name)
        string(value)
    }

    mutating func member(_ name: String, _ value: Int64?) {
        key(name)
        raw(value.map { "\($0)" } ?? "null")
    }

    mutating func member(_ name: String, _ values: [String]) {
        key(name)
        array { json in
            for value in values { json.string(value) }
        }
    }

    /// A number or a word of JSON.
    mutating func raw(_ value: String) {
        begin()
        bytes.append(contentsOf: value.utf8)
    }

    mutating func string(_ value: String?) {
        guard var value else {
            raw("null")
            return
        }
        begin()
        bytes.append(UInt8(ascii: "\""))
        value.withUTF8 { text in
            let isPlain = !text.contains {
                $0 < 0x20 || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\")
            }
            if isPlain { bytes.append(contentsOf: text) } else { escape(text) }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escape(_ text: UnsafeBufferPointer<UInt8>) {
        for byte in text {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case UInt8(ascii: "\n"): bytes.append(contentsOf: "\\n".utf8)
            case UInt8(ascii: "\r"): bytes.append(contentsOf: "\\r".utf8)
            case UInt8(ascii: "\t"): bytes.append(contentsOf: "\\t".utf8)
            case 0..<0x20:
                let digits = String(byte, radix: 16)
                bytes.append(contentsOf: "\\u00\(digits.count == 1 ? "0" : "")\(digits)".utf8)
            default: bytes.append(byte)
            }
        }
    }

    private mutating func enclosed(
        _ open: UInt8, _ close: UInt8, _ inside: (inout JSONText) -> Void
    ) {
        begin()
        bytes.append(open)
        needsComma = false
        inside(&self)
        bytes.append(close)
        needsComma = true
    }

    private mutating func begin() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }
}
