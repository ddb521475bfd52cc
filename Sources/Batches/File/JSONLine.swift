import JSON

/// A value of a batch line, of the types that batches have.
enum BatchCell: Hashable {
    case text(String)
    /// A number as it was written.
    case number(String)
    case texts([String])
    /// `true` or `false`, which no column takes.
    case flag
}

/// Reads one NDJSON line: an object of texts, numbers and arrays of texts.
enum JSONLine {
    struct Malformed: Error, Hashable {
        var message: String
    }

    /// The members of the object. A member that is null counts as missing.
    static func members(_ bytes: [UInt8]) throws(Malformed) -> [String: BatchCell] {
        let line: JSONNode
        do throws(JSONFault) {
            line = try JSONDocument(bytes).root
        } catch {
            throw Malformed(message: "the line is no JSON: \(error)")
        }
        guard line.kind == .object else {
            throw Malformed(message: "the line is not a JSON object")
        }
        var named: [(name: JSONNode, value: JSONNode)] = []
        line.forEachMember { named.append(($0, $1)) }
        var members: [String: BatchCell] = [:]
        var names: Set<String> = []
        for (name, value) in named {
            let name = try text(name).withoutBlanks
            guard names.insert(name).inserted else {
                throw Malformed(message: "\"\(name)\" is there twice")
            }
            members[name] = try cell(value, of: name)?.withoutBlanks
        }
        return members
    }

    private static func cell(_ value: JSONNode, of name: String) throws(Malformed) -> BatchCell? {
        switch value.kind {
        case .null: return nil
        case .boolean: return .flag
        case .number: return .number(value.raw)
        case .text: return .text(try text(value))
        case .array:
            var texts: [String] = []
            for element in value.elements ?? [] {
                guard element.kind == .text else {
                    throw Malformed(message: "\"\(name)\" holds more than texts")
                }
                texts.append(try text(element))
            }
            return .texts(texts)
        case .object:
            throw Malformed(message: "\"\(name)\" has no value that a batch can hold")
        }
    }

    private static func text(_ node: JSONNode) throws(Malformed) -> String {
        guard let text = node.text else {
            throw Malformed(message: "a text holds half a character (a lone surrogate)")
        }
        return text
    }
}
