internal import COpenSSL

/// What OpenSSL works with while it checks a signature under one key, ready made: making it costs a tenth of a
/// verification, and writes to memory that all threads share.
///
/// Unchecked: one thread has it at a time; who holds it says how.
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

    /// True when `raw` is exactly 64 bytes (r then s) and right for the SHA-256 of `message`. r and s of 0, or of
    /// the curve's order and more, are refused by OpenSSL.
    func isValid(
        signature raw: UnsafeBufferPointer<UInt8>, over message: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard raw.count == 64 else { return false }
        let verdict = withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 32 + 72) { memory in
            let hash = memory.baseAddress
            // Without an algorithm the one of before goes on, which is not counted as used once more.
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

    /// SEQUENCE of two INTEGERs, at most 72 bytes; returns how many. `raw` holds 64.
    private static func writeDER(
        _ raw: UnsafeBufferPointer<UInt8>, to der: UnsafeMutableBufferPointer<UInt8>
    ) -> Int {
        var end = 2
        for half in [0..<32, 32..<64] {
            // The shortest form: no leading zeros, but one where the sign bit would be set.
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
