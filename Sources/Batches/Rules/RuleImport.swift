package import Pricing

/// What a file of rules changes: the new rules, each beside the one that holds until then, and the withdrawn ones.
package struct RuleImport: Hashable, Sendable {
    package struct Change: Hashable, Sendable {
        /// The new rule, or the one that is taken back.
        package var rule: RuleRow
        /// What holds at the instant from which the new rule holds, or what holds again; nil where nothing does.
        package var old: RuleRow?
        package var isWithdrawal = false
    }

    package private(set) var changes: [Change] = []
    /// The rows that say what holds already.
    package private(set) var unchangedCount = 0
    /// The rows that cannot be taken, in the order of lines: those with faults of their own, and those that
    /// contradict the stored rules.
    package private(set) var faults: [RuleFault] = []
    /// Rows that can hardly be meant, in the order of lines. They are taken only where a person says so.
    package private(set) var warnings: [RuleFault] = []

    /// Compares a file with all that is stored. Rows without a date of their own hold from `from` on.
    package init(_ file: RuleFile, stored: RuleSet, from: Instant) {
        var timelines: [String: [RuleRow]] = [:]
        // Stored rows come in the order of their dates.
        for row in stored.rows { timelines[row.key, default: []].append(row) }
        var pending = file.rows.map { row in
            var row = row
            if !row.isDated { row.rule.validFrom = from }
            return row
        }
        pending.sort { ($0.rule.at, $0.line) < ($1.rule.at, $1.line) }
        var found = withdraw(file.withdrawals, from: &timelines)
        let isNew = compare(pending, with: timelines)
        // A row without a date may meet one that names the very instant of the import.
        found += RuleImport.unknownCurrencies(file, stored)
        found += RuleImport.wrongDecimals(file, stored)
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

    /// The new rules, ready to be stored.
    package var rules: RuleSet { RuleSet(changes.filter { !$0.isWithdrawal }.map(\.rule)) }

    /// Takes withdrawn rows out of the timelines, and returns the withdrawals that match none.
    private mutating func withdraw(
        _ withdrawals: [RuleFile.Withdrawal], from timelines: inout [String: [RuleRow]]
    ) -> [RuleFault] {
        var found: [RuleFault] = []
        for withdrawal in withdrawals {
            let rows = timelines[withdrawal.key] ?? []
            guard let taken = rows.last(where: { $0.validFrom == withdrawal.validFrom }) else {
                found.append(
                    RuleFault(
                        withdrawal.line, .nothingToWithdraw,
                        "no row of \(withdrawal.key) holds from "
                            + "\(withdrawal.validFrom?.text ?? "ever"), or it is withdrawn already",
                        remedy: "name a row that rules show prints"))
                continue
            }
            let left = rows.filter { $0.validFrom != withdrawal.validFrom }
            timelines[withdrawal.key] = left
            changes.append(
                Change(
                    rule: taken, old: RuleImport.last(left, at: taken.at), isWithdrawal: true))
        }
        return found
    }

    /// Leaves out rows that repeat what is stored, and returns the new rows.
    private mutating func compare(
        _ pending: [RuleFile.Row], with timelines: [String: [RuleRow]]
    ) -> [RuleFile.Row] {
        var added: [String: RuleRow] = [:]
        var isNew: [RuleFile.Row] = []
        for row in pending {
            let known = RuleImport.last(timelines[row.rule.key] ?? [], at: row.rule.at)
            let new = added[row.rule.key]
            let old = (new?.at ?? .min) >= (known?.at ?? .min) ? new ?? known : known
            // A dated row is a fact of its own. It is left out only where this very fact is stored, so that a later
            // row for the days between changes those days alone.
            let isKnown = row.isDated ? known?.at == row.rule.at : true
            if isKnown, let old, old.value == row.rule.value {
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
    private static func last(_ rows: [RuleRow], at instant: Int64) -> RuleRow? {
        var (low, high) = (0, rows.count)
        while low < high {
            let middle = (low + high) / 2
            if rows[middle].at <= instant { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? rows[low - 1] : nil
    }

    /// The warnings about new thresholds, given what is stored.
    private static func warnings(
        _ rows: [RuleFile.Row], timelines: [String: [RuleRow]], stored: RuleSet,
        at now: Instant
    ) -> [RuleFault] {
        var after = timelines
        var (brought, keys): (Set<String>, Set<String>) = ([], [])
        for row in rows {
            guard case .threshold(let rule) = row.rule else { continue }
            after[row.rule.key, default: []].append(row.rule)
            brought.insert(RulePlausibility.name(rule, kind: rule.kind))
            keys.insert(row.rule.key)
        }
        for key in keys {
            let sorted = (after[key] ?? []).enumerated()
                .sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }
            after[key] = sorted.map(\.element)
        }
        var rated = stored
        rated.exchangeRates += rows.compactMap { row in
            if case .exchangeRate(let rate) = row.rule { rate } else { nil }
        }
        let plausibility = RulePlausibility(
            stored: stored.inForce(at: now), timelines: after, rated: rated.inForce(at: now),
            brought: brought)
        return rows.flatMap { row in
            switch row.rule {
            case .threshold(let rule): plausibility.warnings(of: rule, line: row.line)
            case .currency(let rule): plausibility.warnings(of: rule, line: row.line)
            case .exchangeRate(let rate): plausibility.warnings(of: rate, line: row.line)
            case .alwaysConsent: [RuleFault]()
            }
        }.sorted { $0.line < $1.line }
    }
}

extension RuleImport {
    /// The faults of thresholds in a currency in which Apple has no prices: such a threshold is a typing error.
    private static func unknownCurrencies(_ file: RuleFile, _ stored: RuleSet) -> [RuleFault] {
        let known = decimals(file, stored)
        return file.rows.compactMap { row in
            guard case .threshold(let rule) = row.rule, known[rule.currency] == nil else {
                return nil
            }
            return RuleFault(
                row.line, .unknownCurrency, "Apple has no prices in \(rule.currency)",
                remedy: "correct it, or add a row for the currency and its decimals")
        }
    }

    /// The faults of amounts in steps that no price of the currency has.
    private static func wrongDecimals(_ file: RuleFile, _ stored: RuleSet) -> [RuleFault] {
        let known = decimals(file, stored)
        return file.rows.compactMap { row in
            guard case .threshold(let rule) = row.rule, let currency = known[rule.currency],
                !currency.accepts(milliunits: rule.amount)
            else { return nil }
            return RuleFault(
                row.line, .amountDecimals,
                "\(PriceText.decimal(rule.amount)) has more decimals than \(rule.currency), which has "
                    + "\(currency.decimals)", remedy: "write Apple's own amount")
        }
    }

    /// The currencies in which Apple prices, those of the file among them.
    private static func decimals(_ file: RuleFile, _ stored: RuleSet) -> [String: Currency] {
        var known: [String: Currency] = [:]
        for row in stored.currencies { known[row.currency.code] = row.currency }
        for row in file.rows {
            if case .currency(let rule) = row.rule { known[rule.currency.code] = rule.currency }
        }
        return known
    }
}

extension RuleRow {
    fileprivate var at: Int64 { validFrom?.milliseconds ?? .min }
}
