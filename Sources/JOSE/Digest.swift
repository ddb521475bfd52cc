internal import COpenSSL

/// A digest algorithm, fetched once: the implicit fetch of each call takes a lock that threads
/// contend for.
///
/// Unchecked: an `EVP_MD` is immutable and reference counted.
struct Digest: @unchecked Sendable {
    /// nil only when OpenSSL lacks the algorithm; then each use reports a failure.
    let pointer: OpaquePointer?

    static let sha256 = Digest(pointer: EVP_MD_fetch(nil, "SHA256", nil))
}
