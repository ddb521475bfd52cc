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
        text.withContiguousStorageIfAvailable { decode($0) } ?? decode(Array(text))
    }

    /// Decodes strictly: no padding, no foreign characters, no stray bits; nil otherwise.
    package static func decode(_ text: String) -> [UInt8]? { decode(text.utf8) }

    static func decode(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        Base64.urlTable.decode(text)
    }
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
        return bytes.withUnsafeBufferPointer { standardTable.decode($0) }
    }
}

extension Base64 {
    fileprivate static let standardAlphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    fileprivate static let urlAlphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    fileprivate static let standardTable = Base64Table(alphabet: standardAlphabet)
    fileprivate static let urlTable = Base64Table(alphabet: urlAlphabet)

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
}
