import JSON

/// JSON to print. Keys keep the order they are given in, so that equal facts have equal text.
package enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case integer(Int64)
    case string(String)
    case array([JSONValue])
    case object([Member])
    /// Text that is JSON already, made by another module.
    case finished(String)

    package struct Member: Sendable, Equatable {
        package let name: String
        package let value: JSONValue
    }

    package static func object(_ members: KeyValuePairs<String, JSONValue>) -> JSONValue {
        .object(members.map { Member(name: $0.key, value: $0.value) })
    }

    static func text(_ value: String?) -> JSONValue { value.map(JSONValue.string) ?? .null }

    static func number(_ value: Int64?) -> JSONValue { value.map(JSONValue.integer) ?? .null }

    /// On one line.
    package var text: String {
        var json = JSONWriter()
        write(to: &json)
        return json.text
    }

    private func write(to json: inout JSONWriter) {
        switch self {
        case .null: json.finished("null")
        case .bool(let value): json.value(value)
        case .integer(let value): json.value(value)
        case .string(let value): json.value(value)
        case .array(let values): json.list(values) { $0.write(to: &$1) }
        case .object(let members):
            json.object { json in
                for member in members {
                    json.label(member.name)
                    member.value.write(to: &json)
                }
            }
        case .finished(let text): json.finished(text)
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByIntegerLiteral
{
    package init(stringLiteral value: String) { self = .string(value) }
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
}
