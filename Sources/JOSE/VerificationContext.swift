internal import COpenSSL

/// OpenSSL's contexts for verifying signatures under one key, kept for reuse: making them takes a tenth of the time of
/// a verification, and writes to memory that all threads share.
///
/// Unchecked: its owner lends it to one thread at a time.
final class VerificationContext: @unchecked Sendable {
    private let signature: OpaquePointer
    private let digest: OpaquePointer

    /// nil only where OpenSSL has no memory.
    init?(key: EVPKey) {
        guard let signature = EVP_PKEY_CTX_new(key.pointer, nil) else { return nil }
        guard EVP_PKEY_verify_init(signature) == 1, let digest = EVP_MD_CTX_new() else {
            EVP_PKEY_CTX_free(signature)
            ERR_clear_error()
            return nil
        }
        guard EVP_DigestInit_ex(digest, Digest.sha256.pointer, nil) == 1 else {
            EVP_PKEY_CTX_free(signature)
            EVP_MD_CTX_free(digest)
            ERR_clear_error()
            return nil
        }
        self.signature = signature
        self.digest = digest
    }

    deinit {
        EVP_PKEY_CTX_free(signature)
        EVP_MD_CTX_free(digest)
    }

    /// True when `raw` is exactly 64 bytes (r then s) and right for the SHA-256 of `message`. OpenSSL refuses r or s of
    /// 0, or of the curve's order or more.
    func isValid(
        signature raw: UnsafeBufferPointer<UInt8>, over message: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard raw.count == 64 else { return false }
        let verdict = withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 32 + 72) { memory in
            let hash = memory.baseAddress
            // Without an algorithm OpenSSL reuses the one set before, and does not touch its reference count.
            guard EVP_DigestInit_ex(digest, nil, nil) == 1,
                EVP_DigestUpdate(digest, message.baseAddress, message.count) == 1,
                EVP_DigestFinal_ex(digest, hash, nil) == 1
            else { return Int32(0) }
            let der = UnsafeMutableBufferPointer(rebasing: memory[32...])
            let length = Self.writeDER(raw, to: der)
            return EVP_PKEY_verify(signature, der.baseAddress, length, hash, 32)
        }
        if verdict != 1 { ERR_clear_error() }
        return verdict == 1
    }

    /// Writes a SEQUENCE of two INTEGERs, at most 72 bytes, and returns its length. `raw` holds 64 bytes.
    private static func writeDER(
        _ raw: UnsafeBufferPointer<UInt8>, to der: UnsafeMutableBufferPointer<UInt8>
    ) -> Int {
        var end = 2
        for half in [0..<32, 32..<64] {
            // DER wants the shortest form: no leading zeros, except one where the sign bit would be set.
            let start = half.first { raw[$0] != 0 } ?? (half.upperBound - 1)
            let padding = raw[start] >= 0x80 ? 1 : 0
            der[end] = 0x02
            der[end + 1] = UInt8(half.upperBound - start + padding)
            end += 2
            if padding == 1 {
                der[end] = 0
                end += 1
            }
            for index in start..<half.upperBound {
                der[end] = raw[index]
                end += 1
            }
        }
        der[0] = 0x30
        der[1] = UInt8(end - 2)
        return end
    }
}
