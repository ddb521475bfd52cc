import Pricing

/// The cells of one row that are not empty. Each read notes a fault and continues, so that a person corrects a row only
/// once.
struct RuleCells {
    let line: Int
    let values: [RuleColumn: String]
    private(set) var faults: [RuleFault] = []

    init(line: Int, values: [RuleColumn: String]) {
        self.line = line
        self.values = values
    }

    /// The rule of a kind; nil where a cell is wrong.
    mutating func rule(_ kind: Rule.Kind) -> Rule? {
        allow(kind.keyColumns + kind.valueColumns, of: kind.rawValue)
        let key = key(kind)
        // Faults of an amount are reported before the others, and faults of other figures after them.
        let amount = kind == .threshold ? amount() : nil
        let (validFrom, source) = (validFrom(), source(kind))
        let value =
            switch kind {
            case .threshold: amount
            case .alwaysConsent: required()
            case .currency: decimals()
            case .exchangeRate: perEuro()
            }
        guard faults.isEmpty, let key, let value, let source else { return nil }
        return Rule(key, value: value, validFrom: validFrom, source: source)
    }

    mutating func isWithdrawn() -> Bool {
        switch values[.withdrawn]?.lowercased() {
        case nil, "false": return false
        case "true": return true
        case _?:
            note(
                .badWithdrawn, "withdrawn cannot be \(shown(.withdrawn))",
                "write true, or leave it empty")
            return false
        }
    }

    /// What a withdrawn row takes back. It names the rule and its date, and nothing else.
    mutating func withdrawal(of kind: Rule.Kind) -> RuleFile.Withdrawal? {
        allow(kind.keyColumns, withSource: false, of: "a withdrawn \(kind.rawValue)")
        let key = key(kind)
        guard let date = values[.validFrom] else {
            note(
                .badDate, "a withdrawn row does not say which row it takes back",
                "write that row's valid_from as rules show prints it, or ever")
            return nil
        }
        let validFrom = date == "ever" ? nil : self.validFrom()
        guard faults.isEmpty, let key else { return nil }
        return RuleFile.Withdrawal(line: line, key: key, validFrom: validFrom)
    }

    /// What the rule is about; nil where it cannot be told.
    private mutating func key(_ kind: Rule.Kind) -> Rule.Key? {
        let columns = kind.keyColumns
        let storefront = columns.contains(.storefront) ? storefront() : ""
        let currency = columns.contains(.currency) ? currency() : ""
        let periodKind = columns.contains(.periodKind) ? periodKind() : nil
        guard let storefront, let currency else { return nil }
        return Rule.Key(kind, storefront: storefront, currency: currency, periodKind: periodKind)
    }
}

extension Rule.Kind {
    /// The columns of a rule's key. A file and the tables use the same names.
    var keyColumns: [RuleColumn] {
        switch self {
        case .threshold: [.storefront, .currency, .periodKind]
        case .alwaysConsent: [.storefront]
        case .currency, .exchangeRate: [.currency]
        }
    }

    /// The columns of a file that say it.
    fileprivate var valueColumns: [RuleColumn] {
        switch self {
        case .threshold: [.amount, .amountMilliunits]
        case .alwaysConsent: [.required]
        case .currency: [.decimals]
        case .exchangeRate: [.perEuro]
        }
    }
}

extension RuleCells {
    /// Notes a fault for each cell that does not belong to the rule.
    private mutating func allow(
        _ columns: [RuleColumn], withSource: Bool = true, of rule: String
    ) {
        let always: Set<RuleColumn> = [.rule, .validFrom, .withdrawn]
        for column in RuleColumn.allCases
        where values[column] != nil && !columns.contains(column) && !always.contains(column)
            && !(withSource && column == .source)
        {
            note(
                .unexpectedCell, "\(column.rawValue) says nothing about \(rule)",
                "leave the cell empty")
        }
        if withSource, (values[.source] ?? "").count > RuleRowBuilder.sourceCharactersMax {
            note(
                .badSource,
                "source is longer than \(RuleRowBuilder.sourceCharactersMax) characters",
                "shorten it")
        }
    }

    private mutating func storefront() -> String? {
        let code = code(
            .storefront, .badStorefront, "write ISO 3166-1 alpha-3 in capitals, as USA")
        guard let code else { return nil }
        guard AppStorefronts.all.contains(code) else {
            note(
                .unknownStorefront, "the App Store has no storefront \(code)",
                "correct it: rules show --missing lists what is not imported yet")
            return nil
        }
        return code
    }

    private mutating func currency() -> String? {
        code(.currency, .badCurrency, "write ISO 4217 in capitals, as USD")
    }

    private mutating func code(
        _ column: RuleColumn, _ wrong: RuleFault.Code, _ remedy: String
    ) -> String? {
        if let text = values[column], isCode(text) { return text }
        note(wrong, "\(column.rawValue) cannot be \(shown(column))", remedy)
        return nil
    }

    private mutating func periodKind() -> PeriodKind? {
        let kind = PeriodKind(rawValue: values[.periodKind] ?? "")
        if kind == nil {
            note(
                .badPeriodKind, "period_kind cannot be \(shown(.periodKind))",
                "write annual or nonannual")
        }
        return kind
    }

    /// The instant from which the rule holds: the first one of its day in UTC.
    private mutating func validFrom() -> Instant? {
        guard let text = values[.validFrom] else { return nil }
        guard let instant = Instant(text) ?? CivilDate(text)?.startAt, instant.isOnCalendar else {
            note(
                .badDate, "valid_from \(shown(.validFrom)) is no instant",
                "write 2026-12-01 or 2026-12-01T00:00:00Z, or leave it empty")
            return nil
        }
        return instant
    }

    private mutating func amount() -> Int64? {
        do throws(PriceText.Fault) {
            switch (values[.amount], values[.amountMilliunits]) {
            case (let text?, nil): return try PriceText.milliunits(decimal: text)
            case (nil, let text?): return try PriceText.milliunits(integer: text)
            case (nil, nil), (_?, _?): break
            }
        } catch {
            let column: RuleColumn = values[.amount] == nil ? .amountMilliunits : .amount
            note(
                .badAmount, "\(column.rawValue) cannot be \(shown(column))",
                column == .amount
                    ? "write it above 0 with at most three decimals, as 5 or 5.00"
                    : "write an integer above 0, as 5000")
            return nil
        }
        note(
            .badAmount, "exactly one of amount and amount_milliunits is needed",
            "fill one of the two cells")
        return nil
    }

    private mutating func required() -> Int64? {
        switch values[.required]?.lowercased() {
        case nil, "true": return 1
        case "false": return 0
        case _?:
            note(.badRequired, "required cannot be \(shown(.required))", "write true or false")
            return nil
        }
    }

    private mutating func decimals() -> Int64? {
        let text = values[.decimals] ?? ""
        if text.utf8.count == 1, let decimals = Int64(text), (0...3).contains(decimals) {
            return decimals
        }
        note(
            .badDecimals, "decimals cannot be \(shown(.decimals))",
            "write how many Apple's prices have: 0 to 3")
        return nil
    }

    private mutating func perEuro() -> Int64? {
        let text = values[.perEuro] ?? ""
        do throws(Rate.Fault) {
            return try Rate(decimal: text).billionths
        } catch {
            faults.append(RuleRowBuilder.badRate(line, "per_euro", text, error))
            return nil
        }
    }

    /// Anybody may publish exchange rates. The other rules are Apple's, or estimates.
    private mutating func source(_ kind: Rule.Kind) -> String? {
        if kind == .exchangeRate { return values[.source] ?? "import" }
        switch values[.source] {
        case nil: return RuleSource.apple.rawValue
        case RuleSource.apple.rawValue?, RuleSource.estimated.rawValue?: return values[.source]
        case _?:
            note(
                .badSource, "source cannot be \(shown(.source))",
                "write apple or estimated, or leave it empty for apple")
            return nil
        }
    }

    private func shown(_ column: RuleColumn) -> String {
        values[column].map { shownInMessage($0) } ?? "empty"
    }

    private mutating func note(_ code: RuleFault.Code, _ message: String, _ remedy: String) {
        faults.append(RuleFault(line, code, message, remedy: remedy))
    }
}
