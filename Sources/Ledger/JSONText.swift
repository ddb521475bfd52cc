import Foundation

/// `jsonb` columns as Codable values. Keys are sorted, so that equal values have equal text.
enum JSONText {
    static func encode(_ value: some Encodable) throws(LedgerError) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return String(decoding: try encoder.encode(value), as: UTF8.self)
        } catch {
            throw LedgerError.unreadable("cannot encode \(type(of: value)): \(error)")
        }
    }

    static func decode<Value: Decodable>(_ type: Value.Type, _ text: String) throws(LedgerError)
        -> Value
    {
        do {
            return try JSONDecoder().decode(type, from: Data(text.utf8))
        } catch {
            throw LedgerError.unreadable("cannot read \(type): \(error)")
        }
    }
}

/// A stored value that this version of the program cannot read: somebody else wrote it, or a newer version.
package enum LedgerError: Error, Sendable, Equatable, CustomStringConvertible {
    case unreadable(String)

    package var description: String {
        switch self {
        case .unreadable(let what): "LEDGER_UNREADABLE: \(what)"
        }
    }
}
