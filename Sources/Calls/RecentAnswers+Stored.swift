import Facts
import Pricing

/// The database stores the streaks of refusals. So replicas count together, and a process that replaces a dead one
/// continues its count.
extension RecentAnswers {
    /// Judges by the stored streaks of all replicas, not by what this process remembers. The second part of the result
    /// is the streaks after the judgement.
    func together<Result>(
        _ kind: StoreCall.Kind, _ stored: [StoredStreak], _ judge: (inout State) -> Result
    ) -> (Result, [StoredStreak]) {
        state.withLock { state in
            state.adopt(kind, stored)
            let result = judge(&state)
            return (result, state.stored(kind))
        }
    }

    /// Whether a success of calls of these scopes ends the stored streak.
    static func isEnded(
        _ stored: [StoredStreak], byAny scopes: [CallScope], of kind: StoreCall.Kind
    ) -> Bool {
        let keys = keys(kind, scopes)
        return stored.contains { keys.contains(Key(kind: kind, scope: $0.scope)) }
    }
}

extension RecentAnswers.State {
    fileprivate mutating func adopt(_ kind: StoreCall.Kind, _ stored: [StoredStreak]) {
        for key in streaks.keys where key.kind == kind { streaks[key] = nil }
        let everybody = stored.first { $0.scope == CallScope() }
        believedDone[kind] = Dictionary(
            (everybody?.believedDone ?? []).map { ($0.subject, $0.at) }
        ) { first, _ in first }
        // The row for all calls of the kind always exists. While it holds no refusal, it is no streak.
        for streak in stored where streak.batchID != nil || !streak.refused.isEmpty {
            let key = RecentAnswers.Key(kind: kind, scope: streak.scope)
            streaks[key] = RecentAnswers.Streak(streak)
        }
    }

    fileprivate func stored(_ kind: StoreCall.Kind) -> [StoredStreak] {
        var stored = streaks.filter { $0.key.kind == kind }.map { key, streak in
            streak.stored(as: key.scope)
        }
        let believed = believedDone[kind, default: [:]].sorted { $0.key < $1.key }
        guard !believed.isEmpty else { return stored }
        if let index = stored.firstIndex(where: { $0.scope == CallScope() }) {
            stored[index].believedDone = believed.map { .init(subject: $0.key, at: $0.value) }
        } else {
            var everybody = StoredStreak(batchID: nil, storefront: nil, code: 0, since: 0)
            everybody.believedDone = believed.map { .init(subject: $0.key, at: $0.value) }
            stored.append(everybody)
        }
        return stored
    }
}

extension RecentAnswers.Streak {
    fileprivate init(_ stored: StoredStreak) {
        self.init(
            code: stored.code, haltedAt: stored.haltedAt, subjects: Set(stored.alike),
            refused: Set(stored.refused),
            batches: Dictionary(
                stored.batches.map { ($0.batchID, [$0.subscription]) },
                uniquingKeysWith: { $0.union($1) }),
            refusedAgain: Set(stored.refusedAgain), since: Instant(milliseconds: stored.since),
            isAboutKey: stored.isAboutKey)
    }

    fileprivate func stored(as scope: CallScope) -> StoredStreak {
        var stored = StoredStreak(
            batchID: scope.batchID, storefront: scope.storefront, code: code,
            since: since.milliseconds)
        stored.alike = subjects.sorted()
        stored.refused = refused.sorted()
        stored.refusedAgain = refusedAgain.sorted()
        stored.batches = batches.sorted { $0.key < $1.key }.flatMap { id, subscriptions in
            subscriptions.sorted().map { .init(batchID: id, subscription: $0) }
        }
        stored.haltedAt = haltedAt
        stored.isAboutKey = isAboutKey
        return stored
    }
}

extension StoredStreak {
    fileprivate var scope: CallScope { CallScope(batchID: batchID, storefront: storefront) }
}
