/// A value within a document: an index, not a copy. Reading never fails, and a value of another type reads as nil.
package struct JSONNode: Sendable {
    package enum Kind: Hashable, Sendable {
        case null, boolean, number, text, array, object
    }

    private let document: JSONDocument
    private let index: Int

    init(document: JSONDocument, index: Int) {
        self.document = document
        self.index = index
    }

    private var entry: JSONEntry { document.entries[index] }

    private func content(_ entry: JSONEntry) -> ArraySlice<UInt8> {
        document.bytes[Int(entry.start)..<Int(entry.end)]
    }

    package var kind: Kind {
        switch entry.kind {
        case .null: .null
        case .true, .false: .boolean
        case .number: .number
        case .text, .escapedText: .text
        case .array: .array
        case .object: .object
        }
    }

    package var isNull: Bool { entry.kind == .null }

    package var boolean: Bool? {
        switch entry.kind {
        case .true: true
        case .false: false
        case .null, .number, .text, .escapedText, .array, .object: nil
        }
    }

    /// nil also for a text with a lone surrogate, which no UTF-8 can hold.
    package var text: String? {
        let entry = entry
        switch entry.kind {
        case .text: return String(decoding: content(entry), as: UTF8.self)
        case .escapedText: return JSONEscape.unescaped(content(entry))
        case .null, .true, .false, .number, .array, .object: return nil
        }
    }

    /// The text's UTF-8; not copied where nothing in it is escaped.
    package var textBytes: ArraySlice<UInt8>? {
        let entry = entry
        return entry.kind == .text ? content(entry) : text.map { Array($0.utf8)[...] }
    }

    /// The exact number; nil where it has a fraction or is beyond 64 bits.
    package var int64: Int64? {
        let entry = entry
        guard entry.kind == .number else { return nil }
        return JSONNumber.plain(content(entry)) ?? JSONNumber(content(entry)).exactly
    }

    /// The number rounded down; nil where it is beyond 64 bits.
    package var int64RoundedDown: Int64? {
        let entry = entry
        guard entry.kind == .number else { return nil }
        return JSONNumber.plain(content(entry)) ?? JSONNumber(content(entry)).roundedDown
    }

    /// The JSON text of this value, as it was written.
    package var raw: String {
        let entry = entry
        let text = String(decoding: content(entry), as: UTF8.self)
        switch entry.kind {
        case .text, .escapedText: return "\"\(text)\""
        case .null, .true, .false, .number, .array, .object: return text
        }
    }

    /// The elements of an array in order; nil for anything else.
    package var elements: [JSONNode]? { entry.kind == .array ? children : nil }

    /// Whether this is a text that equals `name`.
    package func holds(_ name: StaticString) -> Bool { document.holds(name, at: entry) }

    /// Whether it is a text that can be read: no other type, and no lone surrogate in it.
    package var isText: Bool {
        switch entry.kind {
        case .text: true
        case .escapedText: text != nil
        case .null, .true, .false, .number, .array, .object: false
        }
    }

    func place(in names: JSONNames) -> Int? {
        let entry = entry
        switch entry.kind {
        case .text:
            return document.bytes.withUnsafeBufferPointer { bytes in
                names.index(
                    of: UnsafeBufferPointer(rebasing: bytes[Int(entry.start)..<Int(entry.end)]))
            }
        case .escapedText:
            return JSONEscape.unescaped(content(entry)).flatMap { text in
                Array(text.utf8).withUnsafeBufferPointer { names.index(of: $0) }
            }
        case .null, .true, .false, .number, .array, .object: return nil
        }
    }

    /// The last value of that name; nil where there is none, and where this is not an object.
    package subscript(name: StaticString) -> JSONNode? {
        document.lastMember(name, of: index).map { JSONNode(document: document, index: $0) }
    }

    /// How often an object holds the name.
    package func count(of name: StaticString) -> Int {
        var count = 0
        forEachMember { key, _ in
            if key.holds(name) { count += 1 }
        }
        return count
    }

    /// Calls `body` with the name and the value of each member in order. It makes no call where this is not an object.
    package func forEachMember(_ body: (_ name: JSONNode, _ value: JSONNode) -> Void) {
        let entry = entry
        guard entry.kind == .object else { return }
        var index = self.index + 1
        while index < Int(entry.next) {
            body(
                JSONNode(document: document, index: index),
                JSONNode(document: document, index: index + 1))
            index = Int(document.entries[index + 1].next)
        }
    }

    private var children: [JSONNode] {
        var children: [JSONNode] = []
        let end = Int(entry.next)
        var index = self.index + 1
        while index < end {
            children.append(JSONNode(document: document, index: index))
            index = Int(document.entries[index].next)
        }
        return children
    }
}

extension JSONDocument {
    /// The index of the last value of that name in an object; nil where there is none.
    fileprivate func lastMember(_ name: StaticString, of object: Int) -> Int? {
        guard entries[object].kind == .object else { return nil }
        let end = Int(entries[object].next)
        let length = UInt32(name.utf8CodeUnitCount)
        return entries.withUnsafeBufferPointer { entries in
            var found: Int?
            var index = object + 1
            while index < end {
                let entry = entries[index]
                // Most names differ in length, and then nothing else is compared.
                if entry.kind == .escapedText || entry.end &- entry.start == length,
                    holds(name, at: entry)
                {
                    found = index + 1
                }
                index = Int(entries[index + 1].next)
            }
            return found
        }
    }

    fileprivate func holds(_ name: StaticString, at entry: JSONEntry) -> Bool {
        switch entry.kind {
        case .text:
            guard Int(entry.end - entry.start) == name.utf8CodeUnitCount else { return false }
            return bytes.withUnsafeBufferPointer { bytes in
                name.withUTF8Buffer { name in
                    var place = Int(entry.start)
                    for byte in name {
                        guard bytes[place] == byte else { return false }
                        place += 1
                    }
                    return true
                }
            }
        case .escapedText:
            let content = bytes[Int(entry.start)..<Int(entry.end)]
            return name.withUTF8Buffer { name in
                JSONEscape.unescaped(content).map { $0.utf8.elementsEqual(name) } ?? false
            }
        case .null, .true, .false, .number, .array, .object: return false
        }
    }
}
