internal import COpenSSL
internal import Synchronization

/// Contexts for verifying under one key, ready made: making one costs a tenth of a verification, and takes
/// locks that threads contend for.
///
/// Unchecked: a context is out of the list while somebody uses it, so that one thread has it at a time.
final class VerificationContexts: @unchecked Sendable {
    /// More than that many at once are made and thrown away.
    private static let keptMax = 16

    private let key: EVPKey
    private let free = Mutex<[UInt]>([])

    init(key: EVPKey) {
        self.key = key
    }

    deinit {
        for address in free.withLock({ $0 }) {
            EVP_PKEY_CTX_free(OpaquePointer(bitPattern: address))
        }
    }

    /// nil only where OpenSSL has no memory.
    func take() -> OpaquePointer? {
        if let kept = free.withLock({ $0.popLast() }) { return OpaquePointer(bitPattern: kept) }
        guard let context = EVP_PKEY_CTX_new(key.pointer, nil) else { return nil }
        guard EVP_PKEY_verify_init(context) == 1 else {
            EVP_PKEY_CTX_free(context)
            ERR_clear_error()
            return nil
        }
        return context
    }

    func giveBack(_ context: OpaquePointer) {
        let isKept = free.withLock { free in
            guard free.count < Self.keptMax else { return false }
            free.append(UInt(bitPattern: context))
            return true
        }
        if !isKept { EVP_PKEY_CTX_free(context) }
    }
}
