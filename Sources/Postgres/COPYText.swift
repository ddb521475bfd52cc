import ServiceKit

/// Rows in the text format of COPY, filled value by value and row by row.
package struct COPYText: Sendable {
    package private(set) var bytes: [UInt8] = []
    private var isRowStarted = false

    package init() {}

    private mutating func separate() {
        if isRowStarted { bytes.append(UInt8(ascii: "\t")) }
        isRowStarted = true
    }

    private mutating func appendNull() {
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(UInt8(ascii: "N"))
    }

    /// Throws `nulInText`.
    package mutating func append(_ value: String?) throws(PostgresError) {
        guard var value else {
            separate()
            return appendNull()
        }
        guard value.withUTF8({ append(utf8: $0) }) else { throw .nulInText }
    }

    /// A text as its bytes, which must be UTF-8. Throws `nulInText`.
    package mutating func append(text value: [UInt8]) throws(PostgresError) {
        guard value.withUnsafeBufferPointer({ append(utf8: $0) }) else { throw .nulInText }
    }

    /// Appends in one piece what needs no escape: nearly every text. False for one that holds a NUL.
    private mutating func append(utf8: UnsafeBufferPointer<UInt8>) -> Bool {
        var needsEscape = false
        for byte in utf8 where byte < 0x20 || byte == UInt8(ascii: "\\") {
            guard byte != 0 else { return false }
            needsEscape = true
        }
        separate()
        guard needsEscape else {
            bytes.append(contentsOf: utf8)
            return true
        }
        for byte in utf8 {
            switch byte {
            case UInt8(ascii: "\\"), UInt8(ascii: "\t"), UInt8(ascii: "\n"), UInt8(ascii: "\r"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(Self.letter(of: byte))
            default:
                bytes.append(byte)
            }
        }
        return true
    }

    package mutating func append(_ value: Int64?) {
        separate()
        guard let value else { return appendNull() }
        bytes.append(contentsOf: String(value).utf8)
    }

    package mutating func append(_ value: Int?) {
        append(value.map { Int64($0) })
    }

    /// UTC milliseconds; throws `unrepresentableValue` outside the years 1 to 9999.
    package mutating func append(timestamp value: Int64?) throws(PostgresError) {
        guard let value else {
            separate()
            return appendNull()
        }
        let time = CivilTime(value)
        guard (1...9999).contains(time.year) else { throw .timeOutOfRange }
        separate()
        time.append(to: &bytes, separator: " ", hasFraction: true)
        bytes.append(contentsOf: "+00".utf8)
    }

    /// `text[]`.
    package mutating func append(texts values: [String]?) throws(PostgresError) {
        guard let values else {
            separate()
            return appendNull()
        }
        try append(values.isEmpty ? "{}" : ArrayText.format(values))
    }

    package mutating func endRow() {
        bytes.append(UInt8(ascii: "\n"))
        isRowStarted = false
    }

    private static func letter(of byte: UInt8) -> UInt8 {
        switch byte {
        case UInt8(ascii: "\t"): UInt8(ascii: "t")
        case UInt8(ascii: "\n"): UInt8(ascii: "n")
        case UInt8(ascii: "\r"): UInt8(ascii: "r")
        default: byte
        }
    }
}
