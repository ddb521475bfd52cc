package import Pricing

/// What a file of rules changes: the rules that are new, each beside the one that holds until then.
package struct RuleImport: Hashable, Sendable {
    package struct Change: Hashable, Sendable {
        package var rule: RuleRow
        /// What holds at the instant from which the new rule holds; nil: nothing.
        package var old: RuleRow?
    }

    package let changes: [Change]
    /// Rows that say what holds already.
    package let unchangedCount: Int
    /// Rows that can't be taken, in the order of lines: those that the file itself spoiled, and those that don't
    /// go with the rules as they are.
    package let faults: [RuleFault]

    /// Compares a file with all that is stored. Rows without a date of their own hold from `from` on.
    package init(_ file: RuleFile, stored: RuleSet, from: Instant) {
        var timelines: [String: [RuleRow]] = [:]
        for row in stored.rows { timelines[row.key, default: []].append(row) }
        // Stored rows come in the order of their dates; the sort keeps it where dates are equal.
        var pending = file.rows.map { row in
            var row = row
            if !row.isDated { row.rule.validFrom = from }
            return row
        }
        pending.sort { ($0.rule.at, $0.line) < ($1.rule.at, $1.line) }
        var added: [String: RuleRow] = [:]
        var changes: [Change] = []
        var unchangedCount = 0
        for row in pending {
            let known = RuleImport.last(timelines[row.rule.key] ?? [], at: row.rule.at)
            let new = added[row.rule.key]
            let old = (new?.at ?? .min) >= (known?.at ?? .min) ? new ?? known : known
            // A dated row is a fact of its own: it is left out only where this very fact is stored, so that
            // a later row for the days between changes no more than those days.
            let isKnown = row.isDated ? known?.at == row.rule.at : true
            if isKnown, let old, old.value == row.rule.value {
                unchangedCount += 1
                continue
            }
            added[row.rule.key] = row.rule
            changes.append(Change(rule: row.rule, old: old))
        }
        self.changes = changes
        self.unchangedCount = unchangedCount
        let named = Set(file.faults.map(\.line))
        // A row without a date may meet one that names the very instant of the import.
        let found =
            RuleImport.unknownCurrencies(file, stored)
            + RuleFile.duplicates(of: pending, undated: "ever")
        faults = (file.faults + found.filter { !named.contains($0.line) })
            .sorted { $0.line < $1.line }
    }

    /// The new rules, ready to be stored.
    package var rules: RuleSet { RuleSet(changes.map(\.rule)) }

    /// The last row at or before an instant of rows in the order of their dates.
    private static func last(_ rows: [RuleRow], at instant: Int64) -> RuleRow? {
        var (low, high) = (0, rows.count)
        while low < high {
            let middle = (low + high) / 2
            if rows[middle].at <= instant { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? rows[low - 1] : nil
    }

    /// A threshold in a currency that Apple has no prices in is a typing error.
    private static func unknownCurrencies(_ file: RuleFile, _ stored: RuleSet) -> [RuleFault] {
        var known = Set(stored.currencies.map(\.currency.code))
        for row in file.rows {
            if case .currency(let rule) = row.rule { known.insert(rule.currency.code) }
        }
        return file.rows.compactMap { row in
            guard case .threshold(let rule) = row.rule, !known.contains(rule.currency) else {
                return nil
            }
            return RuleFault(
                row.line, .unknownCurrency, "Apple has no prices in \(rule.currency)",
                remedy: "correct it, or add a row for the currency and its decimals")
        }
    }
}

extension RuleRow {
    fileprivate var at: Int64 { validFrom?.milliseconds ?? .min }
}
