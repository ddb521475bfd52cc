package import Pricing
internal import Synchronization

/// Whose statuses were refused since the last one that was answered.
///
/// A status that is refused while others are answered says something about its subscription. Where those of several
/// subscriptions are refused, a refusal says nothing about any one of them, and nothing may end by it. Each process
/// keeps its own memory.
package final class RefusedStatuses: Sendable {
    /// So many others may be odd by themselves, and it is also how many may end by a refusal of all.
    private static let othersMax = 2
    private static let rememberedMax = 100
    private static let streaksMax = 10_000

    private let subjects = Mutex<Set<String>>([])
    /// How often in a row the status of a subscription was refused, or did not show it, whatever was answered for others.
    /// Reads without an answer count neither way.
    private let streaks = Mutex<[String: Int]>([:])
    /// Until when no status of a dependent may be read; nil where the last read was answered.
    private let hold = Mutex<Instant?>(nil)

    package init() {}

    package func note(_ answer: StoreAnswer, of subject: String) {
        if answer.isAnswered { hold.withLock { $0 = nil } }
        streaks.withLock { streaks in
            if answer.whyUnreadable(subject) != nil {
                guard streaks[subject] != nil || streaks.count < Self.streaksMax else { return }
                streaks[subject, default: 0] += 1
            } else if answer.isAnswered {
                streaks[subject] = nil
            }
        }
        subjects.withLock { subjects in
            switch answer {
            case .answered: subjects = []
            case .refused(let refusal, _) where refusal.meaning != .haltService:
                if subjects.count < Self.rememberedMax { subjects.insert(subject) }
            case .refused, .throttled, .unknown, .notSent: break
            }
        }
    }

    /// Limits status reads of dependents to one at a time, and to none before `instant`. Other readers do not wait,
    /// because they may read other subscriptions.
    func askOne(from instant: Instant) { hold.withLock { $0 = instant } }

    /// How many of `count` statuses of dependents may be read now.
    package func allowed(_ count: Int, at now: Instant) -> Int {
        hold.withLock { from in from.map { now < $0 ? 0 : min(1, count) } ?? count }
    }

    /// How often in a row this process was refused the status of the subscription.
    package func streak(of subject: String) -> Int { streaks.withLock { $0[subject] ?? 0 } }

    /// Whether the statuses of several other subscriptions were refused, too, and none was answered since.
    package func areAlike(besides subject: String) -> Bool {
        subjects.withLock { $0.subtracting([subject]).count > Self.othersMax }
    }
}
