/// A strict reader of an object that this program wrote. An absent member and null are nil, or a fault where the member
/// is required. A value of another type is a fault. Members that nobody reads are ignored.
package struct JSONRecord {
    /// It is safe to show, because it quotes nothing of the text.
    package struct Fault: Error, Hashable, Sendable, CustomStringConvertible {
        package let description: String
    }

    private let node: JSONNode

    package init(_ node: JSONNode) throws(Fault) {
        guard node.kind == .object else { throw Fault(description: "an object is \(node.kind)") }
        self.node = node
    }

    package static func all(_ node: JSONNode) throws(Fault) -> [JSONRecord] {
        guard let elements = node.elements else {
            throw Fault(description: "a list is \(node.kind)")
        }
        var records: [JSONRecord] = []
        for element in elements { records.append(try JSONRecord(element)) }
        return records
    }

    package func textOrNil(_ name: StaticString) throws(Fault) -> String? {
        try read(name) { $0.text }
    }

    package func int64OrNil(_ name: StaticString) throws(Fault) -> Int64? {
        try read(name) { $0.int64 }
    }

    package func intOrNil(_ name: StaticString) throws(Fault) -> Int? {
        try read(name) { $0.int64.flatMap { Int(exactly: $0) } }
    }

    package func boolOrNil(_ name: StaticString) throws(Fault) -> Bool? {
        try read(name) { $0.boolean }
    }

    package func textsOrNil(_ name: StaticString) throws(Fault) -> [String]? {
        try read(name) { node in
            guard let elements = node.elements else { return nil }
            let texts = elements.compactMap(\.text)
            return texts.count == elements.count ? texts : nil
        }
    }

    /// A text that must be a raw value of `Word`.
    package func wordOrNil<Word: RawRepresentable<String>>(
        _ name: StaticString
    ) throws(Fault) -> Word? {
        try read(name) { $0.text.flatMap(Word.init(rawValue:)) }
    }

    /// An object member, for the caller to read.
    package func objectOrNil(_ name: StaticString) throws(Fault) -> JSONNode? {
        guard let node = present(name) else { return nil }
        _ = try JSONRecord(node)
        return node
    }

    package func recordOrNil(_ name: StaticString) throws(Fault) -> JSONRecord? {
        guard let node = present(name) else { return nil }
        return try JSONRecord(node)
    }

    package func recordsOrNil(_ name: StaticString) throws(Fault) -> [JSONRecord]? {
        guard let node = present(name) else { return nil }
        return try Self.all(node)
    }

    package func text(_ name: StaticString) throws(Fault) -> String {
        try required(name, textOrNil(name))
    }

    package func int64(_ name: StaticString) throws(Fault) -> Int64 {
        try required(name, int64OrNil(name))
    }

    package func bool(_ name: StaticString) throws(Fault) -> Bool {
        try required(name, boolOrNil(name))
    }

    package func texts(_ name: StaticString) throws(Fault) -> [String] {
        try required(name, textsOrNil(name))
    }

    package func word<Word: RawRepresentable<String>>(
        _ name: StaticString
    ) throws(Fault) -> Word {
        try required(name, wordOrNil(name))
    }

    package func record(_ name: StaticString) throws(Fault) -> JSONRecord {
        try required(name, recordOrNil(name))
    }

    package func records(_ name: StaticString) throws(Fault) -> [JSONRecord] {
        try required(name, recordsOrNil(name))
    }

    private func present(_ name: StaticString) -> JSONNode? {
        node[name].flatMap { $0.isNull ? nil : $0 }
    }

    private func read<Value>(
        _ name: StaticString, _ value: (JSONNode) -> Value?
    ) throws(Fault) -> Value? {
        guard let node = present(name) else { return nil }
        guard let value = value(node) else {
            throw Fault(description: "\(name) has an unexpected value: \(node.kind)")
        }
        return value
    }

    private func required<Value>(_ name: StaticString, _ value: Value?) throws(Fault) -> Value {
        guard let value else { throw Fault(description: "\(name) is absent") }
        return value
    }
}
