internal import COpenSSL
internal import ServiceKit

/// An incremental SHA-256: fingerprints of files, plans, payloads and evidence. OpenSSL computes it: on a processor
/// with SHA instructions it takes a fraction of the time of code of our own.
package struct SHA256: Sendable {
    private var context = Context()

    package init() {}

    /// It is not generic, because an unspecialised generic call from another module costs more per byte than the digest
    /// itself.
    package mutating func update(_ bytes: [UInt8]) {
        if !isKnownUniquelyReferenced(&context) { context = Context(copying: context) }
        context.update(bytes)
    }

    /// The 32 bytes of the digest. More bytes can be added afterwards.
    package func digest() -> [UInt8] { Context(copying: context).finish() }

    /// The digest as 64 lower-case hexadecimal digits.
    package func hexadecimalDigest() -> String { Hex.text(of: digest()) }

    /// The digest of these bytes alone.
    package static func digest(of bytes: [UInt8]) -> [UInt8] {
        var hash = SHA256()
        hash.update(bytes)
        return hash.digest()
    }

    /// The digest of these bytes alone, as 64 lower-case hexadecimal digits.
    package static func hexadecimalDigest(of bytes: [UInt8]) -> String {
        Hex.text(of: digest(of: bytes))
    }

    /// OpenSSL's state of one digest.
    ///
    /// A wrong digest would be another file's identity, so the process ends where OpenSSL cannot compute one, for want
    /// of the algorithm or of memory. No input makes that happen.
    ///
    /// Unchecked: `update` changes a context only while it is uniquely referenced, and `finish` is called on fresh
    /// copies only.
    private final class Context: @unchecked Sendable {
        /// Fetched once: the implicit fetch of each digest takes a lock that threads contend for.
        private static let algorithm = Algorithm(pointer: EVP_MD_fetch(nil, "SHA256", nil))
        /// Unchecked: an `EVP_MD` is immutable and reference counted.
        private struct Algorithm: @unchecked Sendable {
            let pointer: OpaquePointer?
        }

        private let pointer = EVP_MD_CTX_new()

        init() {
            Self.succeed(EVP_DigestInit_ex2(pointer, Self.algorithm.pointer, nil))
        }

        init(copying other: Context) { Self.succeed(EVP_MD_CTX_copy_ex(pointer, other.pointer)) }

        deinit { EVP_MD_CTX_free(pointer) }

        func update(_ bytes: [UInt8]) {
            Self.succeed(EVP_DigestUpdate(pointer, bytes, bytes.count))
        }

        func finish() -> [UInt8] {
            [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { digest, count in
                var length: UInt32 = 0
                Self.succeed(EVP_DigestFinal_ex(pointer, digest.baseAddress, &length))
                count = Int(length)
            }
        }

        private static func succeed(_ result: CInt) {
            precondition(result == 1, "OpenSSL cannot reckon a SHA-256")
        }
    }
}
