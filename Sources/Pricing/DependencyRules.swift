/// Which SKUs depend on which for one subscription: over the rows of the batch, our open changes, and the increases
/// that Apple already has.
struct DependencyRules {
    private var dependents: [String: [String]] = [:]
    private var parents: [String: [String]] = [:]

    init(rows: [BatchRow], facts: SubscriptionFacts?, openChanges: [JudgeContext.OpenChange]) {
        for row in rows { add(row.sku, row.dependentSKUs) }
        for change in openChanges where !change.state.isFinal {
            add(change.sku, change.dependentSKUs)
        }
        for item in facts?.items ?? [] { add(item.sku, item.increase?.dependentSKUs ?? []) }
    }

    private mutating func add(_ parent: String, _ skus: [String]) {
        // A SKU that names itself has a fault code of its own, so it is no chain.
        for sku in skus where sku != parent {
            if dependents[parent]?.contains(sku) == true { continue }
            dependents[parent, default: []].append(sku)
            parents[sku, default: []].append(parent)
        }
    }

    /// The fault that the rows of the batch alone show. These rules must then be those of the batch alone.
    func faultOfFile(_ row: BatchRow, _ context: JudgeContext) -> RowFault? {
        var context = context
        context.claims = context.claims.mapValues { $0.filter { $0.line != nil } }
        context.obstacles = context.fileObstacles
        return own(row) ?? group(row, context)
    }

    func fault(of row: BatchRow, known: Set<String>, context: JudgeContext = JudgeContext())
        -> RowFault?
    {
        own(row) ?? foreign(row, context.obstacles) ?? unknown(row, known) ?? group(row, context)
    }

    private func group(_ row: BatchRow, _ context: JudgeContext) -> RowFault? {
        let obstacles = context.obstacles
        return shared(row) ?? sharedAcrossSubscriptions(row, obstacles) ?? claimed(row, context)
            ?? chained(row) ?? chainedAcrossSubscriptions(row, obstacles)
            ?? chainedByClaim(row, context)
    }

    /// The fault of a row with a dependent that another subscription names as its own.
    private func claimed(_ row: BatchRow, _ context: JudgeContext) -> RowFault? {
        for sku in row.dependentSKUs {
            let others = context.claims(on: sku, of: row)
            guard !others.isEmpty else { continue }
            return RowFault(
                .dependentShared,
                "\(sku) also depends on \(others.prefix(10).joined(separator: " and "))",
                remedy: "let it depend on one of them only")
        }
        return nil
    }

    /// The fault of a row whose item depends on one of another subscription and has dependents itself.
    private func chainedByClaim(_ row: BatchRow, _ context: JudgeContext) -> RowFault? {
        guard let parent = context.claims(on: row.sku, of: row).first else { return nil }
        return Self.chain([parent, row.sku] + row.dependentSKUs.sorted().prefix(1))
    }

    private static func chain(_ path: [String]) -> RowFault {
        RowFault(
            .dependentChained, "dependents form a chain \(path.joined(separator: " → "))",
            remedy: "a dependent may not have dependents of its own")
    }

    private func foreign(_ row: BatchRow, _ obstacles: [String: DependentObstacle]) -> RowFault? {
        row.dependentSKUs.first { obstacles[$0] == .foreign }.map {
            RowFault(
                .dependentUnknown, "\($0) is on the subscription of another customer",
                remedy: "remove it from dependent_skus")
        }
    }

    private func sharedAcrossSubscriptions(
        _ row: BatchRow, _ obstacles: [String: DependentObstacle]
    ) -> RowFault? {
        row.dependentSKUs.first { obstacles[$0] == .dependent }.map {
            RowFault(
                .dependentShared, "\($0) depends on an item of its own subscription already",
                remedy: "let it depend on one of them only")
        }
    }

    private func chainedAcrossSubscriptions(
        _ row: BatchRow, _ obstacles: [String: DependentObstacle]
    ) -> RowFault? {
        for sku in row.dependentSKUs {
            guard case .parent(let last) = obstacles[sku] else { continue }
            return Self.chain([row.sku, sku] + last.sorted().prefix(1))
        }
        return nil
    }

    private func own(_ row: BatchRow) -> RowFault? {
        guard row.dependentSKUs.contains(row.sku) else { return nil }
        return .dependentSelf(row.sku)
    }

    private func unknown(_ row: BatchRow, _ known: Set<String>) -> RowFault? {
        let isUnknown = { (sku: String) in
            known.firstIndex(of: sku).map { !known[$0].isWritten(as: sku) } ?? true
        }
        guard let sku = row.dependentSKUs.first(where: isUnknown) else { return nil }
        return RowFault(
            .dependentUnknown, "the customer has no subscription on which \(sku) is set to renew",
            remedy: "remove it from dependent_skus, or ingest that subscription's notifications")
    }

    private func shared(_ row: BatchRow) -> RowFault? {
        for sku in row.dependentSKUs {
            guard let owners = parents[sku], owners.count > 1 else { continue }
            return RowFault(
                .dependentShared,
                "\(sku) depends on \(owners.sorted().joined(separator: " and "))",
                remedy: "let it depend on one of them only")
        }
        return nil
    }

    private func chained(_ row: BatchRow) -> RowFault? {
        let isParentOfParent = row.dependentSKUs.contains { $0 != row.sku && dependents[$0] != nil }
        guard isParentOfParent || parents[row.sku] != nil else { return nil }
        return Self.chain(chain(through: row.sku))
    }

    /// The chain from its first parent to its last dependent. A circle is shown once around.
    private func chain(through sku: String) -> [String] {
        var path = [sku]
        while let first = path.first, let parent = parents[first]?.min(), !path.contains(parent) {
            path.insert(parent, at: 0)
        }
        while let last = path.last, let next = next(after: last) {
            path.append(next)
            if path.dropLast().contains(next) { break }
        }
        return path
    }

    private func next(after sku: String) -> String? {
        guard let candidates = dependents[sku]?.sorted() else { return nil }
        return candidates.first { dependents[$0] != nil } ?? candidates.first
    }
}

extension JudgeContext {
    /// Who else names this item as a dependent, in words and in order: other subscriptions, and other items of this
    /// subscription, which may name it in another way. The item is one of the row's subscription, or of the
    /// subscription in `name`. A change that is about to be sent has no line, because its own subscription was checked
    /// when it was planned.
    fileprivate func claims(on name: String, of row: BatchRow) -> [String] {
        guard !claims.isEmpty else { return [] }
        let id = row.originalTransactionID
        let found = (places[name] ?? [DependentReference(name).placed(on: id)])
            .flatMap { claims[$0.text] ?? [] }
        let others = found.filter {
            $0.originalTransactionID != id || (row.line > 0 && $0.sku != row.sku)
        }
        return Set(others.map(\.text)).sorted()
    }
}
