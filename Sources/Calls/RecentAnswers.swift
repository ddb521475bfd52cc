import AppStore
import Facts
package import Pricing
import Synchronization

/// A group of calls that may be refused alike: those of a batch, or of a storefront in it. Kinds without batches have
/// no scope.
package struct CallScope: Hashable, Sendable {
    package var batchID: String?
    package var storefront: String?
    /// Whether what the call carries was parked before. Its refusal is then not counted, unless its code is about the
    /// customer.
    package var wasParked: Bool
    /// How often its token was refused. After the first time the call carries the token of a status.
    package var staleTokens: Int
    /// Whether its batch, or its storefront in the batch, is halted, perhaps because of what another process met.
    package var isHalted: Bool
    /// The code that has halted its batch; nil where none has.
    package var haltedBy: Int?
    package var isStorefrontHalted: Bool
    /// The codes with which what the call carries was refused before. It was put back after others had succeeded, and
    /// is being tried a second time.
    package var secondChances: Set<Int>
    /// By code: how many subscriptions of its batch are parked for it, though others have succeeded since.
    package var parked: [Int: Int]

    package init(
        batchID: String? = nil, storefront: String? = nil, wasParked: Bool = false,
        staleTokens: Int = 0, isHalted: Bool = false, haltedBy: Int? = nil,
        isStorefrontHalted: Bool = false, secondChances: Set<Int> = [], parked: [Int: Int] = [:]
    ) {
        self.batchID = batchID
        self.storefront = storefront
        self.wasParked = wasParked
        self.staleTokens = staleTokens
        self.isHalted = isHalted
        self.haltedBy = haltedBy
        self.isStorefrontHalted = isStorefrontHalted
        self.secondChances = secondChances
        self.parked = parked
    }

    fileprivate var batch: CallScope { CallScope(batchID: batchID) }
    fileprivate var place: CallScope { CallScope(batchID: batchID, storefront: storefront) }
}

/// What a refusal means, compared with what calls of other subscriptions got lately.
package enum RefusalVerdict: Hashable, Sendable {
    /// It is about this subscription or item, as its code says.
    case believed
    /// Its cause is unknown, and others succeed. What the call carries is parked.
    case parked
    /// It was a probe. While nobody succeeds nothing ends, whatever the refusal says.
    case probed
    /// Others were refused alike, so nothing ends by it.
    case systemic(Scope)

    package enum Scope: Hashable, Sendable {
        case storefront(CallScope)
        case batch(CallScope)
        /// Calls of this kind, which has no batches.
        case kind
        /// Every call, of whatever kind.
        case all
    }
}

/// A streak of refusals.
package struct RefusalStreak: Sendable {
    /// When the first of them came, by the business clock.
    package var since: Instant
    /// How many subscriptions were refused with the code of the last refusal, and how many with any code.
    package var alike: Int
    package var refused: Int
}

/// What the last calls got. The same refusal of several subscriptions in a row is not about any one of them. A
/// subscription that is refused while others succeed is an exception. Refusals in a row are counted over all replicas
/// (`RecentAnswers+Stored.swift`), so more processes, or crashes of them, do not let a common cause end more rows.
final class RecentAnswers: Sendable {
    /// How many other subscriptions must be refused alike, in a row, before a refusal that says nothing of the
    /// customer counts as systemic. Fewer are enough while no call has succeeded.
    static let suspectsMax = 5
    static let suspectsMaxAtFirst = 3
    /// The same number for a documented code about the customer. At most this many rows end by a systemic one.
    static let customersMax = 10
    /// How many subscriptions must be refused in a row, with whatever codes, before refusals count as systemic.
    static let refusedMax = 15
    /// Exceptional subscriptions may stand together in a batch. Each one that is already parked for a code raises
    /// `suspectsMax`, `suspectsMaxAtFirst` and `refusedMax` by two for that code, up to this number. No row ends by
    /// such a refusal.
    static let oddMax = 45

    /// How many subscriptions of a batch must be refused before the whole batch counts as refused. A batch with fewer
    /// rows never does.
    static let ofBatchMin = 3
    /// How many subscriptions of several batches must be refused in a row before batches without calls count too.
    static let ofBatchesMax = 30
    /// How many subscriptions must stay without an answer, in a row, before calls are throttled.
    static let unansweredMax = 8

    /// How long it must have been impossible to send calls before people are told, in milliseconds.
    static let outageMin: Int64 = 5000

    /// How many subscriptions of a batch may be refused for a second time, without a success between them, before they
    /// count as refused alike. So a code that every call gets again ends at most this many rows.
    static let secondChancesMax = 30

    /// How many "done already" refusals, over all replicas, may stay uncounted at a time because it was true of others.
    /// So at most this many rows end by one code before they count.
    static let believedDoneMax = 40
    /// How long such a refusal stays uncounted, in milliseconds of real time.
    static let believedDoneFor: Int64 = 300_000

    /// The least time between a halt and its first probe, in milliseconds of real time.
    fileprivate static let haltMin: Int64 = 60_000

    struct Streak {
        var code: Int
        /// When it halted something, in UTC milliseconds of real time.
        var haltedAt: Int64?
        /// The subscriptions that were refused with this code since another code was met.
        var subjects: Set<String> = []
        /// The subscriptions that were refused with any code.
        var refused: Set<String> = []
        /// The same by batch, at most `ofBatchMin` for each.
        var batches: [String: Set<String>] = [:]
        /// The subscriptions that were refused at their second chance. The other sets do not contain them.
        var refusedAgain: Set<String> = []
        /// When the first of them came, by the business clock.
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
        /// The kinds of which a token from a status was accepted, so the tokens refused before it were merely old.
        var renewsTokens: Set<StoreCall.Kind> = []
        /// The kinds whose latest "done already" refusal was true, as a status has shown. Such refusals are then not
        /// counted.
        var areDone: Set<StoreCall.Kind> = []
        /// The subscriptions whose "done already" refusals stay uncounted until a status shows whether they are true,
        /// with the time of each refusal in UTC milliseconds of real time.
        var believedDone: [StoreCall.Kind: [String: Int64]] = [:]
        var liveBatches = 0
        var unanswered: [StoreCall.Kind: Set<String>] = [:]
        /// The subscriptions whose errors asked to wait since a call was answered, two at most.
        var asked: [StoreCall.Kind: Set<String>] = [:]
        /// The subscription that met the latest 429.
        var rateLimited: [StoreCall.Kind: String] = [:]
        /// While calls are throttled: how often in a row, and until when none leaves.
        var throttles: [StoreCall.Kind: (openings: Int, until: Instant)] = [:]
        /// What the database said last: the throttled kinds, and the halted kinds.
        var throttled: Set<String> = []
        var halted: Set<String> = []
        /// The kinds of which no call can leave, as the database said last or we told it.
        var unreached: Set<String> = []
        /// Since when this process could send none, and when it last told so.
        var outages: [StoreCall.Kind: (since: Instant, toldAt: Instant?)] = [:]
        /// The kinds that the halt of the service concerns.
        var serviceHalted: Set<StoreCall.Kind> = []
        /// The kinds of which some call was refused since the last one of the same scope that succeeded.
        var refused: Set<String> = []
    }

    let state = Mutex(State())

    /// Notes the controls that all replicas share.
    func note(_ controls: ServiceControlQueries.Everything) {
        state.withLock { state in
            let throttled = Set(controls.throttledKinds.map(\.kind))
            state.unreached = Set(controls.unreachedKinds.map(\.kind))
            for kind in StoreCall.Kind.allCases
            where state.throttled.contains(kind.rawValue) && !throttled.contains(kind.rawValue) {
                state.throttles[kind] = nil
            }
            state.throttled = throttled
            state.halted = Set(controls.haltedKinds.map(\.kind))
            state.serviceHalted = Set(
                StoreCall.Kind.allCases.filter { controls.isServiceHalted($0) })
            state.refused = Set(controls.refusedKinds)
        }
    }

    /// The keys of the streak of the whole kind, and of the streaks of the scopes.
    static func keys(_ kind: StoreCall.Kind, _ scopes: [CallScope]) -> Set<Key> {
        let all = scopes.flatMap { [$0.place, $0.batch] } + [CallScope()]
        return Set(all.map { Key(kind: kind, scope: $0) })
    }

    /// Notes how many batches have due work. Where there is only one, its refusals count for all.
    func noteLive(batches: Int) { state.withLock { $0.liveBatches = batches } }

    /// Whether a call of the kind was refused since one of its scope succeeded.
    func isAlert(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { state in
            state.refused.contains(kind.rawValue) || state.streaks.keys.contains { $0.kind == kind }
        }
    }

    /// Whether a refusal that says "done already" may not be believed as it stands, so that a status is read at once.
    func readsDone(_ kind: StoreCall.Kind) -> Bool {
        isAlert(kind) || state.withLock { $0.areDone.contains(kind) }
    }

    /// Notes that a call of each scope succeeded, so the refusals before it were exceptions.
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

    /// Whether calls were refused because of our key, so that an answered status says something new.
    func doubtsKey(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { $0.streaks[Key(kind: kind, scope: CallScope())]?.isAboutKey ?? false }
    }

    // MARK: Calls without an answer

    /// Notes an error that asked to wait. Returns true while no other subscription got one since the last answered
    /// call.
    func isAskedAlone(_ kind: StoreCall.Kind, _ subject: String) -> Bool {
        state.withLock { state in
            if state.asked[kind, default: []].count < 2 {
                state.asked[kind, default: []].insert(subject)
            }
            return state.asked[kind] == [subject]
        }
    }

    /// Notes a 429. Returns true where the one before it was of the same subscription.
    func isRateLimitedAgain(_ kind: StoreCall.Kind, _ subject: String) -> Bool {
        state.withLock { $0.rateLimited.updateValue(subject, forKey: kind) == subject }
    }

    /// Notes that a call of the subscription was answered, so that its 429 was not about it.
    func forgetRateLimit(_ kind: StoreCall.Kind, _ subject: String) {
        state.withLock { state in
            if state.rateLimited[kind] == subject { state.rateLimited[kind] = nil }
        }
    }

    /// Notes calls that got no answer. `isAsked` says that one of them was asked to wait. Returns until when no other
    /// call may leave: where there were so many in a row, where an error asked for it, or where the probe got no
    /// answer either. Returns nil where no such time has come. Each wait is `wait` of the number of openings.
    func noteUnanswered(
        _ subjects: [String], _ kind: StoreCall.Kind, isAsked: Bool, now: Instant,
        wait: (Int) -> Duration
    ) -> Instant? {
        state.withLock { state in
            state.unanswered[kind, default: []].formUnion(subjects.prefix(Self.unansweredMax))
            let known = state.throttles[kind]
            // Where another process has throttled the kind, our probe counts at once.
            let isThrottled = known != nil || state.throttled.contains(kind.rawValue)
            guard
                isThrottled || isAsked
                    || state.unanswered[kind, default: []].count >= Self.unansweredMax,
                known.map({ $0.until <= now }) ?? true
            else { return nil }
            let openings = (known?.openings ?? 0) + 1
            let until = now.advanced(by: wait(openings).milliseconds)
            state.throttles[kind] = (openings, until)
            return until
        }
    }

    /// Notes that the App Store answers again, whatever it says. Returns true where calls were throttled.
    func noteAnswered(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { state in
            state.unanswered[kind] = nil
            state.asked[kind] = nil
            let wasThrottled = state.throttles.removeValue(forKey: kind) != nil
            return state.throttled.remove(kind.rawValue) != nil || wasThrottled
        }
    }

    /// Notes that no call could be sent. Returns whether to tell people now: once it has lasted for `outageMin`, then
    /// once a minute. One broken connection says nothing about others.
    func noteUnreached(_ kind: StoreCall.Kind, now: Instant) -> Bool {
        state.withLock { state in
            var outage = state.outages[kind] ?? (since: now, toldAt: nil)
            defer { state.outages[kind] = outage }
            let nextAt = outage.toldAt?.advanced(by: 60_000)
            guard now >= nextAt ?? outage.since.advanced(by: Self.outageMin) else { return false }
            outage.toldAt = now
            state.unreached.insert(kind.rawValue)
            return true
        }
    }

    /// Notes that a call was sent and answered. Returns true where people had been told that none could be sent.
    func noteReached(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { state in
            state.outages[kind] = nil
            return state.unreached.remove(kind.rawValue) != nil
        }
    }

    /// Whether calls are throttled, so that one call at a time probes whether the App Store answers again.
    func isThrottled(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { $0.throttles[kind] != nil || $0.throttled.contains(kind.rawValue) }
    }
}

extension RecentAnswers.State {
    mutating func noteSuccess(_ kind: StoreCall.Kind, _ scopes: [CallScope]) {
        succeeded.insert(kind)
        asked[kind] = nil
        if scopes.contains(where: { $0.staleTokens > 0 }) { renewsTokens.insert(kind) }
        halted.remove(kind.rawValue)
        if kind == .priceChange { serviceHalted = [] }
        for key in RecentAnswers.keys(kind, scopes) { streaks[key] = nil }
    }

    /// Notes that calls of these subscriptions and scopes, refused as "done already", are indeed done. Streaks of such
    /// refusals end.
    mutating func noteDone(
        _ kind: StoreCall.Kind, _ subjects: [String], _ scopes: [CallScope]
    ) {
        areDone.insert(kind)
        for subject in subjects { believedDone[kind]?[subject] = nil }
        for key in RecentAnswers.keys(kind, scopes)
        where streaks[key].map({ APIErrorCode(rawValue: $0.code).saysDone }) ?? false {
            streaks[key] = nil
        }
    }

    /// Notes that a call that was refused as done already is not done. Returns whether its refusal was not counted.
    mutating func noteNotDone(_ kind: StoreCall.Kind, _ subject: String) -> Bool {
        areDone.remove(kind)
        return believedDone[kind]?.removeValue(forKey: subject) != nil
    }

    /// Whether the refusal says "done already" while that was true of others. A status is read before it ends anything.
    fileprivate mutating func isBelievedDone(
        _ refusal: StoreRefusal, _ subject: String, _ kind: StoreCall.Kind, realNow: Int64
    ) -> Bool {
        guard refusal.meaning == .checkStatus, areDone.contains(kind) else { return false }
        // Another process, or a notification, may have ended the check of an old one.
        var others = believedDone[kind, default: [:]]
            .filter { realNow - $0.value < RecentAnswers.believedDoneFor }
        guard others.count < RecentAnswers.believedDoneMax || others[subject] != nil else {
            return false
        }
        others[subject] = realNow
        believedDone[kind] = others
        return true
    }

    /// Notes that our key was accepted. If calls of the kind are still refused as if for the key, the cause is another
    /// one, so their refusals still count.
    mutating func noteGoodKey(_ kind: StoreCall.Kind) {
        streaks[RecentAnswers.Key(kind: kind, scope: CallScope())]?.isAboutKey = false
    }

    mutating func judge(
        _ refusal: StoreRefusal, of subject: String, _ kind: StoreCall.Kind, _ scopes: [CallScope],
        now: Instant, realNow: Int64
    ) -> RefusalVerdict {
        // Work that was parked for an unknown reason may be refused for it again and again.
        guard refusal.isAboutCustomer || !scopes.contains(where: \.wasParked) else {
            return refusal.verdictAlone(scopes)
        }
        // Old tokens may be refused for many subscriptions at once. The next call of each has a new one.
        guard !isMerelyOld(refusal, kind, scopes) else { return .believed }
        // The subscription's status is read before such a refusal is believed.
        guard !isBelievedDone(refusal, subject, kind, realNow: realNow) else { return .believed }
        guard !isSecondChance(refusal, subject, kind, scopes, now) else { return .believed }
        let places =
            refusal.meaning == .haltStorefront && !serviceHalted.contains(kind)
            ? judgeBatches(refusal, subject, kind, scopes, now, realNow) : nil
        let all = judgeAll(refusal, subject, kind, scopes, now, realNow)
        // The first storefronts that lack a price say nothing of others, however many batches they are in.
        if case .systemic(.storefront) = places { return places ?? .parked }
        if let verdict = all ?? places { return verdict }
        // Judging also counts the refusal. So a batch counts only refusals that no wider scope decided.
        return judgeBatches(refusal, subject, kind, scopes, now, realNow)
            ?? refusal.verdictAlone(scopes)
    }

    /// Whether the call was refused with the same code at its second chance. Such refusals are not counted, so that a
    /// few rightful ones do not halt their batch again and again. If enough others are refused after them, or too many
    /// get a second refusal, the rows that they ended are put back with the rest.
    fileprivate mutating func isSecondChance(
        _ refusal: StoreRefusal, _ subject: String, _ kind: StoreCall.Kind, _ scopes: [CallScope],
        _ now: Instant
    ) -> Bool {
        guard refusal.isAboutCustomer, !serviceHalted.contains(kind), !scopes.isEmpty,
            scopes.allSatisfy({ $0.secondChances.contains(refusal.code) && !$0.isHalted })
        else { return false }
        for scope in scopes {
            let key = RecentAnswers.Key(kind: kind, scope: scope.batch)
            streaks[key, default: RecentAnswers.Streak(code: refusal.code, since: now)]
                .refusedAgain.insert(subject)
        }
        // It counts over all batches, because a common cause may show in each of them as only a few refusals.
        let again = streaks.filter { $0.key.kind == kind }
            .reduce(into: Set<String>()) { $0.formUnion($1.value.refusedAgain) }
        let areFew = again.count <= RecentAnswers.secondChancesMax
        for scope in scopes where !areFew {
            let key = RecentAnswers.Key(kind: kind, scope: scope.batch)
            if var streak = streaks[key] {
                if streak.code != refusal.code { streak.subjects = [] }
                streak.code = refusal.code
                streak.subjects.formUnion(streak.refusedAgain)
                streak.refused.formUnion(streak.refusedAgain)
                streak.refusedAgain = []
                streaks[key] = streak
            }
        }
        return areFew
    }

    /// The refusals that halt `scope`.
    func streak(_ kind: StoreCall.Kind, _ scope: RefusalVerdict.Scope) -> RefusalStreak? {
        let place =
            switch scope {
            case .storefront(let place), .batch(let place): place
            case .kind, .all: CallScope()
            }
        // Where all calls are halted, rows that were refused for a second time just before are put back too.
        let again =
            place == CallScope()
            ? streaks.filter { $0.key.kind == kind && !$0.value.refusedAgain.isEmpty }
                .map(\.value.since).min() : nil
        return streaks[RecentAnswers.Key(kind: kind, scope: place)].map {
            RefusalStreak(
                since: min($0.since, again ?? $0.since), alike: $0.subjects.count,
                refused: $0.refused.count)
        }
    }

    /// Forgets the streaks whose halt another process's success, or a person, has ended. `scopes` were just read from
    /// the database.
    mutating func forgetEnded(
        _ kind: StoreCall.Kind, _ scopes: [CallScope], realNow: Int64
    ) {
        // Another process, or a notification, may have ended the check of an old one.
        believedDone[kind] = believedDone[kind]?
            .filter { realNow - $0.value < RecentAnswers.believedDoneFor }
        var open: Set<RecentAnswers.Key> = []
        for scope in scopes {
            if scope.isHalted { open.insert(.init(kind: kind, scope: scope.batch)) }
            if scope.isStorefrontHalted { open.insert(.init(kind: kind, scope: scope.place)) }
        }
        if serviceHalted.contains(kind) || halted.contains(kind.rawValue) {
            open.insert(.init(kind: kind, scope: CallScope()))
        }
        for key in RecentAnswers.keys(kind, scopes) where !open.contains(key) {
            guard let haltedAt = streaks[key]?.haltedAt,
                realNow - haltedAt > RecentAnswers.haltMin
            else { continue }
            streaks[key] = nil
        }
    }

    /// Whether the token was stale while tokens from statuses are accepted.
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

    /// The verdict on all calls of the kind; nil where nothing is wrong with all of them.
    fileprivate mutating func judgeAll(
        _ refusal: StoreRefusal, _ subject: String, _ kind: StoreCall.Kind, _ scopes: [CallScope],
        _ now: Instant, _ realNow: Int64
    ) -> RefusalVerdict? {
        let key = RecentAnswers.Key(kind: kind, scope: CallScope())
        add(refusal, subject, scopes, key, now)
        let isSystemic = isSystemic(refusal, key, scopes)
        // Where there is only one batch, a code about us concerns all. In a kind without batches, only a code about our
        // key does.
        let isForAll =
            refusal.meaning == .haltService && liveBatches <= 1
            && (streaks[key]?.batches.count ?? 0) <= 1
            && (streaks[key]?.isAboutKey ?? false || scopes.contains { $0.batchID != nil })
        if serviceHalted.contains(kind) || isSystemic && (isOfAllBatches(key) || isForAll) {
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
            guard isHalted || isSystemic(refusal, key, [scope]) else { continue }
            return halt(key, at: realNow, isOfPlace ? .storefront(place) : .batch(place))
        }
        return nil
    }

    private mutating func add(
        _ refusal: StoreRefusal, _ subject: String, _ scopes: [CallScope], _ key: RecentAnswers.Key,
        _ now: Instant
    ) {
        var streak =
            streaks[key]
            ?? RecentAnswers.Streak(
                code: refusal.code, since: now, isAboutKey: refusal.isAboutKey)
        if streak.code != refusal.code {
            streak.subjects = []
            streak.isAboutKey = refusal.isAboutKey
        }
        streak.code = refusal.code
        // More than 100 would add nothing. A first token may be old, so its refusal counts only among those with any
        // code.
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

    /// Whether several batches are refused, and either no other batch has work, or so many subscriptions were refused
    /// that the others need not be tried.
    private func isOfAllBatches(_ key: RecentAnswers.Key) -> Bool {
        guard let streak = streaks[key], streak.batches.count > 1 else { return false }
        let faring = streak.batches.values.count { $0.count >= RecentAnswers.ofBatchMin }
        let areMany = streak.refused.count >= RecentAnswers.ofBatchesMax
        // Batches of one or two rows cannot count as refused by themselves. They count where there are many of them.
        let areSmall = streak.batches.count >= RecentAnswers.ofBatchesMax / RecentAnswers.ofBatchMin
        return faring > 1 && (faring >= liveBatches || areMany) || areMany && areSmall
    }

    private func isSystemic(
        _ refusal: StoreRefusal, _ key: RecentAnswers.Key, _ scopes: [CallScope]
    ) -> Bool {
        guard let streak = streaks[key] else { return false }
        let more = refusal.isAboutCustomer ? 0 : 2 * Self.parked(scopes, for: refusal)
        return streak.subjects.count >= Self.raised(limit(refusal, key), by: more)
            || streak.refused.count >= Self.raised(RecentAnswers.refusedMax, by: more)
    }

    private static func raised(_ limit: Int, by more: Int) -> Int {
        max(limit, min(limit + more, RecentAnswers.oddMax))
    }

    /// How many subscriptions are parked for the code, in the batch that has the most of them.
    private static func parked(_ scopes: [CallScope], for refusal: StoreRefusal) -> Int {
        scopes.map { $0.parked[refusal.code] ?? 0 }.max() ?? 0
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
    /// The verdict where others succeed. A stale token is retried with newer tokens, and only then parked.
    fileprivate func verdictAlone(_ scopes: [CallScope]) -> RefusalVerdict {
        guard meaning != .refresh else {
            // Without a batch, the call carried the token of a fresh status, or none.
            return scopes.isEmpty || scopes.contains { $0.staleTokens >= 2 } ? .parked : .believed
        }
        return isAboutCustomer ? .believed : .parked
    }
}
