package import Pricing

/// What a file of rules changes: the new rules, each with the one that it replaces, and the withdrawn ones.
package struct RuleImport: Hashable, Sendable {
    package struct Change: Hashable, Sendable {
        /// The new rule, or the withdrawn one.
        package var rule: Rule
        /// The rule that the new one replaces, or that holds again after a withdrawal; nil where there is none.
        package var old: Rule?
        package var isWithdrawal: Bool

        package init(rule: Rule, old: Rule? = nil, isWithdrawal: Bool = false) {
            self.rule = rule
            self.old = old
            self.isWithdrawal = isWithdrawal
        }
    }

    package private(set) var changes: [Change] = []
    /// How many rows repeat what already holds.
    package private(set) var unchangedCount = 0
    /// The rows that cannot be taken, in the order of lines: those with faults of their own, and those that
    /// contradict the stored rules.
    package private(set) var faults: [RuleFault] = []
    /// Implausible rows, in the order of lines. They are imported only where a person accepts them.
    package private(set) var warnings: [RuleFault] = []

    /// Compares a file with all that is stored. Rows without a date of their own hold from `from` on.
    package init(_ file: RuleFile, stored: RuleSet, from: Instant) {
        var timelines: [Rule.Key: [Rule]] = [:]
        // Stored rows come in the order of their dates.
        for row in stored.rows { timelines[row.key, default: []].append(row) }
        var pending = file.rows.map { row in
            var row = row
            if !row.isDated { row.rule.validFrom = from }
            return row
        }
        pending.sort { ($0.rule.startsAt, $0.line) < ($1.rule.startsAt, $1.line) }
        var found = withdraw(file.withdrawals, from: &timelines)
        let isNew = compare(pending, with: timelines)
        // A row without a date may meet one that names the very instant of the import.
        found += RuleImport.wrongCurrencies(file, stored)
        found += RuleFile.duplicates(of: pending, file.withdrawals, undated: "ever")
        let named = Set(file.faults.map(\.line))
        faults = (file.faults + found.filter { !named.contains($0.line) })
            .sorted { $0.line < $1.line }
        guard !isNew.isEmpty else { return }
        let wrong = Set(faults.map(\.line))
        warnings = RuleImport.warnings(
            isNew.filter { !wrong.contains($0.line) }, timelines: timelines,
            stored: stored, at: from)
    }

    /// Takes withdrawn rows out of the timelines, and returns the withdrawals that match none.
    private mutating func withdraw(
        _ withdrawals: [RuleFile.Withdrawal], from timelines: inout [Rule.Key: [Rule]]
    ) -> [RuleFault] {
        var found: [RuleFault] = []
        for withdrawal in withdrawals {
            let rows = timelines[withdrawal.key] ?? []
            guard let taken = rows.last(where: { $0.validFrom == withdrawal.validFrom }) else {
                found.append(
                    RuleFault(
                        withdrawal.line, .nothingToWithdraw,
                        "no row of \(withdrawal.key.text) holds from "
                            + "\(withdrawal.validFrom?.text ?? "ever"), or it is withdrawn already",
                        remedy: "name a row that rules show prints"))
                continue
            }
            let left = rows.filter { $0.validFrom != withdrawal.validFrom }
            timelines[withdrawal.key] = left
            changes.append(
                Change(
                    rule: taken, old: RuleImport.last(left, at: taken.startsAt), isWithdrawal: true)
            )
        }
        return found
    }

    /// Leaves out rows that repeat what is stored, and returns the new rows.
    private mutating func compare(
        _ pending: [RuleFile.Row], with timelines: [Rule.Key: [Rule]]
    ) -> [RuleFile.Row] {
        var added: [Rule.Key: Rule] = [:]
        var isNew: [RuleFile.Row] = []
        for row in pending {
            let known = RuleImport.last(timelines[row.rule.key] ?? [], at: row.rule.startsAt)
            let new = added[row.rule.key]
            let old =
                (new?.startsAt ?? .distantPast) >= (known?.startsAt ?? .distantPast)
                ? new ?? known : known
            // A dated row is left out only where a row with the same date is stored. Otherwise a later row for the days
            // between would also change the days after them.
            let isKnown = row.isDated ? known?.startsAt == row.rule.startsAt : true
            if isKnown, let old, old.words == row.rule.words {
                unchangedCount += 1
                continue
            }
            added[row.rule.key] = row.rule
            changes.append(Change(rule: row.rule, old: old))
            isNew.append(row)
        }
        return isNew
    }

    /// The last row at or before an instant. The rows are in the order of their dates.
    private static func last(_ rows: [Rule], at instant: Instant) -> Rule? {
        var (low, high) = (0, rows.count)
        while low < high {
            let middle = (low + high) / 2
            if rows[middle].startsAt <= instant { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? rows[low - 1] : nil
    }

    /// The warnings about new thresholds, given what is stored.
    private static func warnings(
        _ rows: [RuleFile.Row], timelines: [Rule.Key: [Rule]], stored: RuleSet,
        at now: Instant
    ) -> [RuleFault] {
        let rules = rows.map(\.rule)
        var after = timelines
        var brought: [Rule.Key: Set<Instant?>] = [:]
        for rule in rules where rule.kind == .threshold {
            after[rule.key, default: []].append(rule)
            brought[rule.key, default: []].insert(rule.validFrom)
        }
        for key in brought.keys {
            let sorted = (after[key] ?? []).enumerated()
                .sorted { ($0.element.startsAt, $0.offset) < ($1.element.startsAt, $1.offset) }
            after[key] = sorted.map(\.element)
        }
        var rated = stored
        rated.rows += rules.filter { $0.kind == .exchangeRate }
        let plausibility = RulePlausibility(
            stored: stored.inForce(at: now), timelines: after, rated: rated.inForce(at: now),
            brought: brought)
        return rows.flatMap { plausibility.warnings(of: $0.rule, line: $0.line) }
            .sorted { $0.line < $1.line }
    }
}

extension RuleImport {
    /// The faults of thresholds in a currency in which Apple has no prices, or in steps that no price of the currency
    /// has: such a threshold is a typing error.
    private static func wrongCurrencies(_ file: RuleFile, _ stored: RuleSet) -> [RuleFault] {
        var known: [String: Currency] = [:]
        for rule in stored.rows where rule.kind == .currency {
            known[rule.currency] = Currency(rule)
        }
        for row in file.rows where row.rule.kind == .currency {
            known[row.rule.currency] = Currency(row.rule)
        }
        return file.rows.filter { $0.rule.kind == .threshold }.compactMap { row in
            let rule = row.rule
            guard let currency = known[rule.currency] else {
                return RuleFault(
                    row.line, .unknownCurrency, "Apple has no prices in \(rule.currency)",
                    remedy: "correct it, or add a row for the currency and its decimals")
            }
            guard !currency.accepts(milliunits: rule.value) else { return nil }
            return RuleFault(
                row.line, .amountDecimals,
                "\(PriceText.decimal(rule.value)) has more decimals than \(rule.currency), which has "
                    + "\(currency.decimals)", remedy: "write Apple's own amount")
        }
    }
}
