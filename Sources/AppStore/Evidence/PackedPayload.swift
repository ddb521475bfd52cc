internal import JOSE

/// A stored `signedPayload`. It takes about a seventh of the size, and gives the same text back to the byte.
///
/// A compact JWS repeats its certificate chain in every header and wraps the nested ones in base64 twice. Here each
/// header is stored once beside the bytes (and once in the database), and payload, signatures and nested JWS are
/// decoded.
///
/// The bytes, version 1, where a number is a LEB128 and a text its length and its bytes:
/// ```
/// stored  = 1, header, count, count × (text before, nested), text after, signature
/// nested  = header, text payload, signature
/// header  = number: which of `headers`
/// signature = text
/// ```
/// The outer payload is "text before, nested JWS" repeated, then "text after". An answer of the App Store is not a JWS
/// itself but contains some; version 2:
/// ```
/// stored  = 2, count, count × (text before, nested), text after
/// ```
package struct PackedPayload: Hashable, Sendable {
    /// The first part of a JWS, as it was sent, with its SHA-256.
    package struct Header: Hashable, Sendable {
        /// The SHA-256 of `text`, 32 bytes.
        package var digest: [UInt8]
        /// The text as base64url.
        package var text: [UInt8]
    }

    /// Why stored bytes are not readable: they were damaged, or a newer program wrote them.
    package struct Damage: Error, Hashable, Sendable, CustomStringConvertible {
        package var description: String

        init(_ description: String) { self.description = description }
    }

    static let version: UInt8 = 1
    static let answerVersion: UInt8 = 2
    /// How many nested JWS are taken apart; Apple nests two.
    static let nestedMax = 8

    package var bytes: [UInt8]
    /// The texts of the headers, in the order in which `bytes` counts them.
    package var headers: [[UInt8]]

    package init(bytes: [UInt8], headers: [[UInt8]]) {
        self.bytes = bytes
        self.headers = headers
    }

    /// The `signedPayload`, or the answer, to the byte.
    package func text() throws(Damage) -> String {
        String(decoding: try textBytes(), as: UTF8.self)
    }

    /// The same as UTF-8.
    func textBytes() throws(Damage) -> [UInt8] {
        let parts = try parts()
        var payload: [UInt8] = []
        payload.reserveCapacity(bytes.count * 8)
        for piece in parts.pieces {
            payload += piece.before
            try append(piece.nested, payload: piece.nested.payload, to: &payload)
        }
        payload += parts.after
        guard let outer = parts.outer else { return payload }
        var text: [UInt8] = []
        text.reserveCapacity(payload.count * 2)
        try append(outer, payload: payload[...], to: &text)
        return text
    }

    private func append(
        _ part: Part, payload: ArraySlice<UInt8>, to text: inout [UInt8]
    ) throws(Damage) {
        guard headers.indices.contains(part.header) else {
            throw Damage("header \(part.header) is missing")
        }
        text += headers[part.header]
        text.append(UInt8(ascii: "."))
        text += Base64URL.encodedBytes(payload)
        text.append(UInt8(ascii: "."))
        text += Base64URL.encodedBytes(part.signature)
    }
}

extension PackedPayload {
    /// The content for a reader who verifies nothing: the payloads, without headers and base64.
    package struct Contents: Hashable, Sendable {
        /// The outer payload; each nested JWS is replaced by its mark, `#0`, `#1` …
        package var payload: [UInt8]
        /// The nested payloads; the mark says which.
        package var nested: [[UInt8]]
        /// Whether a text of the payload may be mistaken for a mark: it holds a `#`, or an escape that may mean one.
        /// The whole text must be read then.
        package var isAmbiguous: Bool

        /// The nested payload that a text of `payload` stands for.
        package func payload(markedBy text: String) -> [UInt8]? {
            guard text.utf8.first == UInt8(ascii: "#"), let index = Int(text.dropFirst()),
                nested.indices.contains(index)
            else { return nil }
            return nested[index]
        }
    }

    /// The decoded payloads. They need no `headers`.
    package func contents() throws(Damage) -> Contents {
        let parts = try parts()
        let texts = parts.pieces.map(\.before) + [parts.after]
        var contents = Contents(
            payload: [], nested: [],
            isAmbiguous: texts.contains { text in
                text.contains { $0 == UInt8(ascii: "#") || $0 == UInt8(ascii: "\\") }
            })
        for (index, piece) in parts.pieces.enumerated() {
            contents.payload += piece.before
            contents.payload += "#\(index)".utf8
            contents.nested.append(Array(piece.nested.payload))
        }
        contents.payload += parts.after
        return contents
    }

    struct Part {
        var header: Int
        var payload: ArraySlice<UInt8>
        var signature: ArraySlice<UInt8>
    }

    struct Parts {
        /// The outer part; nil for an answer.
        var outer: Part?
        var pieces: [(before: ArraySlice<UInt8>, nested: Part)]
        var after: ArraySlice<UInt8>
    }

    private func parts() throws(Damage) -> Parts {
        var reader = PackedReader(bytes: bytes)
        guard let version = reader.byte() else { throw Damage("nothing is stored") }
        guard version == Self.version || version == Self.answerVersion else {
            throw Damage("version \(version) is unknown")
        }
        guard let parts = reader.parts(ofAnswer: version == Self.answerVersion), reader.isAtEnd
        else {
            throw Damage("the stored bytes are cut off or changed")
        }
        return parts
    }
}

/// Reads what `PackedWriter` wrote. It returns nil for anything else.
private struct PackedReader {
    private let bytes: [UInt8]
    private var position = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    mutating func byte() -> UInt8? {
        guard position < bytes.count else { return nil }
        defer { position += 1 }
        return bytes[position]
    }

    mutating func number() -> Int? {
        var value = 0
        // Four bytes reach 256 MB, beyond every accepted payload.
        for shift in stride(from: 0, through: 21, by: 7) {
            guard let byte = byte() else { return nil }
            value |= Int(byte & 0x7F) << shift
            if byte & 0x80 == 0 { return value }
        }
        return nil
    }

    mutating func text() -> ArraySlice<UInt8>? {
        guard let count = number(), count <= bytes.count - position else { return nil }
        defer { position += count }
        return bytes[position..<(position + count)]
    }

    mutating func parts(ofAnswer isAnswer: Bool) -> PackedPayload.Parts? {
        var outer: PackedPayload.Part?
        if !isAnswer {
            guard let header = number() else { return nil }
            outer = PackedPayload.Part(header: header, payload: [], signature: [])
        }
        guard let count = number(), count <= PackedPayload.nestedMax else { return nil }
        var pieces: [(before: ArraySlice<UInt8>, nested: PackedPayload.Part)] = []
        for _ in 0..<count {
            guard let before = text(), let header = number(), let payload = text(),
                let signature = text()
            else { return nil }
            pieces.append(
                (before, PackedPayload.Part(header: header, payload: payload, signature: signature))
            )
        }
        guard let after = text() else { return nil }
        if !isAnswer {
            guard let signature = text() else { return nil }
            outer?.signature = signature
        }
        return PackedPayload.Parts(outer: outer, pieces: pieces, after: after)
    }
}
