import CLibPQ
import Glibc
import ServiceKit

/// Owns one result of libpq and clears it at the end.
///
/// Unchecked because the pointer is not Sendable by itself: a `PGresult` is never changed after
/// libpq returned it (libpq's documentation, "Behavior in Threaded Programs"), every access here
/// only reads it, and `deinit` runs once, after the last reader.
final class ResultHandle: @unchecked Sendable {
    let pointer: OpaquePointer
    let columns: ResultColumns

    /// - Parameter known: The columns of an earlier result of the same prepared statement.
    init(_ pointer: OpaquePointer, columns known: ResultColumns? = nil) {
        self.pointer = pointer
        // Without rows nobody reads a column.
        let count = PQntuples(pointer) > 0 ? PQnfields(pointer) : 0
        if let known, known.fits(pointer, count: count) {
            columns = known
        } else {
            columns = ResultColumns(of: pointer, count: count)
        }
    }

    deinit {
        PQclear(pointer)
    }

    /// The command tag: `SELECT 3`, `COMMIT`.
    var tag: String { PQcmdStatus(pointer).map { String(cString: $0) } ?? "" }
}

/// The place of each column of a result; of two with the same name it is the first.
///
/// It is used for every value of every row, so it tells names apart by their shape (length, first and last byte) and
/// hardly ever compares their bytes.
struct ResultColumns: Sendable {
    private let names: [String]
    private let shapes: [UInt32]

    fileprivate init(of result: OpaquePointer, count: Int32) {
        names = (0..<count).map { index in PQfname(result, index).map { String(cString: $0) } ?? ""
        }
        shapes = names.map(Self.shape)
    }

    var isEmpty: Bool { names.isEmpty }

    /// Whether the result has the same columns in the same places.
    fileprivate func fits(_ result: OpaquePointer, count: Int32) -> Bool {
        guard names.count == Int(count) else { return false }
        for (index, name) in names.enumerated() {
            guard let theirs = PQfname(result, Int32(clamping: index)), strcmp(theirs, name) == 0
            else { return false }
        }
        return true
    }

    subscript(name: String) -> Int32? {
        let shape = Self.shape(name)
        for index in shapes.indices where shapes[index] == shape && names[index] == name {
            return Int32(clamping: index)
        }
        return nil
    }

    /// The length, the first and the last byte of a name in one number.
    private static func shape(_ name: String) -> UInt32 {
        name.utf8.withContiguousStorageIfAvailable(shape) ?? shape(name.utf8)
    }

    private static func shape(_ bytes: some BidirectionalCollection<UInt8>) -> UInt32 {
        guard let first = bytes.first, let last = bytes.last else { return 0 }
        return UInt32(truncatingIfNeeded: bytes.count) << 16 | UInt32(first) << 8 | UInt32(last)
    }
}

/// The rows that a statement returned. A row keeps the whole result alive.
package struct Rows: RandomAccessCollection, Sendable {
    let handle: ResultHandle
    package let startIndex = 0
    package let endIndex: Int
    /// How many rows were inserted, updated, deleted or selected.
    package let affected: Int

    init(_ handle: ResultHandle) {
        self.handle = handle
        endIndex = Int(PQntuples(handle.pointer))
        affected = PQcmdTuples(handle.pointer).flatMap { Int(String(cString: $0)) } ?? 0
    }

    package subscript(position: Int) -> Row {
        precondition(indices.contains(position), "row \(position) of \(count) does not exist")
        return Row(handle: handle, index: Int32(position))
    }

    /// The only row; throws when there is none or more than one.
    package func one() throws(PostgresError) -> Row {
        guard count == 1 else {
            throw PostgresError(.unexpectedRowCount, "one row expected, \(count) found")
        }
        return self[0]
    }

    /// The only row, or nil when there is none; throws when there are several.
    package func oneOrNil() throws(PostgresError) -> Row? {
        isEmpty ? nil : try one()
    }
}

/// One row. Each accessor throws `missingColumn`, `unexpectedNull` or `undecodableColumn`.
package struct Row: Sendable {
    let handle: ResultHandle
    let index: Int32

    /// The raw bytes of the column's text form; nil for NULL.
    private func withValue<T>(
        _ column: String, _ type: String, _ decode: (UnsafeRawBufferPointer) -> T?
    ) throws(PostgresError) -> T? {
        guard let field = handle.columns[column] else {
            throw PostgresError(.missingColumn, "the result has no column \(column)")
        }
        guard PQgetisnull(handle.pointer, index, field) == 0,
            let start = PQgetvalue(handle.pointer, index, field)
        else { return nil }
        let length = Int(PQgetlength(handle.pointer, index, field))
        guard let value = decode(UnsafeRawBufferPointer(start: start, count: length)) else {
            throw PostgresError(.undecodableColumn, "column \(column) is not \(type)")
        }
        return value
    }

    private func required<T>(_ column: String, _ value: T?) throws(PostgresError) -> T {
        guard let value else {
            throw PostgresError(.unexpectedNull, "column \(column) is NULL")
        }
        return value
    }

    /// The result of `decode` on the column's text form, without a copy; nil for NULL, and where `decode` returns nil.
    package func decoded<T>(
        _ column: String, _ decode: (UnsafeRawBufferPointer) -> T?
    ) throws(PostgresError) -> T? {
        try withValue(column, "readable") { bytes -> T?? in .some(decode(bytes)) } ?? nil
    }

    /// The index of the first of these UTF-8 texts that equals the column's text form; nil for NULL, and where none
    /// does.
    package func place(
        of column: String, among texts: [[UInt8]]
    ) throws(PostgresError) -> Int? {
        try withValue(column, "text") { value -> Int?? in
            .some(
                texts.firstIndex { text in
                    text.count == value.count
                        && text.withUnsafeBytes { isSame($0, value) }
                })
        } ?? nil
    }

    /// Calls `body` with the bytes of each column's text form in order, nil for NULL. The bytes are valid during the
    /// call only. It is for reading all columns of many rows.
    package func forEachCell(
        _ body: (_ field: Int, _ bytes: UnsafeBufferPointer<UInt8>?) -> Void
    ) {
        for field in 0..<PQnfields(handle.pointer) {
            guard PQgetisnull(handle.pointer, index, field) == 0,
                let start = PQgetvalue(handle.pointer, index, field)
            else {
                body(Int(field), nil)
                continue
            }
            let value = UnsafeRawBufferPointer(
                start: start, count: Int(PQgetlength(handle.pointer, index, field)))
            value.withMemoryRebound(to: UInt8.self) { body(Int(field), $0) }
        }
    }

    package func textOrNil(_ column: String) throws(PostgresError) -> String? {
        try withValue(column, "text") { String(decoding: $0, as: UTF8.self) }
    }

    package func text(_ column: String) throws(PostgresError) -> String {
        try required(column, textOrNil(column))
    }

    package func int64OrNil(_ column: String) throws(PostgresError) -> Int64? {
        try withValue(column, "a 64-bit integer") { Int64(String(decoding: $0, as: UTF8.self)) }
    }

    package func int64(_ column: String) throws(PostgresError) -> Int64 {
        try required(column, int64OrNil(column))
    }

    package func intOrNil(_ column: String) throws(PostgresError) -> Int? {
        try withValue(column, "an integer") { Int(String(decoding: $0, as: UTF8.self)) }
    }

    package func int(_ column: String) throws(PostgresError) -> Int {
        try required(column, intOrNil(column))
    }

    package func boolOrNil(_ column: String) throws(PostgresError) -> Bool? {
        try withValue(column, "a boolean") { value in
            switch String(decoding: value, as: UTF8.self) {
            case "t": true
            case "f": false
            default: nil
            }
        }
    }

    package func bool(_ column: String) throws(PostgresError) -> Bool {
        try required(column, boolOrNil(column))
    }

    /// A `timestamptz` as UTC milliseconds; the microseconds below are cut off. Infinity is `undecodableColumn`.
    package func millisecondsOrNil(_ column: String) throws(PostgresError) -> Int64? {
        try withValue(column, "a finite timestamptz") { CivilTime.parse($0, as: .postgres) }
    }

    package func milliseconds(_ column: String) throws(PostgresError) -> Int64 {
        try required(column, millisecondsOrNil(column))
    }

    /// Reads a `bytea`.
    package func bytesOrNil(_ column: String) throws(PostgresError) -> [UInt8]? {
        try withValue(column, "bytea") { value in
            guard value.count >= 2, value.count % 2 == 0, value[0] == UInt8(ascii: "\\"),
                value[1] == UInt8(ascii: "x")
            else { return nil }
            var bytes: [UInt8] = []
            bytes.reserveCapacity(value.count / 2 - 1)
            for position in stride(from: 2, to: value.count, by: 2) {
                guard let high = Hex.value(of: value[position]),
                    let low = Hex.value(of: value[position + 1])
                else { return nil }
                bytes.append(high << 4 | low)
            }
            return bytes
        }
    }

    package func bytes(_ column: String) throws(PostgresError) -> [UInt8] {
        try required(column, bytesOrNil(column))
    }

    /// A one-dimensional array without NULL elements; a NULL element is `undecodableColumn`.
    package func texts(_ column: String) throws(PostgresError) -> [String] {
        try required(column, textsOrNil(column))
    }

    package func textsOrNil(_ column: String) throws(PostgresError) -> [String]? {
        try elements(column, "an array without NULL") { $0 }
    }

    /// A `bigint[]` without NULL elements.
    package func int64s(_ column: String) throws(PostgresError) -> [Int64] {
        try required(column, elements(column, "an array of integers") { Int64($0) })
    }

    private func elements<T>(
        _ column: String, _ type: String, _ decode: (String) -> T?
    ) throws(PostgresError) -> [T]? {
        try withValue(column, type) { value in
            guard let texts = ArrayText.parse(String(decoding: value, as: UTF8.self)) else {
                return nil
            }
            let elements = texts.compactMap { $0.flatMap(decode) }
            return elements.count == texts.count ? elements : nil
        }
    }
}

/// Whether two buffers of one length are the same.
private func isSame(_ one: UnsafeRawBufferPointer, _ other: UnsafeRawBufferPointer) -> Bool {
    guard let left = one.baseAddress, let right = other.baseAddress else { return true }
    return memcmp(left, right, min(one.count, other.count)) == 0
}
