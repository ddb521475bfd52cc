/// Checks a text and builds its index in one pass and without recursion, so that depth costs no stack.
struct JSONScanner {
    private static let noContainer = UInt32.max

    private let bytes: UnsafeBufferPointer<UInt8>
    private let limits: JSONDocument.Limits
    private var position = 0
    private var entries: [JSONEntry] = []
    private var open = JSONScanner.noContainer
    private var depth = 0

    private init(_ bytes: UnsafeBufferPointer<UInt8>, _ limits: JSONDocument.Limits) {
        self.bytes = bytes
        self.limits = limits
        // A payload has one value in about 30 bytes, and long texts in between, so this estimate avoids most
        // reallocations.
        entries.reserveCapacity(min(bytes.count / 24 + 8, 256))
    }

    static func entries(
        _ text: [UInt8], limits: JSONDocument.Limits
    ) throws(JSONFault) -> [JSONEntry] {
        guard text.count <= limits.bytesMax else {
            throw JSONFault(code: .tooLarge, offset: limits.bytesMax)
        }
        let result = text.withUnsafeBufferPointer { bytes -> Result<[JSONEntry], JSONFault> in
            var scanner = JSONScanner(bytes, limits)
            do throws(JSONFault) {
                try scanner.scan()
                return .success(scanner.entries)
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private mutating func scan() throws(JSONFault) {
        repeat {
            let opened = try value()
            if opened { continue }
            while open != Self.noContainer {
                if try continues() { break }
            }
        } while open != Self.noContainer
        skipBlanks()
        guard position == bytes.count else { throw fault(.unexpectedByte) }
    }

    /// Reads one value. Returns true where it is a container with content, whose first value comes next.
    private mutating func value() throws(JSONFault) -> Bool {
        switch try nextByte() {
        case UInt8(ascii: "\""): try text()
        case UInt8(ascii: "{"):
            try openContainer(.object)
            if try nextByte() == UInt8(ascii: "}") { return close() }
            try name()
            return true
        case UInt8(ascii: "["):
            try openContainer(.array)
            if try nextByte() == UInt8(ascii: "]") { return close() }
            return true
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): try number()
        case UInt8(ascii: "t"): try word("true", .true)
        case UInt8(ascii: "f"): try word("false", .false)
        case UInt8(ascii: "n"): try word("null", .null)
        default: throw fault(.unexpectedByte)
        }
        return false
    }

    /// Continues after a value in the open container. Returns true where another value follows in it, and false where
    /// it was closed.
    private mutating func continues() throws(JSONFault) -> Bool {
        let byte = try nextByte()
        let isObject = entries[Int(open)].kind == .object
        if byte == UInt8(ascii: ",") {
            position += 1
            if isObject {
                _ = try nextByte()
                try name()
            }
            return true
        }
        guard byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else {
            throw fault(.unexpectedByte)
        }
        return close()
    }

    private mutating func openContainer(_ kind: JSONEntry.Kind) throws(JSONFault) {
        guard depth < limits.depthMax else { throw fault(.tooDeep) }
        depth += 1
        let index = UInt32(entries.count)
        try add(kind, from: position, to: position)
        entries[Int(index)].next = open
        open = index
        position += 1
    }

    /// Closes the container. Returns false, because it is one finished value now.
    private mutating func close() -> Bool {
        position += 1
        depth -= 1
        let index = Int(open)
        open = entries[index].next
        entries[index].end = UInt32(position)
        entries[index].next = UInt32(entries.count)
        return false
    }

    private mutating func name() throws(JSONFault) {
        guard bytes[position] == UInt8(ascii: "\"") else { throw fault(.unexpectedByte) }
        try text()
        guard try nextByte() == UInt8(ascii: ":") else { throw fault(.unexpectedByte) }
        position += 1
    }

    private mutating func word(_ word: StaticString, _ kind: JSONEntry.Kind) throws(JSONFault) {
        let start = position
        for index in 0..<word.utf8CodeUnitCount {
            guard position < bytes.count else { throw fault(.cutShort) }
            guard bytes[position] == word.utf8Start[index] else { throw fault(.unexpectedByte) }
            position += 1
        }
        try add(kind, from: start, to: position)
    }

    private mutating func number() throws(JSONFault) {
        let start = position
        if bytes[position] == UInt8(ascii: "-") { position += 1 }
        let first = position
        try digits()
        if bytes[first] == UInt8(ascii: "0"), position > first + 1 { throw fault(.badNumber) }
        if position < bytes.count, bytes[position] == UInt8(ascii: ".") {
            position += 1
            try digits()
        }
        // Only the bit 0x20 tells `e` from `E`.
        if position < bytes.count, bytes[position] | 0x20 == UInt8(ascii: "e") {
            position += 1
            if position < bytes.count,
                bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-")
            {
                position += 1
            }
            try digits()
        }
        try add(.number, from: start, to: position)
    }

    private mutating func digits() throws(JSONFault) {
        let start = position
        while position < bytes.count, bytes[position] &- 0x30 < 10 { position += 1 }
        guard position == start else { return }
        throw fault(position < bytes.count ? .badNumber : .cutShort)
    }

    private mutating func text() throws(JSONFault) {
        position += 1
        let start = position
        var kind = JSONEntry.Kind.text
        var isASCII = true
        while true {
            skipPlainText()
            guard position < bytes.count else { throw fault(.cutShort) }
            switch bytes[position] {
            case UInt8(ascii: "\""):
                if !isASCII { try checkUTF8(from: start) }
                try add(kind, from: start, to: position)
                position += 1
                return
            case UInt8(ascii: "\\"):
                kind = .escapedText
                try escape()
            case 0..<0x20: throw fault(.unexpectedByte)
            case 0x80...0xFF:
                isASCII = false
                repeat { position += 1 } while position < bytes.count && bytes[position] >= 0x80
            default: position += 1
            }
        }
    }

    /// Checks the text up to here. No byte of a longer character is a quote or a backslash.
    private func checkUTF8(from start: Int) throws(JSONFault) {
        let text = UnsafeBufferPointer(rebasing: bytes[start..<position])
        do throws(UTF8.ValidationError) {
            _ = try UTF8Span(validating: text.span)
        } catch {
            throw JSONFault(code: .badUTF8, offset: start + error.byteOffsets.lowerBound)
        }
    }

    /// Skips eight bytes at a time, up to one that ends the text, escapes or is not ASCII.
    private mutating func skipPlainText() {
        let raw = UnsafeRawBufferPointer(bytes)
        while position + 8 <= raw.count {
            let word = raw.loadUnaligned(fromByteOffset: position, as: UInt64.self)
            let marks = Self.marks(UInt64(littleEndian: word))
            guard marks == 0 else {
                position += marks.trailingZeroBitCount / 8
                return
            }
            position += 8
        }
    }

    /// The marks of a word: the lowest bit set is that of the first byte that is a quote, a backslash, below 0x20 or
    /// above 0x7F. Bits above it may be wrong, because a subtraction borrows upwards.
    private static func marks(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
        let backslash = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
        let marks = (quote &- ones) | (backslash &- ones) | (word &- ones &* 0x20) | word
        return marks & (ones &* 0x80)
    }

    private mutating func escape() throws(JSONFault) {
        guard position + 1 < bytes.count else {
            throw JSONFault(code: .cutShort, offset: bytes.count)
        }
        let isUnicode = bytes[position + 1] == UInt8(ascii: "u")
        guard isUnicode || JSONEscape.byte(after: bytes[position + 1]) != nil else {
            throw fault(.badEscape)
        }
        guard isUnicode else {
            position += 2
            return
        }
        guard position + 6 <= bytes.count else {
            throw JSONFault(code: .cutShort, offset: bytes.count)
        }
        guard JSONEscape.unit(bytes[(position + 2)..<(position + 6)]) != nil else {
            throw fault(.badEscape)
        }
        position += 6
    }

    private mutating func add(
        _ kind: JSONEntry.Kind, from start: Int, to end: Int
    ) throws(JSONFault) {
        guard entries.count < limits.valuesMax else { throw fault(.tooMany) }
        entries.append(
            JSONEntry(
                kind: kind, start: UInt32(start), end: UInt32(end),
                next: UInt32(entries.count + 1)))
    }

    private mutating func skipBlanks() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    /// The next byte that is no blank, not yet taken.
    private mutating func nextByte() throws(JSONFault) -> UInt8 {
        skipBlanks()
        guard position < bytes.count else { throw fault(.cutShort) }
        return bytes[position]
    }

    private func fault(_ code: JSONFault.Code) -> JSONFault {
        JSONFault(code: code, offset: position)
    }
}
