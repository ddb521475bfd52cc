internal import COpenSSL
internal import Glibc
internal import Synchronization

/// A cache per core of what it last verified with: headers, their chains, OpenSSL's contexts.
///
/// Two threads that verify at once need the same few objects. If they were shared, both threads would write their
/// reference counts and locks all the time, and the cores would contend for the cache lines. A lane only repeats
/// verdicts of `TrustState`: each is valid as long as `epoch` has not changed since.
final class VerificationLanes: Sendable {
    private static let lanesMax = 64

    private let lanes: [VerificationLane]
    /// It is raised whenever an earlier verdict may no longer hold.
    private let epoch = Atomic<UInt64>(1)

    init() {
        let cores = sysconf(Int32(_SC_NPROCESSORS_CONF))
        lanes = (0..<min(max(cores, 1), Self.lanesMax)).map { _ in VerificationLane() }
    }

    /// Read it before the state that a verdict depends on, and pass it to `remember` with the verdict.
    var now: UInt64 { epoch.load(ordering: .acquiring) }

    /// Invalidates every lane. Call it after trust has changed.
    func forget() {
        epoch.add(1, ordering: .acquiringAndReleasing)
    }

    /// Whether the signature is good, and when the chain of the header is valid; nil where this core does not know
    /// the header, or its lane is in use.
    func verdict(
        _ parts: JWSParts, signature: UnsafeBufferPointer<UInt8>
    ) -> (isGood: Bool, validity: Range<Int64>)? {
        lane?.verdict(parts, signature: signature, epoch: now)
    }

    /// Keeps a chain under which a signature of this header was good.
    func remember(
        _ chain: VerifiedChain, forHeader text: UnsafeBufferPointer<UInt8>, at now: UInt64
    ) {
        lane?.remember(chain, forHeader: text, epoch: now)
    }

    /// The lane of this core; nil where the system does not say which core this is. The thread may move to another core
    /// at any moment, so it is only a hint.
    private var lane: VerificationLane? {
        let core = shim_current_core()
        return core < 0 ? nil : lanes[Int(core) % lanes.count]
    }
}

private final class VerificationLane: Sendable {
    /// The App Store signs with one or two chains at a time.
    private static let entriesMax = 4

    private struct Entry {
        var header: [UInt8]
        var chain: VerifiedChain
        var context: VerificationContext
    }

    private struct State {
        var epoch: UInt64 = 0
        var entries: [Entry] = []
    }

    // Two lanes never share a cache line.
    private let before = InlineArray<8, UInt64>(repeating: 0)
    private let state = Mutex(State())
    private let after = InlineArray<8, UInt64>(repeating: 0)

    func verdict(
        _ parts: JWSParts, signature: UnsafeBufferPointer<UInt8>, epoch: UInt64
    ) -> (isGood: Bool, validity: Range<Int64>)? {
        // If the lock is taken, its holder was preempted on this core, so waiting would be useless.
        let verdict = state.withLockIfAvailable {
            state -> (isGood: Bool, validity: Range<Int64>)? in
            guard state.epoch == epoch,
                let index = state.entries.firstIndex(where: { parts.isHeader($0.header) })
            else { return nil }
            let isGood = state.entries[index].context.isValid(
                signature: signature, over: parts.signingInput)
            return (isGood, state.entries[index].chain.validity)
        }
        return verdict ?? nil
    }

    func remember(
        _ chain: VerifiedChain, forHeader text: UnsafeBufferPointer<UInt8>, epoch: UInt64
    ) {
        guard let context = VerificationContext(key: chain.leafKey.key) else { return }
        let entry = Entry(header: Array(text), chain: chain, context: context)
        _ = state.withLockIfAvailable { state in
            // A verdict from before the current epoch is not kept.
            guard epoch >= state.epoch else { return }
            if epoch > state.epoch { state.entries = [] }
            state.epoch = epoch
            state.entries.removeAll { $0.header == entry.header }
            if state.entries.count == Self.entriesMax { state.entries.removeFirst() }
            state.entries.append(entry)
        }
    }
}

extension JWSParts {
    fileprivate func isHeader(_ text: [UInt8]) -> Bool {
        guard text.count == header.count, let start = header.baseAddress else { return false }
        return text.withUnsafeBytes { text in
            text.baseAddress.map { memcmp($0, start, header.count) == 0 } ?? false
        }
    }
}
