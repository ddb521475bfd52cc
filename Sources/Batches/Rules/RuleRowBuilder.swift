import Pricing

/// Makes a rule of the cells of one row, or names all that is wrong with them.
enum RuleRowBuilder {
    static let kinds = Rule.Kind.allCases.map(\.rawValue).joined(separator: ", ")
    static let sourceCharactersMax = 64

    static func read(
        _ line: Int, _ texts: [String], _ columns: [RuleColumn]
    ) -> RuleFile.ReadLine {
        guard texts.count == columns.count else {
            return RuleFile.ReadLine(faults: [miscounted(line, texts.count, columns.count)])
        }
        var values: [RuleColumn: String] = [:]
        for (column, text) in zip(columns, texts) where !text.isEmpty { values[column] = text }
        return read(line, values)
    }

    static func read(_ line: Int, _ values: [RuleColumn: String]) -> RuleFile.ReadLine {
        guard let kind = values[.rule].flatMap(Rule.Kind.init) else {
            return RuleFile.ReadLine(faults: [
                RuleFault(
                    line, .unknownRule,
                    "there is no rule \(shownInMessage(values[.rule] ?? ""))",
                    remedy: "use \(kinds)")
            ])
        }
        var cells = RuleCells(line: line, values: values)
        var read = RuleFile.ReadLine()
        if cells.isWithdrawn() {
            read.withdrawal = cells.withdrawal(of: kind)
        } else if let rule = cells.rule(kind) {
            read.rows = [RuleFile.Row(line: line, rule: rule, isDated: rule.validFrom != nil)]
        }
        read.faults = cells.faults
        return read
    }

    static func miscounted(_ line: Int, _ cells: Int, _ columns: Int) -> RuleFault {
        RuleFault(
            line, .malformedRow, "the row has \(cells) cells, the header \(columns)",
            remedy: "give each column one cell")
    }

    static func badRate(
        _ line: Int, _ what: String, _ text: String, _ fault: Rate.Fault
    ) -> RuleFault {
        let why =
            switch fault {
            case .notANumber: "is not a decimal number"
            case .notPositive: "is not above 0"
            case .outOfRange: "has more than nine decimals or is too large"
            }
        return RuleFault(
            line, .badRate, "\(what) \(shownInMessage(text)) \(why)",
            remedy: "write what one euro costs, as 1.0876")
    }
}
