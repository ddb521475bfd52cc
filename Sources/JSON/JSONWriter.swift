/// Writes JSON into one buffer, in the order of the calls, without intermediate texts.
///
/// A member that is nil is left out by `text`, `number` and `flag`; `member` writes it as null.
///
/// Functions that take a caller's closure or type are inlinable, because other modules would otherwise run them as slow
/// generic code.
package struct JSONWriter {
    /// What was written, as UTF-8.
    package private(set) var bytes: [UInt8] = []
    private var needsComma = false

    /// - Parameter capacity: How many bytes are kept ready. Growing step by step would copy a large text several
    ///   times.
    package init(capacity: Int = 1024) { bytes.reserveCapacity(capacity) }

    package var text: String { String(decoding: bytes, as: UTF8.self) }

    /// The text of one whole object.
    @inlinable
    package static func object(_ members: (inout JSONWriter) -> Void) -> String {
        var json = JSONWriter()
        json.object(members)
        return json.text
    }

    /// The text of one whole list.
    @inlinable
    package static func list<Element>(
        _ elements: [Element], _ write: (Element, inout JSONWriter) -> Void
    ) -> String {
        var json = JSONWriter()
        json.list(elements, write)
        return json.text
    }

    // MARK: Members

    @inlinable
    package mutating func key(_ name: StaticString, _ value: (inout JSONWriter) -> Void) {
        label(name)
        value(&self)
    }

    package mutating func text(_ name: StaticString, _ value: String?) {
        guard let value else { return }
        label(name)
        self.value(value)
    }

    package mutating func number(_ name: StaticString, _ value: Int64?) {
        guard let value else { return }
        label(name)
        self.value(value)
    }

    package mutating func flag(_ name: StaticString, _ value: Bool?) {
        guard let value else { return }
        label(name)
        self.value(value)
    }

    package mutating func texts(_ name: StaticString, _ values: [String]) {
        list(name, values) { text, json in json.value(text) }
    }

    @inlinable
    package mutating func list<Element>(
        _ name: StaticString, _ elements: [Element], _ write: (Element, inout JSONWriter) -> Void
    ) {
        label(name)
        list(elements, write)
    }

    package mutating func member(_ name: StaticString, _ value: String?) {
        label(name)
        if let value { self.value(value) } else { finished("null") }
    }

    package mutating func member(_ name: StaticString, _ value: Int64?) {
        label(name)
        if let value { self.value(value) } else { finished("null") }
    }

    package mutating func member(_ name: StaticString, _ value: Bool?) {
        label(name)
        if let value { self.value(value) } else { finished("null") }
    }

    /// Writes a name that is only known at run time. The caller writes its value next.
    package mutating func label(_ name: String) {
        value(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    @usableFromInline
    package mutating func label(_ name: StaticString) {
        begin()
        bytes.append(UInt8(ascii: "\""))
        name.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    // MARK: Values

    @inlinable
    package mutating func object(_ members: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "{"))
        members(&self)
        close(UInt8(ascii: "}"))
    }

    @inlinable
    package mutating func list<Element>(
        _ elements: [Element], _ write: (Element, inout JSONWriter) -> Void
    ) {
        open(UInt8(ascii: "["))
        for element in elements { write(element, &self) }
        close(UInt8(ascii: "]"))
    }

    package mutating func value(_ number: Int64) {
        begin()
        bytes.append(contentsOf: String(number).utf8)
    }

    package mutating func value(_ flag: Bool) { finished(flag ? "true" : "false") }

    package mutating func value(_ text: String) {
        begin()
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
    }

    /// Writes text that already is one JSON value.
    package mutating func finished(_ json: String) {
        begin()
        bytes.append(contentsOf: json.utf8)
    }

    @usableFromInline
    package mutating func open(_ mark: UInt8) {
        begin()
        bytes.append(mark)
        needsComma = false
    }

    @usableFromInline
    package mutating func close(_ mark: UInt8) {
        bytes.append(mark)
        needsComma = true
    }

    private mutating func begin() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private static func isEscaped(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    private mutating func escape(_ byte: UInt8) {
        guard Self.isEscaped(byte) else { return bytes.append(byte) }
        bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\n"): bytes.append(UInt8(ascii: "n"))
        case UInt8(ascii: "\r"): bytes.append(UInt8(ascii: "r"))
        case UInt8(ascii: "\t"): bytes.append(UInt8(ascii: "t"))
        case 0..<0x20:
            let digits = Array("0123456789abcdef".utf8)
            bytes.append(contentsOf: "u00".utf8)
            bytes.append(digits[Int(byte >> 4)])
            bytes.append(digits[Int(byte & 15)])
        default: bytes.append(byte)
        }
    }
}
