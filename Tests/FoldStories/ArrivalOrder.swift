package import Pricing

/// A story as a projector meets it: shuffled, in pieces, some statements told again.
package struct ArrivalOrder: Sendable {
    package let pieces: [[SubscriptionEvent]]

    package init(_ events: [SubscriptionEvent], random: inout StoryRandom) {
        var order = events.shuffled(using: &random)
        for _ in 0..<random.pick(0...max(1, events.count / 2)) {
            guard let again = events.randomElement(using: &random) else { break }
            order.insert(again, at: random.pick(0...order.count))
        }
        var pieces: [[SubscriptionEvent]] = []
        var rest = order[...]
        let pieceMax = random.chance(50) ? 3 : order.count
        while !rest.isEmpty {
            let count = random.pick(1...max(1, min(rest.count, pieceMax)))
            pieces.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        self.pieces = pieces
    }
}

/// What is stored of one subscription, kept as the database keeps it.
package struct StoredSubscription: Sendable {
    package private(set) var state: SubscriptionState
    /// As the ledger adds them up: what each line comes to. The evidence may be any statement that told it.
    package private(set) var money: [MoneyEntry.Key: MoneyEntry] = [:]
    package private(set) var history: Set<Transition> = []
    private var kept: [SubscriptionEvent] = []
    private var keys: Set<SubscriptionEvent.Key> = []
    private var checkpoint: FoldCheckpoint?

    package init(id: String, changes: [TrackedChange]) {
        state = SubscriptionState(
            facts: SubscriptionFacts(originalTransactionID: id), changes: changes)
    }

    package mutating func arrive(_ piece: [SubscriptionEvent]) {
        let new = piece.filter { event in
            guard checkpoint.map({ event.key.signedAt >= $0.before }) ?? true else { return false }
            return keys.insert(event.key).inserted
        }
        guard !new.isEmpty else { return }
        kept += new
        let isLate = SubscriptionFold.isLate(
            new, after: state.foldedThrough, state.changes, state.facts)
        let fold = SubscriptionFold(
            state, arrived: new, all: isLate ? kept : nil, since: checkpoint)
        state = fold.state
        if fold.isAnew {
            money = money.filter { key, _ in
                checkpoint.map { key.kind == .charge && key.occurredAt < $0.moneySince } ?? false
            }
        }
        for entry in fold.state.money {
            if entry.key.kind == .charge {
                money = money.filter {
                    $0.key.kind != .charge || $0.key.transactionID != entry.key.transactionID
                        || $0.key.sku != entry.key.sku
                }
            }
            var told = entry
            told.evidenceID = ""
            money[entry.key] = told
        }
        history.formUnion(fold.transitions)
        guard let latest = fold.latest else { return }
        for change in fold.moved {
            guard let newest = newestLines(of: change.changeID),
                !newest.states.contains(change.progress.state), let state = newest.states.first,
                var line = history.first(where: { $0.changeID == change.changeID })
            else { continue }
            // As the write of a fold does: the newest line of a change is always its state.
            line.state = change.progress.state
            line.at = newest.at.advanced(by: 1)
            line.evidenceKind = latest.source
            line.evidenceID = latest.key.evidenceID
            line.reason = SubscriptionFold.correctionReason + state.rawValue
            history.insert(line)
        }
    }

    /// What retention does: forgets the statements signed before the instant. False where it may not, since a call of
    /// before is still open, or a fold from there would end differently.
    package mutating func forget(before: Instant) -> Bool {
        let stored = FoldCheckpoint(before: before, statements: kept, since: checkpoint, state)
        guard FoldCheckpoint.isPossible(before: before, state), stored.leads(to: state, by: kept)
        else { return false }
        checkpoint = stored
        kept.removeAll { $0.key.signedAt < before }
        keys = keys.filter { $0.signedAt >= before }
        return true
    }

    private func newestLines(of changeID: String) -> (at: Instant, states: [ChangeState])? {
        let lines = history.filter { $0.changeID == changeID }
        guard let at = lines.map(\.at).max() else { return nil }
        return (at, lines.filter { $0.at == at }.map(\.state))
    }

    /// How this one differs from what the ordered story gives; nil where it does not.
    package func difference(from ordered: StoredSubscription) -> String? {
        if state.facts != ordered.state.facts { return "facts" }
        if state.increases != ordered.state.increases { return "increases" }
        if state.seenSKUs != ordered.state.seenSKUs { return "seen SKUs" }
        if state.changes.map(\.asStored) != ordered.state.changes.map(\.asStored) {
            return "changes"
        }
        if state.foldedThrough != ordered.state.foldedThrough { return "folded through" }
        if money != ordered.money { return "money" }
        if Set(needed(state)) != Set(needed(ordered.state)) { return "cancellations" }
        // A verdict that a late statement corrected stays in the history; what holds must be there.
        let told = ordered.history.filter {
            !($0.reason?.hasPrefix(SubscriptionFold.correctionReason) ?? false)
        }
        if !told.isSubset(of: history) { return "history" }
        return nil
    }

    private func needed(_ state: SubscriptionState) -> [DependentCancellation] {
        state.cancellations.filter { $0.state != .notNeeded }
    }

    /// A change whose newest line of history says another state; nil where there is none.
    package var contradiction: String? {
        for change in state.changes {
            guard let newest = newestLines(of: change.changeID),
                !newest.states.contains(change.progress.state)
            else { continue }
            return
                "\(change.changeID) is \(change.progress.state), its history says \(newest.states)"
        }
        return nil
    }
}

extension TrackedChange {
    /// The names in its call only where they differ from today's, as the database has them.
    fileprivate var asStored: TrackedChange {
        var stored = self
        if stored.calledSKU == sku { stored.calledSKU = nil }
        if stored.calledDependentSKUs == dependentSKUs { stored.calledDependentSKUs = nil }
        return stored
    }
}

package enum FoldOrders {
    /// Folds `count` random orders of random stories and compares each with the ordered one; the first
    /// difference, with the seed that makes it again.
    package static func firstDifference(count: Int, seed: UInt64, ordersPerStory: Int = 20)
        -> String?
    {
        var told = 0
        var story: UInt64 = 0
        while told < count {
            let storySeed = seed &+ story
            story += 1
            if let difference = differences(
                seed: storySeed, orders: min(ordersPerStory, count - told))
            {
                return "story \(storySeed): \(difference)"
            }
            told += ordersPerStory
        }
        return nil
    }

    package static func differences(seed: UInt64, orders: Int) -> String? {
        let story = RandomStory(seed: seed, steps: 4 + Int(seed % 9))
        var ordered = StoredSubscription(id: "1", changes: story.changes)
        ordered.arrive(story.events)
        var random = StoryRandom(seed: seed ^ 0xA5A5_A5A5)
        for order in 0..<orders {
            var stored = StoredSubscription(id: "1", changes: story.changes)
            for piece in ArrivalOrder(story.events, random: &random).pieces {
                stored.arrive(piece)
            }
            if let difference = stored.difference(from: ordered) {
                return "order \(order): \(difference)"
            }
            if let contradiction = stored.contradiction {
                return "order \(order): \(contradiction)"
            }
        }
        return nil
    }

    /// As `differences`, but that retention forgets the older statements when they have all come, once or twice, and some
    /// of them come again.
    ///
    /// - Parameter forgotten: How often it may.
    package static func differencesBesideRetention(
        seed: UInt64, orders: Int, forgotten: inout Int
    ) -> String? {
        let story = RandomStory(seed: seed, steps: 4 + Int(seed % 9))
        var ordered = StoredSubscription(id: "1", changes: story.changes)
        ordered.arrive(story.events)
        var random = StoryRandom(seed: seed ^ 0x5A5A_5A5A)
        for order in 0..<orders {
            var stored = StoredSubscription(id: "1", changes: story.changes)
            let cuts = (0..<2).compactMap { _ in
                story.events.randomElement(using: &random)?.key.signedAt
            }.sorted()
            var rest = story.events
            for cut in cuts {
                // All of before, and some of what follows; the others are late.
                let early = rest.filter { $0.key.signedAt < cut || random.chance(30) }
                for piece in ArrivalOrder(early, random: &random).pieces { stored.arrive(piece) }
                if stored.forget(before: cut) { forgotten += 1 }
                rest = story.events.filter { $0.key.signedAt >= cut || random.chance(30) }
            }
            for piece in ArrivalOrder(rest, random: &random).pieces { stored.arrive(piece) }
            if let difference = stored.difference(from: ordered) {
                return "order \(order), cut at \(cuts): \(difference)"
            }
        }
        return nil
    }
}
