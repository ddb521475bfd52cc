/// Writes JSON into one buffer. A member that is nil is left out, as `Codable` leaves it out.
package struct JSONWriter {
    private var bytes: [UInt8] = []
    private var needsComma = false

    package init() { bytes.reserveCapacity(1024) }

    package var text: String { String(decoding: bytes, as: UTF8.self) }

    package mutating func object(_ members: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "{"))
        members(&self)
        close(UInt8(ascii: "}"))
    }

    package mutating func list<Element>(
        _ elements: [Element], _ write: (Element, inout JSONWriter) -> Void
    ) {
        open(UInt8(ascii: "["))
        for element in elements { write(element, &self) }
        close(UInt8(ascii: "]"))
    }

    package mutating func key(_ name: StaticString, _ value: (inout JSONWriter) -> Void) {
        label(name)
        value(&self)
    }

    package mutating func text(_ name: StaticString, _ value: String?) {
        guard let value else { return }
        label(name)
        quoted(value)
    }

    package mutating func number(_ name: StaticString, _ value: Int64?) {
        guard let value else { return }
        label(name)
        digits(value)
        needsComma = true
    }

    package mutating func flag(_ name: StaticString, _ value: Bool?) {
        guard let value else { return }
        label(name)
        bytes.append(contentsOf: (value ? "true" : "false").utf8)
        needsComma = true
    }

    package mutating func texts(_ name: StaticString, _ values: [String]) {
        label(name)
        list(values) { $1.quoted($0) }
    }

    package mutating func list<Element>(
        _ name: StaticString, _ elements: [Element], _ write: (Element, inout JSONWriter) -> Void
    ) {
        label(name)
        list(elements, write)
    }

    private mutating func open(_ mark: UInt8) {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        bytes.append(mark)
        needsComma = false
    }

    private mutating func close(_ mark: UInt8) {
        bytes.append(mark)
        needsComma = true
    }

    private mutating func label(_ name: StaticString) {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        bytes.append(UInt8(ascii: "\""))
        name.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    private mutating func digits(_ value: Int64) {
        var text = String(value)
        text.withUTF8 { bytes.append(contentsOf: $0) }
    }

    private mutating func quoted(_ text: String) {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { text in
            if text.contains(where: Self.isEscaped) {
                for byte in text { escape(byte) }
            } else {
                bytes.append(contentsOf: text)
            }
        }
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
    }

    private static func isEscaped(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    private mutating func escape(_ byte: UInt8) {
        if Self.isEscaped(byte) { bytes.append(UInt8(ascii: "\\")) }
        guard byte < 0x20 else { return bytes.append(byte) }
        let digits = Array("0123456789abcdef".utf8)
        bytes.append(contentsOf: "u00".utf8)
        bytes.append(digits[Int(byte >> 4)])
        bytes.append(digits[Int(byte & 15)])
    }
}
