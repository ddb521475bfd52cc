import Glibc
import ServiceKit

/// The object ids of built-in types, which PostgreSQL's catalogue has fixed for good.
struct TypeID: RawRepresentable, Hashable, Sendable {
    let rawValue: UInt32

    static let unspecified = TypeID(rawValue: 0)
    static let bool = TypeID(rawValue: 16)
    static let bytea = TypeID(rawValue: 17)
    static let int8 = TypeID(rawValue: 20)
    static let int4 = TypeID(rawValue: 23)
    static let text = TypeID(rawValue: 25)
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
        guard let microseconds = microseconds(unixMilliseconds: value) else {
            return Binding(type: .timestamptz, value: .refused(.timeOutOfRange))
        }
        return Binding(type: .timestamptz, value: .binary(microseconds.bigEndianBytes))
    }

    /// Microseconds since PostgreSQL's epoch, the year 2000; nil when the number overflows.
    private static func microseconds(unixMilliseconds: Int64) -> Int64? {
        let (shifted, overflow) = unixMilliseconds.subtractingReportingOverflow(946_684_800_000)
        let (scaled, scaleOverflow) = shifted.multipliedReportingOverflow(by: 1000)
        // PostgreSQL takes the two extreme numbers for infinity.
        return overflow || scaleOverflow || scaled == .max || scaled == .min ? nil : scaled
    }

    static func textArray(_ values: [String?]) -> Binding {
        array(values, type: .textArray, element: .text, size: \.utf8.count, write: writeText)
    }

    static func textArray(_ values: [String]) -> Binding {
        array(
            values.lazy.map(Optional.some), type: .textArray, element: .text, size: \.utf8.count,
            write: writeText)
    }

    static func int8Array(_ values: [Int64?]) -> Binding {
        array(values, type: .int8Array, element: .int8, size: { _ in 8 }) { value, bytes in
            bytes.store(bigEndian: value)
        }
    }

    static func boolArray(_ values: [Bool?]) -> Binding {
        array(values, type: .boolArray, element: .bool, size: { _ in 1 }) { value, bytes in
            bytes.store(bigEndian: value ? 1 : 0 as UInt8)
        }
    }

    static func byteaArray(_ values: [[UInt8]?]) -> Binding {
        array(values, type: .byteaArray, element: .bytea, size: \.count) { value, bytes in
            bytes.copyBytes(from: value)
        }
    }

    static func timestampArray(_ values: [Int64?]) -> Binding {
        array(values, type: .timestamptzArray, element: .timestamptz, size: { _ in 8 }) {
            value, bytes throws(PostgresError) in
            guard let microseconds = microseconds(unixMilliseconds: value) else {
                throw .timeOutOfRange
            }
            bytes.store(bigEndian: microseconds)
        }
    }

    static func uuidArray(_ values: [String?]) -> Binding {
        array(values, type: .uuidArray, element: .uuid, size: { _ in 16 }) {
            value, bytes throws(PostgresError) in
            guard writeUUID(value, to: bytes) else {
                throw PostgresError(.unrepresentableValue, "a bound value is not a UUID")
            }
        }
    }

    static func jsonbArray(_ values: [String?]) -> Binding {
        array(values, type: .jsonbArray, element: .jsonb, size: { $0.utf8.count + 1 }) {
            value, bytes throws(PostgresError) in
            // The binary jsonb format is a version byte and the text.
            bytes.store(bigEndian: 1 as UInt8)
            try writeText(value, to: UnsafeMutableRawBufferPointer(rebasing: bytes.dropFirst()))
        }
    }

    private static func writeText(
        _ value: String, to bytes: UnsafeMutableRawBufferPointer
    ) throws(PostgresError) {
        // It is written in place: native strings are contiguous, and making another string contiguous would copy it.
        let isCopied: Void? = value.utf8.withContiguousStorageIfAvailable {
            bytes.copyBytes(from: $0.prefix(bytes.count))
        }
        if isCopied == nil { bytes.copyBytes(from: value.utf8.prefix(bytes.count)) }
        let nul = bytes.baseAddress.flatMap { memchr($0, 0, bytes.count) }
        if nul != nil { throw .nulInText }
    }

    /// PostgreSQL's binary array: dimensions, null flag, element type, length, lower bound, then each element with its
    /// length (-1 is NULL). A claim sends thousands of elements, so they are measured first and written in place.
    /// `write` gets a buffer of `size` bytes.
    private static func array<Element>(
        _ values: some Collection<Element?>, type: TypeID, element: TypeID,
        size: (Element) -> Int,
        write: (Element, UnsafeMutableRawBufferPointer) throws(PostgresError) -> Void
    ) -> Binding {
        let count = values.count
        var hasNull = false
        var length = count == 0 ? 12 : 20
        for value in values {
            length += 4 + (value.map(size) ?? 0)
            hasNull = hasNull || value == nil
        }
        var refusal: PostgresError?
        var bytes = [UInt8](repeating: 0, count: length)
        bytes.withUnsafeMutableBytes { all in
            var rest = all[...]
            func next(_ size: Int) -> UnsafeMutableRawBufferPointer {
                defer { rest = rest.dropFirst(size) }
                return UnsafeMutableRawBufferPointer(rebasing: rest.prefix(size))
            }
            next(4).store(bigEndian: Int32(count == 0 ? 0 : 1))
            next(4).store(bigEndian: Int32(hasNull ? 1 : 0))
            next(4).store(bigEndian: element.rawValue)
            guard count > 0 else { return }
            next(4).store(bigEndian: Int32(clamping: count))
            next(4).store(bigEndian: Int32(1))
            for value in values {
                guard let value else {
                    next(4).store(bigEndian: Int32(-1))
                    continue
                }
                let size = size(value)
                next(4).store(bigEndian: Int32(clamping: size))
                do throws(PostgresError) {
                    try write(value, next(size))
                } catch {
                    refusal = error
                    return
                }
            }
        }
        if let refusal { return Binding(type: type, value: .refused(refusal)) }
        return Binding(type: type, value: .binary(bytes))
    }

    /// Writes the 16 bytes of the 8-4-4-4-12 form, in either case. Returns false when the text is not a UUID.
    private static func writeUUID(_ text: String, to bytes: UnsafeMutableRawBufferPointer) -> Bool {
        var text = text
        return text.withUTF8 { characters in
            guard characters.count == 36, bytes.count == 16 else { return false }
            var place = 0
            var index = 0
            while index < 36 {
                if index == 8 || index == 13 || index == 18 || index == 23 {
                    guard characters[index] == UInt8(ascii: "-") else { return false }
                    index += 1
                    continue
                }
                guard let high = Hex.value(of: characters[index]),
                    let low = Hex.value(of: characters[index + 1])
                else { return false }
                bytes[place] = high << 4 | low
                place += 1
                index += 2
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

extension UnsafeMutableRawBufferPointer {
    /// Writes the number at the beginning, as far as it fits.
    fileprivate func store(bigEndian value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.bigEndian) { copyBytes(from: $0.prefix(count)) }
    }
}

extension FixedWidthInteger {
    var bigEndianBytes: [UInt8] {
        withUnsafeBytes(of: bigEndian) { Array($0) }
    }
}
