internal import Synchronization

/// Whose statuses were refused since the last one that was answered.
///
/// One that is refused while others are answered says something of its subscription. Where those of several are
/// refused alike, a refusal says nothing of one, and nothing may end by it. Each process remembers for itself.
package final class RefusedStatuses: Sendable {
    /// So many others may be odd by themselves, and it is also how many may end by a refusal of all.
    private static let othersMax = 2
    private static let rememberedMax = 100

    private let subjects = Mutex<Set<String>>([])

    package init() {}

    package func note(_ answer: StoreAnswer, of subject: String) {
        subjects.withLock { subjects in
            switch answer {
            case .answered: subjects = []
            case .refused(let refusal, _) where refusal.meaning != .haltService:
                if subjects.count < Self.rememberedMax { subjects.insert(subject) }
            case .refused, .throttled, .unknown, .notSent: break
            }
        }
    }

    /// Whether the statuses of several other subscriptions were refused, too, and none was answered since.
    package func areAlike(besides subject: String) -> Bool {
        subjects.withLock { $0.subtracting([subject]).count > Self.othersMax }
    }
}
