/// Base64url without padding (RFC 7515), and the standard alphabet that `x5c` uses.
///
/// Table loops over bytes: the String-level replacements of Foundation cost more than the signature
/// check.
package enum Base64URL {
    /// Encodes without padding.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        Base64.encode(bytes, alphabet: Base64.urlAlphabet, padded: false)
    }

    /// Decodes strictly: no padding, no foreign characters, no stray bits; nil otherwise.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        Base64.decode(text, values: Base64.urlValues)
    }

    /// Decodes strictly: no padding, no foreign characters, no stray bits; nil otherwise.
    package static func decode(_ text: String) -> [UInt8]? { decode(text.utf8) }
}

/// Standard base64 (RFC 4648 section 4), padded.
package enum Base64 {
    /// Encodes with padding.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        encode(bytes, alphabet: standardAlphabet, padded: true)
    }

    /// Decodes strictly: padding required, no white space, no stray bits; nil otherwise.
    package static func decode(_ text: String) -> [UInt8]? {
        var bytes = Array(text.utf8)
        guard bytes.count % 4 == 0 else { return nil }
        var padding = 0
        while padding < 2, bytes.last == UInt8(ascii: "=") {
            bytes.removeLast()
            padding += 1
        }
        return decode(bytes, values: standardValues)
    }
}

extension Base64 {
    fileprivate static let standardAlphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    fileprivate static let urlAlphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    fileprivate static let standardValues = values(of: standardAlphabet)
    fileprivate static let urlValues = values(of: urlAlphabet)
    private static let foreign: UInt8 = 0xFF

    private static func values(of alphabet: [UInt8]) -> [UInt8] {
        var values = [UInt8](repeating: foreign, count: 256)
        for (value, character) in alphabet.enumerated() { values[Int(character)] = UInt8(value) }
        return values
    }

    fileprivate static func encode(
        _ bytes: some Collection<UInt8>, alphabet: [UInt8], padded: Bool
    ) -> String {
        var out: [UInt8] = []
        out.reserveCapacity((bytes.count + 2) / 3 * 4)
        var bits: UInt32 = 0
        var held = 0
        for byte in bytes {
            bits = (bits << 8 | UInt32(byte)) & 0xFFFF
            held += 8
            while held >= 6 {
                held -= 6
                out.append(alphabet[Int(bits >> UInt32(held) & 63)])
            }
        }
        if held > 0 { out.append(alphabet[Int(bits << UInt32(6 - held) & 63)]) }
        while padded, out.count % 4 != 0 { out.append(UInt8(ascii: "=")) }
        return String(decoding: out, as: UTF8.self)
    }

    fileprivate static func decode(
        _ text: some Collection<UInt8>, values: [UInt8]
    ) -> [UInt8]? {
        let count = text.count
        guard count % 4 != 1 else { return nil }
        var out: [UInt8] = []
        out.reserveCapacity(count / 4 * 3 + 2)
        var bits: UInt32 = 0
        var held = 0
        for character in text {
            let value = values[Int(character)]
            guard value != foreign else { return nil }
            bits = (bits << 6 | UInt32(value)) & 0xFFFF
            held += 6
            if held >= 8 {
                held -= 8
                out.append(UInt8(truncatingIfNeeded: bits >> UInt32(held)))
            }
        }
        // Left-over bits must be zero, or two texts would mean the same bytes.
        guard bits & (1 << UInt32(held) - 1) == 0 else { return nil }
        return out
    }
}
