import Calls
import PriceChanges
import Synchronization

/// An App Store that does not answer for some subscriptions until the test lets it.
final class SilentStore: StoreCalls {
    private struct State {
        var isSilent = true
        var asked = 0
        var prepared: [Int] = []
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let ids: Set<String>
    private let others: any StoreCalls
    private let state = Mutex(State())

    init(to ids: Set<String>, others: any StoreCalls) {
        self.ids = ids
        self.others = others
    }

    /// Calls that it did not answer at once.
    var asked: Int { state.withLock { $0.asked } }

    /// For how many calls connections were to be made ready, each time.
    var prepared: [Int] { state.withLock { $0.prepared } }

    func prepare(_ calls: Int) async {
        state.withLock { $0.prepared.append(calls) }
    }

    func answer() {
        let waiting = state.withLock { state in
            state.isSilent = false
            defer { state.waiting = [] }
            return state.waiting
        }
        for one in waiting { one.resume() }
    }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        if ids.contains(intent.transactionID) {
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state in
                    state.asked += 1
                    if state.isSilent { state.waiting.append(continuation) }
                    return !state.isSilent
                }
                if goesOn { continuation.resume() }
            }
        }
        return await others.changePrice(intent, leavingBefore: leavingBefore)
    }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        await others.checkStatus(transactionID: transactionID)
    }
}
