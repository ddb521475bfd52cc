internal import Synchronization

/// Chains that were verified, by the decoded header that carried them; the least recently used
/// leave first.
///
/// Only a chain whose signature also verified enters, so that a forger cannot fill the cache.
final class ChainCache: Sendable {
    private struct Entry {
        var chain: VerifiedChain
        var usedAt: UInt64
    }

    private struct State {
        var entries: [[UInt8]: Entry] = [:]
        var clock: UInt64 = 0
    }

    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int) {
        self.limit = limit
    }

    var count: Int { state.withLock { $0.entries.count } }

    func chain(for header: [UInt8]) -> VerifiedChain? {
        state.withLock { state in
            state.clock &+= 1
            let now = state.clock
            state.entries[header]?.usedAt = now
            return state.entries[header]?.chain
        }
    }

    func insert(_ chain: VerifiedChain, for header: [UInt8]) {
        guard limit > 0 else { return }
        state.withLock { state in
            state.clock &+= 1
            state.entries[header] = Entry(chain: chain, usedAt: state.clock)
            guard state.entries.count > limit,
                let oldest = state.entries.min(by: { $0.value.usedAt < $1.value.usedAt })
            else { return }
            state.entries[oldest.key] = nil
        }
    }
}
