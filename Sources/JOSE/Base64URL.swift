/// Base64url without padding (RFC 7515), and the standard alphabet that `x5c` uses.
///
/// Table loops over bytes: the String-level replacements of Foundation cost more than the signature
/// check.
package enum Base64URL {
    /// Encodes without padding.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        String(decoding: encodedBytes(bytes), as: UTF8.self)
    }

    /// Encodes without padding; the characters as their bytes.
    package static func encodedBytes(_ bytes: some Collection<UInt8>) -> [UInt8] {
        Base64.encode(bytes, Base64.urlEncoder, padded: false)
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
        String(decoding: encode(bytes, standardEncoder, padded: true), as: UTF8.self)
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
    fileprivate static let standardEncoder = Base64Encoder(alphabet: standardAlphabet)
    fileprivate static let urlEncoder = Base64Encoder(alphabet: urlAlphabet)

    fileprivate static func encode(
        _ bytes: some Collection<UInt8>, _ encoder: Base64Encoder, padded: Bool
    ) -> [UInt8] {
        bytes.withContiguousStorageIfAvailable { encoder.encode($0, padded: padded) }
            ?? Array(bytes).withUnsafeBufferPointer { encoder.encode($0, padded: padded) }
    }
}
