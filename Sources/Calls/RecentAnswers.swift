import Facts
import Pricing
import Synchronization

/// Whose calls fare alike: those of a batch, and of a storefront of it. Kinds without batches have none.
package struct CallScope: Hashable, Sendable {
    package var batchID: String?
    package var storefront: String?
    /// What the call carries was parked before: what it gets tells nothing of others.
    package var wasParked: Bool

    package init(batchID: String? = nil, storefront: String? = nil, wasParked: Bool = false) {
        self.batchID = batchID
        self.storefront = storefront
        self.wasParked = wasParked
    }

    fileprivate var batch: CallScope { CallScope(batchID: batchID) }
    fileprivate var place: CallScope { CallScope(batchID: batchID, storefront: storefront) }
}

/// What a refusal means beside what other subscriptions' calls got lately.
package enum RefusalVerdict: Hashable, Sendable {
    /// It is about this subscription or item, as its code says.
    case believed
    /// Nobody knows what it is about; others fare well. What the call carries is parked.
    case parked
    /// As its probe was refused: alike those that have halted the batch, or the service.
    case probed
    /// Others were refused alike: nothing ends by it.
    case systemic(Scope)

    package enum Scope: Hashable, Sendable {
        case storefront(CallScope)
        case batch(CallScope)
        /// Every call, of whatever kind.
        case all
    }
}

/// What the last calls of this process got. The same refusal of several subscriptions in a row is not about any of them;
/// one subscription that is refused while others succeed is odd by itself. Each process judges by its own calls.
final class RecentAnswers: Sendable {
    /// Other subscriptions refused alike, in a row, before a refusal that says nothing of the customer counts as systemic;
    /// fewer as long as no call has succeeded.
    static let suspectsMax = 5
    static let suspectsMaxAtFirst = 3
    /// The same for a documented code about the customer: so many rows at most end by a systemic one.
    static let customersMax = 10
    /// Subscriptions refused in a row, each for whatever reason, before nobody fares well.
    static let refusedMax = 20
    /// Subscriptions without an answer, in a row, before calls become few.
    static let unansweredMax = 8

    fileprivate struct Streak {
        var code: Int
        /// Refused with this code, since another was met.
        var subjects: Set<String> = []
        /// Refused with whatever code.
        var refused: Set<String> = []
        var batches: Set<String> = []
    }

    fileprivate struct Key: Hashable {
        var kind: StoreCall.Kind
        var scope: CallScope
    }

    fileprivate struct State {
        var streaks: [Key: Streak] = [:]
        var succeeded: Set<StoreCall.Kind> = []
        var liveBatches = 0
        var unanswered: [StoreCall.Kind: Set<String>] = [:]
        /// While calls are few: how often in a row, and until when none leaves.
        var few: [StoreCall.Kind: (openings: Int, until: Instant)] = [:]
    }

    private let state = Mutex(State())

    /// How many batches have work that is due: a refusal of the only one is one of all.
    func noteLive(batches: Int) { state.withLock { $0.liveBatches = batches } }

    /// Whether a call of the kind was refused since one of its scope succeeded.
    func isAlert(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { state in state.streaks.keys.contains { $0.kind == kind } }
    }

    /// A call of each scope succeeded: what was refused before it was odd by itself.
    func noteSuccess(_ kind: StoreCall.Kind, _ scopes: [CallScope]) {
        state.withLock { state in
            state.succeeded.insert(kind)
            for scope in scopes.flatMap({ [$0.place, $0.batch] }) + [CallScope()] {
                state.streaks[Key(kind: kind, scope: scope)] = nil
            }
        }
    }

    /// Counts the refusal with those before it, and judges it.
    func judge(
        _ refusal: StoreRefusal, of subject: String, _ kind: StoreCall.Kind, _ scopes: [CallScope]
    ) -> RefusalVerdict {
        guard !scopes.contains(where: \.wasParked) else {
            return refusal.isAboutCustomer ? .believed : .parked
        }
        return state.withLock { state in
            let most = Key(kind: kind, scope: CallScope())
            let all = state.add(refusal, subject, scopes.compactMap(\.batchID), most)
            // Kinds without batches: their refused work waits by itself, or goes to a person, and stops nobody else.
            if state.isSystemic(all, refusal, most),
                all.batches.count > 1
                    || refusal.meaning == .haltService && state.liveBatches <= 1
            {
                return .systemic(.all)
            }
            for scope in Set(scopes) where scope.batchID != nil {
                // A code about a storefront is counted by storefronts.
                let scope = refusal.meaning == .haltStorefront ? scope.place : scope.batch
                let key = Key(kind: kind, scope: scope)
                let streak = state.add(refusal, subject, [], key)
                guard state.isSystemic(streak, refusal, key) else { continue }
                return .systemic(scope.storefront == nil ? .batch(scope) : .storefront(scope))
            }
            return refusal.isAboutCustomer ? .believed : .parked
        }
    }

    // MARK: Calls without an answer

    /// Notes calls that got no answer. Returns until when no other is to leave, where there were so many in a row, or where
    /// the probe got none either; nil where it is not the time for that. Each wait is `wait` of the number of openings.
    func noteUnanswered(
        _ subjects: [String], _ kind: StoreCall.Kind, now: Instant, wait: (Int) -> Duration
    ) -> Instant? {
        state.withLock { state in
            state.unanswered[kind, default: []].formUnion(subjects.prefix(Self.unansweredMax))
            let known = state.few[kind]
            guard known != nil || state.unanswered[kind, default: []].count >= Self.unansweredMax,
                known.map({ $0.until <= now }) ?? true
            else { return nil }
            let openings = (known?.openings ?? 0) + 1
            let until = now.advanced(by: wait(openings).milliseconds)
            state.few[kind] = (openings, until)
            return until
        }
    }

    /// The App Store answers again, whatever it says. True where calls were few.
    func noteAnswered(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { state in
            state.unanswered[kind] = nil
            return state.few.removeValue(forKey: kind) != nil
        }
    }

    /// One call asks for all whether the App Store answers again.
    func isFew(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { $0.few[kind] != nil }
    }
}

extension RecentAnswers.State {
    fileprivate mutating func add(
        _ refusal: StoreRefusal, _ subject: String, _ batches: [String], _ key: RecentAnswers.Key
    ) -> RecentAnswers.Streak {
        var streak = streaks[key] ?? RecentAnswers.Streak(code: refusal.code)
        if streak.code != refusal.code { streak.subjects = [] }
        streak.code = refusal.code
        // More say nothing more.
        if streak.subjects.count < 100 { streak.subjects.insert(subject) }
        if streak.refused.count < 100 { streak.refused.insert(subject) }
        streak.batches.formUnion(batches)
        streaks[key] = streak
        return streak
    }

    fileprivate func isSystemic(
        _ streak: RecentAnswers.Streak, _ refusal: StoreRefusal, _ key: RecentAnswers.Key
    ) -> Bool {
        streak.subjects.count >= limit(refusal, key)
            || streak.refused.count >= RecentAnswers.refusedMax
    }

    private func limit(_ refusal: StoreRefusal, _ key: RecentAnswers.Key) -> Int {
        guard !refusal.isAboutCustomer else { return RecentAnswers.customersMax }
        return succeeded.contains(key.kind)
            ? RecentAnswers.suspectsMax : RecentAnswers.suspectsMaxAtFirst
    }
}
