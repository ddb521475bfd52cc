import Pricing

/// The cells of one row that are not empty. Each reader notes what is wrong and goes on, so that a person mends a row
/// only once.
struct RuleCells {
    let line: Int
    let values: [RuleColumn: String]
    private(set) var faults: [RuleFault] = []

    init(line: Int, values: [RuleColumn: String]) {
        self.line = line
        self.values = values
    }

    /// The rule of a kind of `RuleRowBuilder.kinds`; nil where a cell is wrong.
    mutating func rule(_ kind: String) -> RuleRow? {
        switch kind {
        case "threshold": threshold().map(RuleRow.threshold)
        case "always_consent": alwaysConsent().map(RuleRow.alwaysConsent)
        case "currency": currencyRule().map(RuleRow.currency)
        case _: exchangeRate().map(RuleRow.exchangeRate)
        }
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
    mutating func withdrawal(of kind: String) -> RuleFile.Withdrawal? {
        let isThreshold = kind == "threshold"
        let hasStorefront = isThreshold || kind == "always_consent"
        let hasCurrency = kind != "always_consent"
        var named: Set<RuleColumn> = []
        if hasStorefront { named.insert(.storefront) }
        if hasCurrency { named.insert(.currency) }
        if isThreshold { named.insert(.periodKind) }
        allow(named, withSource: false, of: "a withdrawn \(kind)")
        let parts: [String?] = [
            kind, hasStorefront ? storefront() : "", hasCurrency ? currency() : "",
            isThreshold ? periodKind()?.rawValue : "",
        ]
        let key = parts.compactMap { $0 }.filter { !$0.isEmpty }.joined(separator: " ")
        guard let date = values[.validFrom] else {
            note(
                .badDate, "a withdrawn row does not say which row it takes back",
                "write that row's valid_from as rules show prints it, or ever")
            return nil
        }
        let validFrom = date == "ever" ? nil : self.validFrom()
        return faults.isEmpty
            ? RuleFile.Withdrawal(line: line, key: key, validFrom: validFrom) : nil
    }

    private mutating func threshold() -> RuleSet.Threshold? {
        allow([.storefront, .currency, .periodKind, .amount, .amountMilliunits], of: "threshold")
        let (storefront, currency, kind) = (storefront(), currency(), periodKind())
        let (amount, validFrom, source) = (amount(), validFrom(), source())
        guard faults.isEmpty, let storefront, let currency, let kind, let amount, let source
        else { return nil }
        return RuleSet.Threshold(
            storefront: storefront, currency: currency, kind: kind, amount: amount,
            validFrom: validFrom, source: source)
    }

    private mutating func alwaysConsent() -> RuleSet.AlwaysConsent? {
        allow([.storefront, .required], of: "always_consent")
        let (storefront, validFrom, source) = (storefront(), validFrom(), source())
        var isRequired = true
        switch values[.required]?.lowercased() {
        case nil, "true": break
        case "false": isRequired = false
        case _?:
            note(.badRequired, "required cannot be \(shown(.required))", "write true or false")
        }
        guard faults.isEmpty, let storefront, let source else { return nil }
        return RuleSet.AlwaysConsent(
            storefront: storefront, isRequired: isRequired, validFrom: validFrom, source: source)
    }

    private mutating func currencyRule() -> RuleSet.CurrencyRule? {
        allow([.currency, .decimals], of: "currency")
        let (code, validFrom, source) = (currency(), validFrom(), source())
        let text = values[.decimals] ?? ""
        let decimals = Int(text).flatMap { (0...3).contains($0) && text.utf8.count == 1 ? $0 : nil }
        if decimals == nil {
            note(
                .badDecimals, "decimals cannot be \(shown(.decimals))",
                "write how many Apple's prices have: 0 to 3")
        }
        guard faults.isEmpty, let code, let decimals, let source else { return nil }
        return RuleSet.CurrencyRule(
            currency: Currency(code: code, decimals: decimals), validFrom: validFrom,
            source: source)
    }

    private mutating func exchangeRate() -> RuleSet.ExchangeRate? {
        allow([.currency, .perEuro], of: "exchange_rate")
        let (code, validFrom) = (currency(), validFrom())
        let text = values[.perEuro] ?? ""
        var rate: Rate?
        do throws(Rate.Fault) {
            rate = try Rate(decimal: text)
        } catch {
            faults.append(RuleRowBuilder.badRate(line, "per_euro", text, error))
        }
        guard faults.isEmpty, let code, let rate else { return nil }
        return RuleSet.ExchangeRate(
            currency: code, perEuro: rate, validFrom: validFrom,
            source: values[.source] ?? "import")
    }
}

extension RuleCells {
    /// Notes each cell that says nothing about the rule.
    private mutating func allow(
        _ columns: Set<RuleColumn>, withSource: Bool = true, of rule: String
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

    private mutating func source() -> RuleSource? {
        switch values[.source] {
        case nil, RuleSource.apple.rawValue: return .apple
        case RuleSource.estimated.rawValue: return .estimated
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
