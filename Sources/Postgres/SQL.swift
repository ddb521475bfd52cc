/// One statement: static text and bound values.
///
/// `"SELECT … WHERE id = \(id)"` binds `id`; no other text is ever spliced in, except by `\(unsafe:)`. Strings are
/// bound without a type, so that the server infers uuid, date or text from the context; where it cannot
/// (`jsonb_build_object`, `$1 IS NULL`) the statement must say `::text`. Numbers, instants, JSON and arrays carry their
/// type.
package struct SQL: Sendable, ExpressibleByStringInterpolation {
    /// The static pieces, with a bound value between each two.
    var pieces: [String]
    var bindings: [Binding]

    package init(stringLiteral value: String) {
        pieces = [value]
        bindings = []
    }

    package init(stringInterpolation: StringInterpolation) {
        pieces = stringInterpolation.pieces
        bindings = stringInterpolation.bindings
    }

    /// A text that is not checked. It must never be built from input.
    package init(unsafe text: String) {
        pieces = [text]
        bindings = []
    }

    /// The text as it is sent, with `$1`, `$2` … for the bound values.
    package var text: String { Self.text(of: pieces) }

    /// The `-- name: …` of the first line, else the first words; safe to log.
    package var name: String { Self.name(startingWith: pieces.first ?? "") }

    static func text(of pieces: [String]) -> String {
        var text = ""
        text.reserveCapacity(pieces.reduce(0) { $0 + $1.utf8.count + 4 })
        for (index, piece) in pieces.enumerated() {
            if index > 0 {
                text += "$"
                text += String(index)
            }
            text += piece
        }
        return text
    }

    static func name(startingWith piece: String) -> String {
        let first = piece.drop { $0.isWhitespace }
        if first.hasPrefix("-- name:") {
            let line = first.dropFirst("-- name:".count).prefix { !$0.isNewline }
            return line.split(separator: " ").joined(separator: " ")
        }
        return first.split(whereSeparator: \.isWhitespace).prefix(3).joined(separator: " ")
    }
}

extension SQL {
    package struct StringInterpolation: StringInterpolationProtocol {
        var pieces: [String] = [""]
        var bindings: [Binding] = []

        package init(literalCapacity: Int, interpolationCount: Int) {
            pieces.reserveCapacity(interpolationCount + 1)
            bindings.reserveCapacity(interpolationCount)
        }

        package mutating func appendLiteral(_ literal: String) {
            pieces[pieces.count - 1] += literal
        }

        mutating func bind(_ binding: Binding) {
            bindings.append(binding)
            pieces.append("")
        }

        /// Splices raw text: identifiers and fragments from our own code, never from input.
        package mutating func appendInterpolation(unsafe text: String) {
            appendLiteral(text)
        }

        /// Adds another statement's text and values, renumbered.
        package mutating func appendInterpolation(fragment sql: SQL) {
            for (index, piece) in sql.pieces.enumerated() {
                appendLiteral(piece)
                if index < sql.bindings.count { bind(sql.bindings[index]) }
            }
        }
    }
}

extension SQL.StringInterpolation {
    package mutating func appendInterpolation(_ value: String?) {
        bind(.text(value, type: .unspecified))
    }

    package mutating func appendInterpolation(_ value: Int?) {
        bind(.text(value.map { String($0) }, type: .int8))
    }

    package mutating func appendInterpolation(_ value: Int64?) {
        bind(.text(value.map { String($0) }, type: .int8))
    }

    package mutating func appendInterpolation(_ value: Int32?) {
        bind(.text(value.map { String($0) }, type: .int4))
    }

    package mutating func appendInterpolation(_ value: Bool?) {
        bind(.text(value.map { $0 ? "t" : "f" }, type: .bool))
    }

    /// Binds a `bytea`.
    package mutating func appendInterpolation(_ value: [UInt8]?) {
        bind(.bytes(value))
    }

    /// Binds a `timestamptz`, given in UTC milliseconds.
    package mutating func appendInterpolation(timestamp value: Int64?) {
        bind(.timestamp(value))
    }

    package mutating func appendInterpolation(json value: String?) {
        bind(.text(value, type: .jsonb))
    }

    package mutating func appendInterpolation(uuid value: String?) {
        bind(.text(value, type: .uuid))
    }

    package mutating func appendInterpolation(_ values: [String]) {
        bind(.textArray(values))
    }

    package mutating func appendInterpolation(texts values: [String?]) {
        bind(.textArray(values))
    }

    package mutating func appendInterpolation(_ values: [Int]) {
        bind(.int8Array(values.map { Int64($0) }))
    }

    package mutating func appendInterpolation(_ values: [Int64]) {
        bind(.int8Array(values))
    }

    package mutating func appendInterpolation(ints values: [Int64?]) {
        bind(.int8Array(values))
    }

    package mutating func appendInterpolation(bools values: [Bool?]) {
        bind(.boolArray(values))
    }

    /// Binds a `timestamptz[]`, given in UTC milliseconds.
    package mutating func appendInterpolation(timestamps values: [Int64?]) {
        bind(.timestampArray(values))
    }

    package mutating func appendInterpolation(uuids values: [String?]) {
        bind(.uuidArray(values))
    }

    package mutating func appendInterpolation(jsons values: [String?]) {
        bind(.jsonbArray(values))
    }

    /// Binds a `bytea[]`.
    package mutating func appendInterpolation(blobs values: [[UInt8]?]) {
        bind(.byteaArray(values))
    }
}
