import Glibc

/// The object ids of built-in types; fixed by PostgreSQL's catalogue since ever.
struct TypeID: RawRepresentable, Hashable, Sendable {
    let rawValue: UInt32

    static let unspecified = TypeID(rawValue: 0)
    static let bool = TypeID(rawValue: 16)
    static let bytea = TypeID(rawValue: 17)
    static let int8 = TypeID(rawValue: 20)
    static let int4 = TypeID(rawValue: 23)
    static let text = TypeID(rawValue: 25)
    static let float8 = TypeID(rawValue: 701)
    static let date = TypeID(rawValue: 1082)
    static let timestamptz = TypeID(rawValue: 1184)
    static let uuid = TypeID(rawValue: 2950)
    static let jsonb = TypeID(rawValue: 3802)
    static let boolArray = TypeID(rawValue: 1000)
    static let byteaArray = TypeID(rawValue: 1001)
    static let textArray = TypeID(rawValue: 1009)
    static let int8Array = TypeID(rawValue: 1016)
    static let timestamptzArray = TypeID(rawValue: 1185)
    static let uuidArray = TypeID(rawValue: 2951)
    static let jsonbArray = TypeID(rawValue: 3807)
}

/// One bound value, ready to be sent. Arrays travel in the binary format, where nothing needs
/// escaping. A value that PostgreSQL cannot hold is remembered as the error to throw before sending.
struct Binding: Sendable {
    enum Value: Sendable {
        case null
        case text(String)
        case binary([UInt8])
        case refused(PostgresError)
    }

    let type: TypeID
    let value: Value

    var byteCount: Int {
        switch value {
        case .null, .refused: 0
        case .text(let text): text.utf8.count
        case .binary(let bytes): bytes.count
        }
    }

    static func text(_ value: String?, type: TypeID) -> Binding {
        guard let value else { return Binding(type: type, value: .null) }
        guard !value.utf8.contains(0) else {
            return Binding(type: type, value: .refused(.nulInText))
        }
        return Binding(type: type, value: .text(value))
    }

    static func bytes(_ value: [UInt8]?) -> Binding {
        Binding(type: .bytea, value: value.map { .binary($0) } ?? .null)
    }

    static func timestamp(_ value: Int64?) -> Binding {
        guard let value else { return Binding(type: .timestamptz, value: .null) }
        guard let microseconds = PostgresTime.microseconds(fromUnixMilliseconds: value) else {
            return Binding(type: .timestamptz, value: .refused(.timeOutOfRange))
        }
        return Binding(type: .timestamptz, value: .binary(microseconds.bigEndianBytes))
    }

    static func textArray(_ values: [String?]) -> Binding {
        array(values, type: .textArray, element: .text, write: writeText)
    }

    static func textArray(_ values: [String]) -> Binding {
        array(values.lazy.map(Optional.some), type: .textArray, element: .text, write: writeText)
    }

    static func int8Array(_ values: [Int64?]) -> Binding {
        array(values, type: .int8Array, element: .int8) { $1.append(bigEndian: $0) }
    }

    static func boolArray(_ values: [Bool?]) -> Binding {
        array(values, type: .boolArray, element: .bool) { $1.append($0 ? 1 : 0) }
    }

    static func byteaArray(_ values: [[UInt8]?]) -> Binding {
        array(values, type: .byteaArray, element: .bytea) { $1.append(contentsOf: $0) }
    }

    static func timestampArray(_ values: [Int64?]) -> Binding {
        array(values, type: .timestamptzArray, element: .timestamptz) {
            value, bytes throws(PostgresError) in
            guard let microseconds = PostgresTime.microseconds(fromUnixMilliseconds: value) else {
                throw .timeOutOfRange
            }
            bytes.append(bigEndian: microseconds)
        }
    }

    static func uuidArray(_ values: [String?]) -> Binding {
        array(values, type: .uuidArray, element: .uuid) { value, bytes throws(PostgresError) in
            guard writeUUID(value, to: &bytes) else {
                throw PostgresError(.unrepresentableValue, "a bound value is not a UUID")
            }
        }
    }

    static func jsonbArray(_ values: [String?]) -> Binding {
        array(values, type: .jsonbArray, element: .jsonb) { value, bytes throws(PostgresError) in
            // The binary jsonb format is a version byte and the text.
            bytes.append(1)
            try writeText(value, to: &bytes)
        }
    }

    private static func writeText(
        _ value: String, to bytes: inout [UInt8]
    ) throws(PostgresError) {
        var value = value
        let hasNUL = value.withUTF8 { text in
            bytes.append(contentsOf: text)
            return text.baseAddress.map { memchr($0, 0, text.count) != nil } ?? false
        }
        if hasNUL { throw .nulInText }
    }

    /// PostgreSQL's binary array: dimensions, null flag, element type, length, lower bound, then
    /// each element with its length (-1 is NULL). Thousands are sent for a claim, so all go into one buffer.
    private static func array<Element>(
        _ values: some Collection<Element?>, type: TypeID, element: TypeID,
        write: (Element, inout [UInt8]) throws(PostgresError) -> Void
    ) -> Binding {
        var bytes: [UInt8] = []
        let isEmpty = values.isEmpty
        bytes.reserveCapacity(20 + values.count * 24)
        var isFirst = true
        bytes.append(bigEndian: Int32(isEmpty ? 0 : 1))
        bytes.append(bigEndian: Int32(values.contains { $0 == nil } ? 1 : 0))
        bytes.append(bigEndian: element.rawValue)
        guard !isEmpty else { return Binding(type: type, value: .binary(bytes)) }
        bytes.append(bigEndian: Int32(clamping: values.count))
        bytes.append(bigEndian: Int32(1))
        for value in values {
            guard let value else {
                bytes.append(bigEndian: Int32(-1))
                continue
            }
            let start = bytes.count
            bytes.append(bigEndian: Int32(0))
            do throws(PostgresError) {
                try write(value, &bytes)
            } catch {
                return Binding(type: type, value: .refused(error))
            }
            let size = bytes.count - start - 4
            bytes.set(bigEndian: Int32(clamping: size), at: start)
            // The others are about as long as the first.
            if isFirst, size < 1024 { bytes.reserveCapacity(20 + values.count * (size + 8)) }
            isFirst = false
        }
        return Binding(type: type, value: .binary(bytes))
    }

    /// The 16 bytes of the 8-4-4-4-12 form, in either case; false, with whatever was written, when it is not one.
    private static func writeUUID(_ text: String, to bytes: inout [UInt8]) -> Bool {
        var text = text
        return text.withUTF8 { characters in
            guard characters.count == 36 else { return false }
            var high: UInt8?
            for (index, character) in characters.enumerated() {
                if index == 8 || index == 13 || index == 18 || index == 23 {
                    guard character == UInt8(ascii: "-") else { return false }
                    continue
                }
                guard let digit = Hex.value(of: character) else { return false }
                if let first = high {
                    bytes.append(first << 4 | digit)
                    high = nil
                } else {
                    high = digit
                }
            }
            return true
        }
    }
}

extension PostgresError {
    static let nulInText = PostgresError(
        .nulInText, "a bound text holds U+0000, which PostgreSQL cannot store")
    static let timeOutOfRange = PostgresError(
        .unrepresentableValue, "a bound instant is outside PostgreSQL's range")
}

extension [UInt8] {
    fileprivate mutating func append(bigEndian value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }

    /// Overwrites what stands at `start`, where it has room.
    fileprivate mutating func set(bigEndian value: some FixedWidthInteger, at start: Int) {
        withUnsafeMutableBytes {
            $0.storeBytes(of: value.bigEndian, toByteOffset: start, as: type(of: value))
        }
    }
}

extension FixedWidthInteger {
    var bigEndianBytes: [UInt8] {
        withUnsafeBytes(of: bigEndian) { Array($0) }
    }
}

enum Hex {
    static let digits = Array("0123456789abcdef".utf8)

    static func value(of character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
