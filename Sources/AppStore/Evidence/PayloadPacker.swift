import Digests
internal import Glibc
internal import JOSE
internal import Pricing
internal import Synchronization

/// Packs payloads, and remembers the newest headers, so that a known one is neither copied nor hashed again.
///
/// Threads share it.
package final class PayloadPacker: Sendable {
    /// How many headers are remembered. Apple signs with one or two chains at a time.
    private static let headersMax = 8

    /// What was packed, with the headers to keep.
    package struct Packed: Hashable, Sendable {
        package var bytes: [UInt8]
        /// The distinct headers, in the order in which `bytes` counts them.
        package var headers: [PackedPayload.Header]
    }

    private let recent = Mutex<[PackedPayload.Header]>([])
    /// A fault that tests inject, to prove that the comparison with the payload finds it.
    private let fault: (@Sendable (inout Packed) -> Void)?

    package init() { fault = nil }

    /// A packer with an injected fault, for tests of the comparison.
    init(fault: @escaping @Sendable (inout Packed) -> Void) { self.fault = fault }

    /// Packs a payload. Returns nil where unpacking would not give the same bytes back; then the whole text is stored.
    ///
    /// It takes only verified payloads, because their headers are kept for ever.
    package func pack(_ signedPayload: String) -> Packed? {
        let text = Array(signedPayload.utf8)
        guard let outer = SplitJWS(text[...]) else { return nil }
        var writer = PackedWriter()
        writer.append(PackedPayload.version)
        var headers = [header(outer.header)]
        writer.append(number: 0)
        let nested = NestedJWS.find(in: outer.payload, max: PackedPayload.nestedMax)
        append(nested, of: outer.payload, to: &writer, &headers)
        writer.append(text: outer.signature[...])
        return proved(Packed(bytes: writer.bytes, headers: headers), text)
    }

    /// Packs an answer, which is not a JWS itself but contains some; nil also where it contains none.
    package func pack(answer: String) -> Packed? {
        let text = Array(answer.utf8)
        let nested = NestedJWS.find(in: text, max: PackedPayload.nestedMax)
        guard !nested.isEmpty else { return nil }
        var writer = PackedWriter()
        writer.append(PackedPayload.answerVersion)
        var headers: [PackedPayload.Header] = []
        append(nested, of: text, to: &writer, &headers)
        return proved(Packed(bytes: writer.bytes, headers: headers), text)
    }

    private func append(
        _ nested: [NestedJWS], of payload: [UInt8], to writer: inout PackedWriter,
        _ headers: inout [PackedPayload.Header]
    ) {
        writer.append(number: nested.count)
        var position = 0
        for found in nested {
            writer.append(text: payload[position..<found.range.lowerBound])
            writer.append(number: index(of: found.jws.header, in: &headers))
            writer.append(text: found.jws.payload[...])
            writer.append(text: found.jws.signature[...])
            position = found.range.upperBound
        }
        writer.append(text: payload[position...])
    }

    /// Unpacks each result and compares it with the text, because evidence that cannot be given back is worthless.
    private func proved(_ packed: Packed, _ text: [UInt8]) -> Packed? {
        var packed = packed
        fault?(&packed)
        return PackedPayload(packed).isText(text) ? packed : nil
    }

    private func index(
        of text: ArraySlice<UInt8>, in headers: inout [PackedPayload.Header]
    ) -> Int {
        if let known = headers.firstIndex(where: { isEqual($0.text, text) }) { return known }
        headers.append(header(text))
        return headers.count - 1
    }

    private func header(_ text: ArraySlice<UInt8>) -> PackedPayload.Header {
        let known = recent.withLock { recent in recent.first { isEqual($0.text, text) } }
        if let known { return known }
        let header = PackedPayload.Header(
            digest: SHA256.digest(of: Array(text)), text: Array(text))
        recent.withLock { recent in
            recent.insert(header, at: 0)
            recent = Array(recent.prefix(Self.headersMax))
        }
        return header
    }
}

extension PackedPayload {
    init(_ packed: PayloadPacker.Packed) {
        self.init(bytes: packed.bytes, headers: packed.headers.map(\.text))
    }

    fileprivate func isText(_ original: [UInt8]) -> Bool {
        // Damage here is a fault of the packer, and then the whole text is stored.
        guard let text = try? textBytes() else { return false }
        return isEqual(text, original[...])
    }
}

private func isEqual(_ left: [UInt8], _ right: ArraySlice<UInt8>) -> Bool {
    guard left.count == right.count else { return false }
    return left.withUnsafeBytes { left in
        right.withUnsafeBytes { right in
            guard let first = left.baseAddress, let second = right.baseAddress else { return true }
            return memcmp(first, second, left.count) == 0
        }
    }
}

/// The first place of `byte`.
private func place(of byte: UInt8, in bytes: ArraySlice<UInt8>) -> Int? {
    bytes.withUnsafeBytes { buffer in
        guard let base = buffer.baseAddress else { return nil }
        let found = memchr(base, Int32(byte), buffer.count)
        return found.map { bytes.startIndex + (UnsafeRawPointer($0) - base) }
    }
}

/// A compact JWS with its header as sent and the rest decoded.
private struct SplitJWS {
    let header: ArraySlice<UInt8>
    let payload: [UInt8]
    let signature: [UInt8]

    /// nil for what is not three parts of strict base64url.
    init?(_ text: ArraySlice<UInt8>) {
        let dot = UInt8(ascii: ".")
        guard let first = place(of: dot, in: text), first > text.startIndex,
            let second = place(of: dot, in: text[(first + 1)...]),
            let payload = Base64URL.decode(text[(first + 1)..<second]),
            let signature = Base64URL.decode(text[(second + 1)...])
        else { return nil }
        header = text[..<first]
        self.payload = payload
        self.signature = signature
    }
}

/// Finds nested JWS: texts of members whose name begins with `signed`.
///
/// No other text counts, because text that a customer can choose must not fill the table of headers.
private struct NestedJWS {
    /// The text between its quotes, in the payload.
    let range: Range<Int>
    let jws: SplitJWS

    static func find(in payload: [UInt8], max: Int) -> [NestedJWS] {
        let quote = UInt8(ascii: "\"")
        var found: [NestedJWS] = []
        // The three stretches between quotes before the next one: name, colon, text.
        var name = 0..<0
        var colon = 0..<0
        var start = 0
        while found.count < max, let end = place(of: quote, in: payload[start...]) {
            let text = start..<end
            if isNameOfJWS(payload[name]), isColon(payload[colon]),
                let jws = SplitJWS(payload[text])
            {
                found.append(NestedJWS(range: text, jws: jws))
            }
            name = colon
            colon = text
            start = end + 1
        }
        return found
    }

    private static func isNameOfJWS(_ name: ArraySlice<UInt8>) -> Bool {
        name.starts(with: "signed".utf8)
    }

    private static func isColon(_ text: ArraySlice<UInt8>) -> Bool {
        text.contains(UInt8(ascii: ":"))
            && text.allSatisfy { $0 == UInt8(ascii: ":") || $0 == 0x20 || $0 == 0x0A || $0 == 0x09 }
    }
}

private struct PackedWriter {
    private(set) var bytes: [UInt8] = []

    init() { bytes.reserveCapacity(4096) }

    mutating func append(_ byte: UInt8) { bytes.append(byte) }

    mutating func append(number: Int) {
        var rest = number
        while rest > 0x7F {
            bytes.append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    mutating func append(text: ArraySlice<UInt8>) {
        append(number: text.count)
        bytes += text
    }
}
