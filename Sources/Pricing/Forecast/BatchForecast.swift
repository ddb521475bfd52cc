/// The figures of a whole batch, added up row by row in the order of the file. Whatever the batch's size, it keeps a
/// few tables and 48 bytes a call.
@dynamicMemberLookup
package struct BatchForecast: Sendable {
    /// The figures, except those that only the whole file shows.
    private var gathered = BatchFigures()
    /// The rows that can be sent but are judged on facts older than a known renewal.
    package private(set) var staleCount = 0
    package private(set) var uncertain: [RuleSource: BatchFigures.Uncertain] = [:]
    /// The calls, from which the quota is computed.
    package private(set) var calls: CallList
    /// The number of rows of each wave that can be sent, the first wave first; empty without waves.
    package private(set) var waves: [Int]
    package let terms: BatchTerms
    /// Rows that take effect later than this get the warning that they are far ahead; nil for no such warning.
    private let farAt: Instant?
    /// The earliest release of each wave; empty where the instant of the plan is not given.
    private let releases: [Instant]
    private var ids = RoundedIDs()
    private var shared = SharedRisk()

    package init(_ terms: BatchTerms = BatchTerms(), asOf now: Instant? = nil) {
        self.terms = terms
        farAt = now.map { $0.advanced(byMonths: BatchWarning.farMonths) }
        releases = now.flatMap { terms.waves?.earliestReleases(approvedAt: $0) } ?? []
        calls = CallList(terms.grouping)
        waves = terms.waves.map { [Int](repeating: 0, count: $0.waves.count) } ?? []
    }

    package var figures: BatchFigures {
        var figures = gathered
        figures.warnings[.idsEndInZero] = ids.areRounded ? .init(count: ids.count) : nil
        shared.settle(&figures.money, calls)
        return figures
    }

    /// Settles amounts that several rows put at risk, once all rows are added. Reading the figures before gives the
    /// same result, but costs more.
    package mutating func finish() {
        shared.settle(&gathered.money, calls)
        shared = SharedRisk()
    }

    /// A forecast has the properties of its figures.
    package subscript<Value>(dynamicMember figure: KeyPath<BatchFigures, Value>) -> Value {
        figures[keyPath: figure]
    }

    package mutating func add(_ row: PlanRow) {
        ids.add(row.originalTransactionID)
        if let code = row.code {
            gathered.codes[code, default: 0] += 1
            return
        }
        gathered.canGoCount += 1
        if let direction = row.direction { gathered.directions[direction, default: 0] += 1 }
        if let consent = row.consent { gathered.consents[consent, default: 0] += 1 }
        for reason in row.reasons { gathered.reasons[reason, default: 0] += 1 }
        addNotKnown(row)
        if row.isStale { staleCount += 1 }
        addDates(row)
        gathered.money.add(row)
        addUncertain(row)
        addMove(row)
        for warning in BatchWarning.of(row, farAt: farAt) { warn(warning, row.line) }
        let wave = wave(of: row)
        if let wave { waves[wave] += 1 }
        calls.add(row, from: wave.flatMap { $0 < releases.count ? releases[$0] : nil })
        shared.note(row, &calls)
    }

    /// Warns of a row for a reason outside the row.
    package mutating func warn(_ warning: BatchWarning, _ line: Int) {
        gathered.warnings[warning, default: .init()].add(line)
    }

    private mutating func addNotKnown(_ row: PlanRow) {
        guard row.consent == .notKnown else { return }
        for rule in row.notKnown {
            gathered.notKnown[rule, default: .init()].rows += 1
            guard let storefront = row.storefront else { continue }
            gathered.notKnown[rule]?.storefronts.insert(storefront)
        }
    }

    /// The place of the row's wave in `waves`; nil without waves.
    private func wave(of row: PlanRow) -> Int? {
        terms.waves?.wave(
            ofSubscription: row.originalTransactionID, storefront: row.storefront
        ).map { $0 - 1 }
    }

    private mutating func addDates(_ row: PlanRow) {
        if let sendBy = row.sendBy {
            gathered.firstSendBy = min(gathered.firstSendBy ?? sendBy, sendBy)
        }
        guard let effectiveAt = row.effectiveAt else { return }
        gathered.lastEffectiveAt = max(gathered.lastEffectiveAt ?? effectiveAt, effectiveAt)
        guard let direction = row.direction else { return }
        gathered.count(1, direction, on: effectiveAt.day)
    }

    private mutating func addUncertain(_ row: PlanRow) {
        guard let verdict = row.verdict, verdict.restsOnThreshold else { return }
        switch verdict.thresholdSource {
        case .apple: return
        case .estimated, .unknown: break
        }
        uncertain[verdict.thresholdSource, default: .init()].add(row.line)
    }

    private mutating func addMove(_ row: PlanRow) {
        guard let current = row.currentPrice, let new = row.newPrice else { return }
        let move = PriceMove(
            line: row.line, originalTransactionID: row.originalTransactionID, sku: row.sku,
            currency: row.currency ?? "", currentPrice: current, newPrice: new)
        switch row.direction {
        case .increase: gathered.increases.add(move)
        case .decrease: gathered.decreases.add(move)
        case nil: break
        }
    }
}

extension BatchFigures.Uncertain {
    fileprivate mutating func add(_ line: Int) {
        rows += 1
        if lines.count < BatchFigures.examplesMax { lines.append(line) }
    }
}
