import COpenSSL

/// The least that OpenSSL must do for some notifications: the SHA-256 and the P-256 verification of each of
/// their signatures, with keys, contexts and DER ready before the clock starts. Nothing is split, decoded or
/// judged.
final class BareVerification {
    private struct Job {
        var input: [UInt8]
        var signature: [UInt8]
    }

    private let notifications: [[Job]]
    private let context: OpaquePointer
    private let sha256: OpaquePointer

    /// `notifications` are compact JWS, each with the JWS nested in it; `leaf` is the DER of their signer.
    init(notifications: [[[UInt8]]], leaf: [UInt8], decode: ([UInt8]) -> [UInt8]?) throws {
        let certificate = leaf.withUnsafeBufferPointer { buffer in
            var cursor = buffer.baseAddress
            return d2i_X509(nil, &cursor, buffer.count)
        }
        guard let certificate, let key = X509_get0_pubkey(certificate),
            let context = EVP_PKEY_CTX_new(key, nil), EVP_PKEY_verify_init(context) == 1,
            let sha256 = EVP_MD_fetch(nil, "SHA256", nil)
        else { throw BenchmarkFailure("OpenSSL is not usable") }
        self.context = context
        self.sha256 = sha256
        self.notifications = try notifications.map { signed in
            try signed.map { jws in
                let parts = jws.split(separator: UInt8(ascii: "."))
                guard parts.count == 3, let raw = decode(Array(parts[2])), raw.count == 64 else {
                    throw BenchmarkFailure("a payload is no JWS")
                }
                return Job(
                    input: Array(jws[..<parts[1].endIndex]), signature: Self.der(raw))
            }
        }
    }

    deinit {
        EVP_PKEY_CTX_free(context)
        EVP_MD_free(sha256)
    }

    private static func der(_ raw: [UInt8]) -> [UInt8] {
        let numbers = [raw[..<32], raw[32...]].flatMap { half -> [UInt8] in
            let digits = Array(half.drop { $0 == 0 })
            let number = digits.first.map { $0 >= 0x80 } ?? true ? [0] + digits : digits
            return [0x02, UInt8(number.count)] + number
        }
        return [0x30, UInt8(numbers.count)] + numbers
    }

    func run(_ range: Range<Int>? = nil) throws {
        var digest = [UInt8](repeating: 0, count: 32)
        for job in notifications[range ?? notifications.indices].lazy.joined() {
            guard
                EVP_Digest(job.input, job.input.count, &digest, nil, sha256, nil) == 1,
                EVP_PKEY_verify(context, job.signature, job.signature.count, digest, 32) == 1
            else { throw BenchmarkFailure("a signature does not verify") }
        }
    }

    /// The two signatures of a chain (leaf, intermediate, root, DER), each checked under the next certificate's key:
    /// the minimum for verifying a chain.
    static func checkChain(_ chain: [[UInt8]]) throws {
        let certificates = chain.map { der in
            der.withUnsafeBufferPointer { buffer in
                var cursor = buffer.baseAddress
                return d2i_X509(nil, &cursor, buffer.count)
            }
        }
        defer { for certificate in certificates { X509_free(certificate) } }
        for (certificate, issuer) in zip(certificates, certificates.dropFirst()) {
            guard let certificate, let issuer,
                X509_verify(certificate, X509_get0_pubkey(issuer)) == 1
            else { throw BenchmarkFailure("a certificate does not verify") }
        }
    }
}
