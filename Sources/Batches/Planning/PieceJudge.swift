package import Facts
package import Pricing

/// Judges pieces of a batch, each row beside all rows of its subscription.
struct PieceJudge: Sendable {
    let judge: Judge
    /// The judges of the waves; nil where all rows may be sent at once.
    let waves: WaveJudges?
    let connection: DatabaseConnection
    /// Past increases count as they were known at this instant; nil stands for now.
    let known: Instant?
    /// All rows of the batch for a subscription, in the order of lines. The list may be empty where there is only one.
    let siblings: @Sendable (String) -> [BatchRow]
    /// The rows of the batch that name an item, as `SUBSCRIPTION/SKU`, as their dependent.
    let claims: @Sendable (String) -> [DependentClaim]
    /// Facts of earlier pieces.
    let kept = KeptFacts()

    /// A row's place in the piece.
    private struct Mention: Comparable {
        let id: String
        let place: Int

        static func < (left: Mention, right: Mention) -> Bool {
            left.id == right.id ? left.place < right.place : left.id < right.id
        }
    }

    func judge(_ read: [BatchFileEntry]) async throws -> PlannedPiece {
        let entries =
            judge.environment == .sandbox ? read.map { $0.judged(in: .sandbox) } : read
        var (rows, mentions) = Self.unjudged(entries)
        // The subscriptions are read in the order of the index, which avoids random reads on the server.
        mentions.sort()
        let groups = mentions.chunked(by: \.id)
        let ids = groups.compactMap { $0.first?.id }
        let siblings = ids.map(siblings)
        // Rows of other pieces are among them, because their verdicts affect rows of this piece.
        let parents = siblings.joined().filter { !$0.dependentSKUs.isEmpty }
        let known = try await facts(of: ids, parents)
        let lastLine = rows.last?.line ?? 0
        var needed: [Known] = []
        var overtaken: [PlannedPiece.Overtaken] = []
        var withoutWaves: [Int: PlanRow] = [:]
        for ((found, siblings), group) in zip(zip(known, siblings), groups) {
            if let facts = found?.facts {
                for mention in group where entries[mention.place].isSpoiled {
                    judge.describe(&rows[mention.place], facts: facts)
                }
            }
            let batchRows = group.compactMap { mention -> BatchRow? in
                guard case .row(let row) = entries[mention.place] else { return nil }
                return row
            }
            if let found, let last = siblings.last, last.line > lastLine { needed.append(found) }
            guard !batchRows.isEmpty else { continue }
            let context = found?.context ?? contextOfFile(siblings)
            let places = group.lazy.map(\.place).filter { !entries[$0].isSpoiled }
            let later = waves?.judge(
                of: found?.facts, storefront: batchRows.first?.storefront)
            var next = places.makeIterator()
            (later ?? judge).judge(
                rows: batchRows, siblings: siblings, facts: found?.facts,
                context: context
            ) { row in
                guard let place = next.next() else { return }
                if let found, !found.context.openChanges.isEmpty {
                    overtaken += found.context.overtaken(by: row)
                }
                rows[place] = row
            }
            guard later != nil else { continue }
            next = places.makeIterator()
            judge.judge(
                rows: batchRows, siblings: siblings, facts: found?.facts, context: context
            ) { row in
                if let place = next.next() { withoutWaves[place] = row }
            }
        }
        kept.keep(needed)
        return PlannedPiece(
            entries: entries, rows: rows, withoutWaves: withoutWaves,
            overtaken: overtaken.sorted { $0.line < $1.line })
    }

    /// Placeholder rows, whose verdicts follow later, and the subscriptions of the rows to judge.
    private static func unjudged(_ entries: [BatchFileEntry]) -> ([PlanRow], [Mention]) {
        var mentions: [Mention] = []
        mentions.reserveCapacity(entries.count)
        var rows: [PlanRow] = []
        rows.reserveCapacity(entries.count)
        for (place, entry) in entries.enumerated() {
            switch entry {
            case .row(let row):
                mentions.append(Mention(id: row.originalTransactionID, place: place))
                rows.append(PlanRow(line: row.line))
            case .spoiled(let row):
                if let item = row.item {
                    mentions.append(Mention(id: item.originalTransactionID, place: place))
                }
                rows.append(row.plan)
            }
        }
        return (rows, mentions)
    }

    /// The known facts of each of these subscriptions. `parents` are their rows with dependents.
    private func facts(of ids: [String], _ parents: [BatchRow]) async throws -> [Known?] {
        var known = kept.found(ids)
        // A row with dependents needs more facts of its subscription than the cache keeps.
        let whole = Set(parents.map(\.originalTransactionID))
        let places = ids.indices.filter { known[$0] == nil || whole.contains(ids[$0]) }
        guard !places.isEmpty else { return known }
        let others = places.map { ids[$0] }
        let read = try await connection.read {
            try PlanQueries.facts(others, knownAt: self.known, on: $0)
        }
        let fresh = try read.decoded()
        for place in places { known[place] = fresh[ids[place]] }
        try await addDependents(to: fresh.filter { whole.contains($0.key) }, parents)
        return known
    }
}

extension Array {
    /// The runs of neighbours that have the same value.
    fileprivate func chunked<Value: Equatable>(by value: (Element) -> Value) -> [ArraySlice<
        Element
    >] {
        var chunks: [ArraySlice<Element>] = []
        chunks.reserveCapacity(count)
        var start = startIndex
        while start < endIndex {
            let first = value(self[start])
            let end = self[start...].firstIndex { value($0) != first } ?? endIndex
            chunks.append(self[start..<end])
            start = end
        }
        return chunks
    }
}

extension JudgeContext {
    /// The open and unsent increases for which the row counts as an earlier increase. It does within 12 months before
    /// their call, which may be up to 60 days before their renewal.
    fileprivate func overtaken(by row: PlanRow) -> [PlannedPiece.Overtaken] {
        guard row.fault == nil, row.direction == .increase, let effectiveAt = row.effectiveAt else {
            return []
        }
        let until = effectiveAt.advanced(byMonths: 12)
        return openChanges.compactMap { change in
            guard let changeID = change.changeID, let at = change.increasesAt,
                change.state == .awaitingApproval || change.state == .queued,
                at > effectiveAt, change.sendAfter.map({ $0 < until }) ?? true
            else { return nil }
            return PlannedPiece.Overtaken(changeID: changeID, line: row.line)
        }
    }

    /// Notes what the newest facts say about a dependent on another subscription. `name` is the name in the row; nil
    /// stands for the reference's own.
    package mutating func note(
        _ reference: DependentReference, as name: String? = nil,
        on carrier: SubscriptionQueries.Carrier?, customer: String?
    ) {
        let name = name ?? reference.text
        guard let carrier else { return }
        if let customer, let other = carrier.customer,
            customer.lowercased() != other.lowercased()
        {
            obstacles[name] = .foreign
            return
        }
        if carrier.renewing.contains(reference.sku) { siblingSKUs.insert(name) }
        if let part = carrier.roles[reference.sku] { obstacles[name] = part }
        charges[reference.text] = carrier.charges[reference.sku]
    }

    /// Notes what the rows for the other subscription in the same batch say about it.
    mutating func note(
        _ reference: DependentReference, as name: String, besides rows: [BatchRow]
    ) {
        // A row that names another customer's item is refused for that alone.
        guard obstacles[name] != .foreign else { return }
        // In the order of the codes, "shared" comes first.
        if rows.contains(where: {
            $0.sku != reference.sku && $0.dependentSKUs.contains(reference.sku)
        }) {
            fileObstacles[name] = .dependent
        } else if let parent = rows.first(where: {
            $0.sku == reference.sku && !$0.dependentSKUs.isEmpty
        }) {
            fileObstacles[name] = .parent(parent.dependentSKUs)
        }
    }
}

extension JudgeContext {
    /// The facts and our open changes of one subscription. `imported` are past increases that a person stated, and
    /// `ours` are those that our changes caused.
    package init(
        increases: [RecordedIncrease], imported: [PastIncrease],
        openChanges: [OpenChangeQueries.OpenChange],
        ours: Set<PastIncrease> = []
    ) {
        self.init(
            increaseHistory: increases.past.map { past in
                PastIncrease(sku: past.sku, at: past.at, isOurs: ours.contains(past))
            } + imported)
        announcedAt = increases.announcedAt
        self.openChanges = openChanges.map(OpenChange.init)
    }
}

extension JudgeContext.OpenChange {
    package init(_ change: OpenChangeQueries.OpenChange) {
        self.init(
            changeID: change.changeID, sku: change.sku, newPrice: change.newPrice,
            dependentSKUs: change.dependentSKUs, state: change.state,
            // An unapproved change must not move the date of a change that is about to be sent.
            increasesAt: change.isIncrease && change.state != .awaitingApproval
                ? change.dueEffectiveAt : nil)
    }
}
