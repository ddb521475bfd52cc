internal import COpenSSL

/// A digest algorithm, fetched once: the implicit fetch of each call takes a lock that threads
/// contend for.
///
/// Unchecked: an `EVP_MD` is immutable and reference counted.
struct Digest: @unchecked Sendable {
    /// nil only when OpenSSL lacks the algorithm; then each use fails, and says so.
    let pointer: OpaquePointer?

    static let sha256 = Digest(pointer: EVP_MD_fetch(nil, "SHA256", nil))
}

/// SHA-256 of bytes, for ids.
package enum SHA256Hash {
    /// The digest in lower-case hexadecimal, 64 characters.
    package static func hex(_ bytes: some Collection<UInt8>) -> String {
        hexadecimal(self.bytes(bytes))
    }

    /// Two lower-case digits a byte.
    static func hexadecimal(_ bytes: [UInt8]) -> String {
        let alphabet = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(2 * bytes.count)
        for byte in bytes {
            text.append(alphabet[Int(byte >> 4)])
            text.append(alphabet[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The digest, 32 bytes.
    static func bytes(_ bytes: some Collection<UInt8>) -> [UInt8] {
        let bytes = Array(bytes)
        var digest = [UInt8](repeating: 0, count: 32)
        SHA256(bytes, bytes.count, &digest)
        return digest
    }
}
