package import Pricing
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
    /// Until when dependents ask for none; nil where the last one was answered.
    private let hold = Mutex<Instant?>(nil)

    package init() {}

    package func note(_ answer: StoreAnswer, of subject: String) {
        if answer.isAnswered { hold.withLock { $0 = nil } }
        subjects.withLock { subjects in
            switch answer {
            case .answered: subjects = []
            case .refused(let refusal, _) where refusal.meaning != .haltService:
                if subjects.count < Self.rememberedMax { subjects.insert(subject) }
            case .refused, .throttled, .unknown, .notSent: break
            }
        }
    }

    /// Lets dependents ask for one status at a time, and for none until an instant. Who else asks for statuses may ask
    /// for others, so nobody else waits.
    func askOne(from instant: Instant) { hold.withLock { $0 = instant } }

    /// How many statuses of dependents may be asked for, of so many.
    package func allowed(_ count: Int, at now: Instant) -> Int {
        hold.withLock { from in from.map { now < $0 ? 0 : min(1, count) } ?? count }
    }

    /// Whether the statuses of several other subscriptions were refused, too, and none was answered since.
    package func areAlike(besides subject: String) -> Bool {
        subjects.withLock { $0.subtracting([subject]).count > Self.othersMax }
    }
}
