import Calls
import Dependents
import Synchronization

@testable import Pricing

/// An App Store whose statements can't be stored until it is healed: an item has a name that PostgreSQL refuses.
final class PoisonedCancels: StatusCalls, CancelCalls {
    private let statuses: any StatusCalls
    private let cancels: (any CancelCalls)?
    private let isPoisoned = Mutex(true)

    init(_ store: any StatusCalls & CancelCalls) {
        statuses = store
        cancels = store
    }

    init(_ statuses: any StatusCalls) {
        self.statuses = statuses
        cancels = nil
    }

    func heal() { isPoisoned.withLock { $0 = false } }

    /// The first statuses, of both subscriptions, are read before the call, and are sound.
    private let sound = Mutex(2)

    func checkStatus(transactionID: String) async -> StoreAnswer {
        let answer = await statuses.checkStatus(transactionID: transactionID)
        let isSound =
            cancels != nil
            && sound.withLock { sound in
                sound -= 1
                return sound >= 0
            }
        return isSound ? answer : poison(answer)
    }

    func cancel(
        _ intent: CancelIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        guard let cancels else { return .notSent(reason: "cancels nothing") }
        return poison(await cancels.cancel(intent, leavingBefore: leavingBefore))
    }

    private func poison(_ answer: StoreAnswer) -> StoreAnswer {
        guard isPoisoned.withLock({ $0 }), case .answered(var words, let reply) = answer else {
            return answer
        }
        for index in words.statements.indices {
            words.statements[index].renewal?.items?.append(StatementItem(sku: "\u{0}"))
        }
        return .answered(words, reply)
    }
}
