import Pricing

/// Makes a rule of the cells of one row in our own columns.
struct RuleRowBuilder {
    static let kinds = ["threshold", "always_consent", "currency", "exchange_rate"]
    static let sourceCharactersMax = 64

    let columns: [RuleColumn]

    func row(line: Int, _ texts: [String]) throws(RuleFault) -> RuleFile.Row {
        guard texts.count == columns.count else {
            throw RuleFault(
                line, .malformedRow,
                "the row has \(texts.count) cells, the header \(columns.count)",
                remedy: "give each column one cell")
        }
        var values: [RuleColumn: String] = [:]
        for (column, text) in zip(columns, texts) where !text.isEmpty { values[column] = text }
        let cells = RuleCells(line: line, values: values)
        let validFrom = try cells.validFrom()
        let rule: RuleRow
        switch values[.rule] {
        case "threshold": rule = .threshold(try cells.threshold(validFrom))
        case "always_consent": rule = .alwaysConsent(try cells.alwaysConsent(validFrom))
        case "currency": rule = .currency(try cells.currencyRule(validFrom))
        case "exchange_rate": rule = .exchangeRate(try cells.exchangeRate(validFrom))
        case let other:
            throw RuleFault(
                line, .unknownRule, "there is no rule \(shownInMessage(other ?? ""))",
                remedy: "use \(RuleRowBuilder.kinds.joined(separator: ", "))")
        }
        return RuleFile.Row(line: line, rule: rule, isDated: validFrom != nil)
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

/// The cells of one row that are not empty.
private struct RuleCells {
    let line: Int
    let values: [RuleColumn: String]

    func threshold(_ validFrom: Instant?) throws(RuleFault) -> RuleSet.Threshold {
        try allow([.storefront, .currency, .periodKind, .amount, .amountMilliunits])
        let storefront = try storefront()
        let currency = try currency()
        guard let kind = PeriodKind(rawValue: values[.periodKind] ?? "") else {
            throw fault(
                .badPeriodKind, "period_kind cannot be \(shown(.periodKind))",
                "write annual or nonannual")
        }
        return RuleSet.Threshold(
            storefront: storefront, currency: currency, kind: kind, amount: try amount(),
            validFrom: validFrom, source: try source())
    }

    func alwaysConsent(_ validFrom: Instant?) throws(RuleFault) -> RuleSet.AlwaysConsent {
        try allow([.storefront, .required])
        let storefront = try storefront()
        let isRequired: Bool
        switch values[.required] {
        case nil, "true": isRequired = true
        case "false": isRequired = false
        case _?:
            throw fault(
                .badRequired, "required cannot be \(shown(.required))", "write true or false")
        }
        return RuleSet.AlwaysConsent(
            storefront: storefront, isRequired: isRequired, validFrom: validFrom,
            source: try source())
    }

    func currencyRule(_ validFrom: Instant?) throws(RuleFault) -> RuleSet.CurrencyRule {
        try allow([.currency, .decimals])
        let code = try currency()
        let text = values[.decimals] ?? ""
        guard let decimals = Int(text), (0...3).contains(decimals), text.utf8.count == 1 else {
            throw fault(
                .badDecimals, "decimals cannot be \(shown(.decimals))",
                "write how many Apple's prices have: 0 to 3")
        }
        return RuleSet.CurrencyRule(
            currency: Currency(code: code, decimals: decimals), validFrom: validFrom,
            source: try source())
    }

    func exchangeRate(_ validFrom: Instant?) throws(RuleFault) -> RuleSet.ExchangeRate {
        try allow([.currency, .perEuro])
        let code = try currency()
        let text = values[.perEuro] ?? ""
        do throws(Rate.Fault) {
            return RuleSet.ExchangeRate(
                currency: code, perEuro: try Rate(decimal: text), validFrom: validFrom,
                source: values[.source] ?? "import")
        } catch {
            throw RuleRowBuilder.badRate(line, "per_euro", text, error)
        }
    }

    /// A day is its first instant in UTC.
    func validFrom() throws(RuleFault) -> Instant? {
        guard let text = values[.validFrom] else { return nil }
        guard let instant = Instant(text) ?? CivilDate(text)?.startAt, instant.isOnCalendar else {
            throw fault(
                .badDate, "valid_from \(shown(.validFrom)) is no instant",
                "write 2026-12-01 or 2026-12-01T00:00:00Z, or leave it empty")
        }
        return instant
    }

    private func allow(_ columns: Set<RuleColumn>) throws(RuleFault) {
        let always: Set<RuleColumn> = [.rule, .validFrom, .source]
        for column in RuleColumn.allCases
        where values[column] != nil && !columns.contains(column) && !always.contains(column) {
            throw fault(
                .unexpectedCell,
                "\(column.rawValue) says nothing about \(values[.rule] ?? "this rule")",
                "leave the cell empty")
        }
        if (values[.source] ?? "").count > RuleRowBuilder.sourceCharactersMax {
            throw fault(
                .badSource,
                "source is longer than \(RuleRowBuilder.sourceCharactersMax) characters",
                "shorten it")
        }
    }

    private func storefront() throws(RuleFault) -> String {
        try code(.storefront, .badStorefront, "write ISO 3166-1 alpha-3 in capitals, as USA")
    }

    private func currency() throws(RuleFault) -> String {
        try code(.currency, .badCurrency, "write ISO 4217 in capitals, as USD")
    }

    private func code(
        _ column: RuleColumn, _ wrong: RuleFault.Code, _ remedy: String
    ) throws(RuleFault) -> String {
        if let text = values[column], isCode(text) { return text }
        throw fault(wrong, "\(column.rawValue) cannot be \(shown(column))", remedy)
    }

    private func amount() throws(RuleFault) -> Int64 {
        do throws(PriceText.Fault) {
            switch (values[.amount], values[.amountMilliunits]) {
            case (let text?, nil): return try PriceText.milliunits(decimal: text)
            case (nil, let text?): return try PriceText.milliunits(integer: text)
            case (nil, nil), (_?, _?): break
            }
        } catch {
            let column: RuleColumn = values[.amount] == nil ? .amountMilliunits : .amount
            throw fault(
                .badAmount, "\(column.rawValue) cannot be \(shown(column))",
                column == .amount
                    ? "write it above 0 with at most three decimals, as 5 or 5.00"
                    : "write an integer above 0, as 5000")
        }
        throw fault(
            .badAmount, "exactly one of amount and amount_milliunits is needed",
            "fill one of the two cells")
    }

    private func source() throws(RuleFault) -> RuleSource {
        switch values[.source] {
        case nil, RuleSource.apple.rawValue: return .apple
        case RuleSource.estimated.rawValue: return .estimated
        case _?:
            throw fault(
                .badSource, "source cannot be \(shown(.source))",
                "write apple or estimated, or leave it empty for apple")
        }
    }

    private func shown(_ column: RuleColumn) -> String {
        values[column].map { shownInMessage($0) } ?? "empty"
    }

    private func fault(
        _ code: RuleFault.Code, _ message: String, _ remedy: String
    ) -> RuleFault {
        RuleFault(line, code, message, remedy: remedy)
    }
}
