import Facts
package import Pricing
import Synchronization

/// Whose calls fare alike: those of a batch, and of a storefront of it. Kinds without batches have none.
package struct CallScope: Hashable, Sendable {
    package var batchID: String?
    package var storefront: String?
    /// What the call carries was parked before: what it gets tells nothing of others, unless it would end.
    package var wasParked: Bool
    /// How often its token was refused: the call carries what a status has shown since.
    package var staleTokens: Int
    /// Its batch has stopped, or its storefront in it: perhaps by what another process met.
    package var isHalted: Bool
    package var isStorefrontHalted: Bool

    package init(
        batchID: String? = nil, storefront: String? = nil, wasParked: Bool = false,
        staleTokens: Int = 0, isHalted: Bool = false, isStorefrontHalted: Bool = false
    ) {
        self.batchID = batchID
        self.storefront = storefront
        self.wasParked = wasParked
        self.staleTokens = staleTokens
        self.isHalted = isHalted
        self.isStorefrontHalted = isStorefrontHalted
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
    /// It was a probe: while nobody succeeds nothing ends, whatever it is refused with.
    case probed
    /// Others were refused alike: nothing ends by it.
    case systemic(Scope)

    package enum Scope: Hashable, Sendable {
        case storefront(CallScope)
        case batch(CallScope)
        /// Calls of this kind, which belong to no batch.
        case kind
        /// Every call, of whatever kind.
        case all
    }
}

/// Refusals in a row.
package struct RefusalStreak: Sendable {
    /// The first of them, by the business clock.
    package var since: Instant
    /// Subscriptions that were refused with the code of the last one, and with whatever code.
    package var alike: Int
    package var refused: Int

    package init(since: Instant, alike: Int, refused: Int) {
        self.since = since
        self.alike = alike
        self.refused = refused
    }
}

/// What the last calls got. The same refusal of several subscriptions in a row is not about any of them; one subscription
/// that is refused while others succeed is odd by itself. Refusals in a row are those of all replicas
/// (`RecentAnswers+Stored.swift`): so many rows end by what everybody meets, however many processes meet it, or die of it.
final class RecentAnswers: Sendable {
    /// Other subscriptions refused alike, in a row, before a refusal that says nothing of the customer counts as systemic;
    /// fewer as long as no call has succeeded.
    static let suspectsMax = 5
    static let suspectsMaxAtFirst = 3
    /// The same for a documented code about the customer: so many rows at most end by a systemic one.
    static let customersMax = 10
    /// Subscriptions refused in a row, each for whatever reason, before nobody fares well.
    static let refusedMax = 15
    /// Of a batch, before it is one of those that fare so; of one with fewer rows nobody knows.
    static let ofBatchMin = 3
    /// Subscriptions of several batches, in a row, before no batch is waited for that was not called yet.
    static let ofBatchesMax = 30
    /// Subscriptions without an answer, in a row, before calls become few.
    static let unansweredMax = 8

    /// Real time, milliseconds: a halt lasts as long at least before its first probe.
    fileprivate static let haltMin: Int64 = 60_000

    struct Streak {
        var code: Int
        /// Real time, UTC milliseconds: it has halted something.
        var haltedAt: Int64?
        /// Refused with this code, since another was met.
        var subjects: Set<String> = []
        /// Refused with whatever code.
        var refused: Set<String> = []
        /// Of these, those of each batch; so many at most as tell that it fares so.
        var batches: [String: Set<String>] = [:]
        /// The first of them, by the business clock.
        var since: Instant
        var isAboutKey = false
    }

    struct Key: Hashable {
        var kind: StoreCall.Kind
        var scope: CallScope
    }

    struct State {
        var streaks: [Key: Streak] = [:]
        var succeeded: Set<StoreCall.Kind> = []
        /// A token that a status has shown was taken: those that were refused before were merely old.
        var renewsTokens: Set<StoreCall.Kind> = []
        var liveBatches = 0
        var unanswered: [StoreCall.Kind: Set<String>] = [:]
        /// Subscriptions whose errors asked to wait, since a call was answered; two at most.
        var asked: [StoreCall.Kind: Set<String>] = [:]
        /// While calls are few: how often in a row, and until when none leaves.
        var few: [StoreCall.Kind: (openings: Int, until: Instant)] = [:]
        /// As the database said last: kinds whose calls are few, those that have stopped, and whether all have.
        var throttled: Set<String> = []
        var halted: Set<String> = []
        var isHalted = false
        /// Kinds of which some call was refused since one that fares alike succeeded.
        var refused: Set<String> = []
    }

    let state = Mutex(State())

    /// What all replicas share.
    func note(_ controls: ServiceControlQueries.Everything) {
        state.withLock { state in
            state.throttled = Set(controls.throttledKinds.map(\.kind))
            state.halted = Set(controls.haltedKinds.map(\.kind))
            state.isHalted = controls.isHalted
            state.refused = Set(controls.refusedKinds)
        }
    }

    /// Everybody's streak, and those of the scopes.
    static func keys(_ kind: StoreCall.Kind, _ scopes: [CallScope]) -> Set<Key> {
        let all = scopes.flatMap { [$0.place, $0.batch] } + [CallScope()]
        return Set(all.map { Key(kind: kind, scope: $0) })
    }

    /// How many batches have work that is due: a refusal of the only one is one of all.
    func noteLive(batches: Int) { state.withLock { $0.liveBatches = batches } }

    /// Whether a call of the kind was refused since one of its scope succeeded.
    func isAlert(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { state in
            state.refused.contains(kind.rawValue) || state.streaks.keys.contains { $0.kind == kind }
        }
    }

    /// A call of each scope succeeded: what was refused before it was odd by itself.
    func noteSuccess(_ kind: StoreCall.Kind, _ scopes: [CallScope]) {
        state.withLock { $0.noteSuccess(kind, scopes) }
    }

    /// Counts the refusal with those before it, and judges it.
    func judge(
        _ refusal: StoreRefusal, of subject: String, _ kind: StoreCall.Kind, _ scopes: [CallScope],
        now: Instant = Instant(milliseconds: 0), realNow: Int64
    ) -> RefusalVerdict {
        state.withLock {
            $0.judge(refusal, of: subject, kind, scopes, now: now, realNow: realNow)
        }
    }

    func forgetEnded(_ kind: StoreCall.Kind, _ scopes: [CallScope], realNow: Int64) {
        state.withLock { $0.forgetEnded(kind, scopes, realNow: realNow) }
    }

    /// A status was answered: our key is good, whatever calls were refused with.
    func noteGoodKey(_ kind: StoreCall.Kind) { state.withLock { $0.noteGoodKey(kind) } }

    /// Whether a status that is answered says anything new.
    func doubtsKey(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { $0.streaks[Key(kind: kind, scope: CallScope())]?.isAboutKey ?? false }
    }

    // MARK: Calls without an answer

    /// Notes that an error asked to wait; true as long as no other subscription was asked so since a call was answered.
    func isAskedAlone(_ kind: StoreCall.Kind, _ subject: String) -> Bool {
        state.withLock { state in
            if state.asked[kind, default: []].count < 2 {
                state.asked[kind, default: []].insert(subject)
            }
            return state.asked[kind] == [subject]
        }
    }

    /// Notes calls that got no answer; `isAsked`: one of them was asked to wait. Returns until when no other is to leave,
    /// where there were so many in a row, where it was asked for, or where the probe got none either; nil where it is not the
    /// time for that. Each wait is `wait` of the number of openings.
    func noteUnanswered(
        _ subjects: [String], _ kind: StoreCall.Kind, isAsked: Bool, now: Instant,
        wait: (Int) -> Duration
    ) -> Instant? {
        state.withLock { state in
            state.unanswered[kind, default: []].formUnion(subjects.prefix(Self.unansweredMax))
            let known = state.few[kind]
            // Where another process has found it so, our probe counts at once.
            let isFew = known != nil || state.throttled.contains(kind.rawValue)
            guard
                isFew || isAsked || state.unanswered[kind, default: []].count >= Self.unansweredMax,
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
            state.asked[kind] = nil
            let wasFew = state.few.removeValue(forKey: kind) != nil
            return state.throttled.remove(kind.rawValue) != nil || wasFew
        }
    }

    /// One call asks for all whether the App Store answers again.
    func isFew(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { $0.few[kind] != nil || $0.throttled.contains(kind.rawValue) }
    }
}

extension RecentAnswers.State {
    mutating func noteSuccess(_ kind: StoreCall.Kind, _ scopes: [CallScope]) {
        succeeded.insert(kind)
        asked[kind] = nil
        if scopes.contains(where: { $0.staleTokens > 0 }) { renewsTokens.insert(kind) }
        halted.remove(kind.rawValue)
        if kind == .priceChange { isHalted = false }
        for key in RecentAnswers.keys(kind, scopes) { streaks[key] = nil }
    }

    mutating func noteGoodKey(_ kind: StoreCall.Kind) {
        let key = RecentAnswers.Key(kind: kind, scope: CallScope())
        if streaks[key]?.isAboutKey ?? false { streaks[key] = nil }
    }

    mutating func judge(
        _ refusal: StoreRefusal, of subject: String, _ kind: StoreCall.Kind, _ scopes: [CallScope],
        now: Instant, realNow: Int64
    ) -> RefusalVerdict {
        // What was parked for a reason that nobody knows may be refused so again and again.
        guard refusal.isAboutCustomer || !scopes.contains(where: \.wasParked) else {
            return refusal.verdictAlone(scopes)
        }
        // Old tokens may be refused to many at once; the next call of each has a new one.
        guard !isMerelyOld(refusal, kind, scopes) else { return .believed }
        return judgeAll(refusal, subject, kind, scopes, now, realNow)
            ?? judgeBatches(refusal, subject, kind, scopes, now, realNow)
            ?? refusal.verdictAlone(scopes)
    }

    /// The refusals that halt `scope`.
    func streak(_ kind: StoreCall.Kind, _ scope: RefusalVerdict.Scope) -> RefusalStreak? {
        let place =
            switch scope {
            case .storefront(let place), .batch(let place): place
            case .kind, .all: CallScope()
            }
        return streaks[RecentAnswers.Key(kind: kind, scope: place)].map {
            RefusalStreak(since: $0.since, alike: $0.subjects.count, refused: $0.refused.count)
        }
    }

    /// What has halted something goes on by another process's success, or a person's word: what was refused before that is
    /// history. `scopes`: as they stand in the database.
    mutating func forgetEnded(
        _ kind: StoreCall.Kind, _ scopes: [CallScope], realNow: Int64
    ) {
        var open: Set<RecentAnswers.Key> = []
        for scope in scopes {
            if scope.isHalted { open.insert(.init(kind: kind, scope: scope.batch)) }
            if scope.isStorefrontHalted { open.insert(.init(kind: kind, scope: scope.place)) }
        }
        if isHalted || halted.contains(kind.rawValue) {
            open.insert(.init(kind: kind, scope: CallScope()))
        }
        for key in RecentAnswers.keys(kind, scopes) where !open.contains(key) {
            guard let haltedAt = streaks[key]?.haltedAt,
                realNow - haltedAt > RecentAnswers.haltMin
            else { continue }
            streaks[key] = nil
        }
    }

    /// A stale token, where those that statuses show are taken.
    fileprivate mutating func isMerelyOld(
        _ refusal: StoreRefusal, _ kind: StoreCall.Kind, _ scopes: [CallScope]
    ) -> Bool {
        guard refusal.meaning == .refresh else { return false }
        guard scopes.contains(where: { $0.staleTokens > 0 }) else {
            return renewsTokens.contains(kind)
        }
        renewsTokens.remove(kind)
        return false
    }

    /// Of all calls of the kind; nil: nothing is wrong with them all.
    fileprivate mutating func judgeAll(
        _ refusal: StoreRefusal, _ subject: String, _ kind: StoreCall.Kind, _ scopes: [CallScope],
        _ now: Instant, _ realNow: Int64
    ) -> RefusalVerdict? {
        let key = RecentAnswers.Key(kind: kind, scope: CallScope())
        add(refusal, subject, scopes, key, now)
        let isSystemic = isSystemic(refusal, key)
        // A refused key of the only batch is one of all.
        let isForAll =
            refusal.meaning == .haltService && liveBatches <= 1
            && (streaks[key]?.batches.count ?? 0) <= 1
        if isHalted || isSystemic && (isOfAllBatches(key) || isForAll) {
            return halt(key, at: realNow, .all)
        }
        guard scopes.allSatisfy({ $0.batchID == nil }) else { return nil }
        return isSystemic || halted.contains(kind.rawValue) ? halt(key, at: realNow, .kind) : nil
    }

    fileprivate mutating func judgeBatches(
        _ refusal: StoreRefusal, _ subject: String, _ kind: StoreCall.Kind, _ scopes: [CallScope],
        _ now: Instant, _ realNow: Int64
    ) -> RefusalVerdict? {
        for scope in Set(scopes) where scope.batchID != nil {
            // A code about a storefront is counted by storefronts.
            let isOfPlace = refusal.meaning == .haltStorefront && !scope.isHalted
            let place = isOfPlace ? scope.place : scope.batch
            let key = RecentAnswers.Key(kind: kind, scope: place)
            add(refusal, subject, [scope], key, now)
            let isHalted = isOfPlace ? scope.isStorefrontHalted : scope.isHalted
            guard isHalted || isSystemic(refusal, key) else { continue }
            return halt(key, at: realNow, isOfPlace ? .storefront(place) : .batch(place))
        }
        return nil
    }

    private mutating func add(
        _ refusal: StoreRefusal, _ subject: String, _ scopes: [CallScope], _ key: RecentAnswers.Key,
        _ now: Instant
    ) {
        var streak = streaks[key] ?? RecentAnswers.Streak(code: refusal.code, since: now)
        if streak.code != refusal.code { streak.subjects = [] }
        streak.code = refusal.code
        streak.isAboutKey = refusal.meaning == .haltService
        // More say nothing more. A first token may be old: it counts among the refusals of whatever kind.
        let isOld = refusal.meaning == .refresh && scopes.allSatisfy { $0.staleTokens == 0 }
        if streak.subjects.count < 100, !isOld { streak.subjects.insert(subject) }
        let isMore = streak.refused.count < 100
        if isMore { streak.refused.insert(subject) }
        for id in Set(scopes.compactMap(\.batchID))
        where isMore && streak.batches[id, default: []].count < RecentAnswers.ofBatchMin {
            streak.batches[id, default: []].insert(subject)
        }
        streaks[key] = streak
    }

    /// Several batches fare so, and of every other one that has work somebody would have to know better.
    private func isOfAllBatches(_ key: RecentAnswers.Key) -> Bool {
        guard let streak = streaks[key], streak.batches.count > 1 else { return false }
        let faring = streak.batches.values.count { $0.count >= RecentAnswers.ofBatchMin }
        return faring > 1
            && (faring >= liveBatches || streak.refused.count >= RecentAnswers.ofBatchesMax)
    }

    private func isSystemic(_ refusal: StoreRefusal, _ key: RecentAnswers.Key) -> Bool {
        guard let streak = streaks[key] else { return false }
        return streak.subjects.count >= limit(refusal, key)
            || streak.refused.count >= RecentAnswers.refusedMax
    }

    private mutating func halt(
        _ key: RecentAnswers.Key, at realNow: Int64, _ scope: RefusalVerdict.Scope
    ) -> RefusalVerdict {
        streaks[key]?.haltedAt = realNow
        return .systemic(scope)
    }

    private func limit(_ refusal: StoreRefusal, _ key: RecentAnswers.Key) -> Int {
        guard !refusal.isAboutCustomer else { return RecentAnswers.customersMax }
        return succeeded.contains(key.kind)
            ? RecentAnswers.suspectsMax : RecentAnswers.suspectsMaxAtFirst
    }
}

extension StoreRefusal {
    /// Where others fare well. A stale token has a road of its own, at whose end its row is parked.
    fileprivate func verdictAlone(_ scopes: [CallScope]) -> RefusalVerdict {
        guard meaning != .refresh else {
            return scopes.contains { $0.staleTokens >= 2 } ? .parked : .believed
        }
        return isAboutCustomer ? .believed : .parked
    }
}
