import JSON
package import Pricing
import ServiceKit

/// What has a form in JSON.
package protocol JSONConvertible {
    var json: JSONValue { get }
}

/// JSON to print. Keys keep their given order, so that equal facts have equal text.
package enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case integer(Int64)
    case string(String)
    case array([JSONValue])
    case object([Member])
    /// JSON text that another module has made.
    case finished(String)

    package struct Member: Sendable, Equatable {
        package let name: String
        package let value: JSONValue
    }

    /// The JSON on one line.
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

/// `["batch_id": id, "rows": count]`: an object; nil is null.
extension JSONValue: ExpressibleByDictionaryLiteral, JSONConvertible {
    package init(dictionaryLiteral elements: (String, (any JSONConvertible)?)...) {
        self = .object(elements.map { Member(name: $0.0, value: $0.1?.json ?? .null) })
    }

    package var json: JSONValue { self }

    static func counts(_ pairs: [(String, Int64)]) -> JSONValue {
        .object(pairs.map { Member(name: $0.0, value: .integer($0.1)) })
    }

    /// An object with the members of both.
    static func + (left: JSONValue, right: JSONValue) -> JSONValue {
        guard case .object(let first) = left, case .object(let rest) = right else { return left }
        return .object(first + rest)
    }
}

extension Bool: JSONConvertible { package var json: JSONValue { .bool(self) } }
extension Int: JSONConvertible { package var json: JSONValue { .integer(Int64(self)) } }
extension Int64: JSONConvertible { package var json: JSONValue { .integer(self) } }
extension String: JSONConvertible { package var json: JSONValue { .string(self) } }
extension Instant: JSONConvertible { package var json: JSONValue { .string(text) } }

extension Array: JSONConvertible where Element: JSONConvertible {
    package var json: JSONValue { .array(map(\.json)) }
}

/// An object with its keys in order.
extension Dictionary: JSONConvertible where Key == String, Value: JSONConvertible {
    package var json: JSONValue {
        .object(sorted { $0.key < $1.key }.map { .init(name: $0.key, value: $0.value.json) })
    }
}

extension Int64 {
    /// UTC milliseconds as people and programs read them: `2026-12-01T00:00:00Z`.
    var instantText: String { RFC3339.format(self) }
}
