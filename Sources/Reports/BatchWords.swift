package import Pricing

// The names of a batch's figures for people, the same on the terminal and on the pages.

extension BatchWarning {
    /// The noun that its number counts.
    package var noun: String {
        switch self {
        case .makesOthersAsk: "open change"
        case .moreThanThreefold, .lessThanAThird, .farAhead, .idsEndInZero, .stale, .severalSeats,
            .turns, .late:
            "row"
        }
    }

    /// Short words, because the line on the screen also has the number and the first lines of the file.
    package var words: String {
        switch self {
        case .moreThanThreefold: "more than 3 times today's price"
        case .lessThanAThird: "less than a third of today's price"
        case .farAhead: "effective in more than two years"
        case .idsEndInZero: "every id ends in 0, did a spreadsheet round them"
        case .stale: "facts older than a known renewal, sync them"
        case .severalSeats: "several seats, consent is judged by the price of one"
        case .turns: "consent turns before the last day to send"
        case .late: "late at the allowed rate"
        case .makesOthersAsk: "makes open changes of other batches need consent"
        }
    }
}

extension RowCode {
    /// What is wrong with a row, in a few words beside the code.
    package var words: String {
        switch self {
        case .malformedRow: "the line, or a date in it, cannot be read"
        case .badTransactionID: "no original transaction id"
        case .badSKU: "no item is called so"
        case .badPrice: "no price"
        case .priceDecimals: "more decimals than the currency has"
        case .unknownCurrency: "no currency of the App Store"
        case .currencyMismatch: "another currency than the subscription's"
        case .storefrontMismatch: "another storefront than the subscription's"
        case .unknownSubscription: "nothing, or not enough, was ever heard of the subscription"
        case .unknownItem: "the item does not renew there"
        case .duplicateRow: "the same item twice"
        case .noChange: "it has this price already"
        case .drifted: "today's price is not the expected one"
        case .conflictOpenChange: "another change of the item is open"
        case .dependentSelf: "a dependent of itself"
        case .dependentUnknown: "the customer has no such dependent"
        case .dependentShared: "a dependent of two items"
        case .dependentChained: "a dependent that has dependents"
        case .notActive: "the subscription is not active"
        case .autoRenewOff: "renewal is turned off"
        case .billingRetry: "a charge failed and is tried again"
        case .gracePeriod: "in the grace period after a failed charge"
        case .itemInOffer: "the item is in an offer"
        case .indiaIncrease: "an increase in India, where none is possible"
        case .alreadyCommunicated: "the customer knows of another increase"
        }
    }
}

/// The words for a stored code or reason: those of a row code, or any other text with blanks for underscores.
package func reasonWords(_ reason: String) -> String {
    RowCode(rawValue: reason)?.words ?? spaced(reason)
}

extension PriceMove {
    /// `+25.00 %`, `-99.85 %`, `from 0`; no percentage where it would say nothing.
    package var words: String {
        guard let basisPoints else { return currentPrice <= 0 ? "from 0" : "beyond reason" }
        let size = basisPoints.magnitude
        guard size < 100_000_000 else { return "beyond reason" }
        let sign = basisPoints < 0 ? "-" : "+"
        return "\(sign)\(size / 100).\(size / 10 % 10)\(size % 10) %"
    }
}

extension MoneyAMonth {
    /// Whether any line is in the sum of one currency.
    package var hasTotal: Bool { withoutRate.count < lines.count }

    /// `all, in USD`; `part, in USD` where lines are missing.
    package var totalName: String {
        "\(withoutRate.isEmpty ? "all" : "part"), in \(reportingCurrency)"
    }

    /// `ecb, of 2026-11-20`; two days where the rates are of several.
    package var rateSources: String {
        let sources = Set(rates.map(\.source)).sorted().joined(separator: ", ")
        let days = Set(rates.compactMap { $0.validFrom?.day }).sorted()
        guard let first = days.first, let last = days.last else { return sources }
        return "\(sources), of \(first.text)" + (first == last ? "" : " to \(last.text)")
    }

    /// What that sum lacks, why, and what to do; nil where it is whole.
    package var lack: String? {
        guard !withoutRate.isEmpty else { return nil }
        let lacking = withoutRate.reduce(0) { $0 + $1.money.rows }
        let rows = counted(lacking, "row")
        let currencies = withoutRate.map(\.currency).joined(separator: ", ")
        let what =
            hasTotal
            ? "That part lacks \(rows) in \(currencies)"
            : "No sum in \(reportingCurrency) of \(rows) in \(currencies)"
        // Rates are against the euro, so the missing one may be that of the reporting currency itself.
        let own = missingRates.filter { $0 != reportingCurrency }
        let rates =
            switch (own.count, own.count < missingRates.count) {
            case (0, _): "the rate of \(reportingCurrency) against the euro is"
            case (1, false): "the rate of \(own[0]) against the euro is"
            case (1, true): "the rates of \(own[0]) and \(reportingCurrency) against the euro are"
            case (_, true): "their rates against the euro and that of \(reportingCurrency) are"
            default: "their rates against the euro are"
            }
        return
            "\(what): to convert \(lacking == 1 ? "it" : "them"), \(rates) missing (repricer rules import FILE)."
    }
}

extension MoneyAMonth.UsedRate {
    /// `0.9183 EUR`: four digits after the point, or as many as it takes to be more than 0.
    package var words: String {
        let parts = rate.text.split(separator: ".")
        guard let whole = parts.first, parts.count == 2, let fraction = parts.last else {
            return "\(rate.text) \(currency)"
        }
        let zeros = whole == "0" ? fraction.prefix { $0 == "0" }.count : 0
        return "\(whole).\(fraction.prefix(zeros + 4)) \(currency)"
    }
}

/// The rows of an unreleased wave that must be sent soon, or are overdue: the words before the first instant, and those
/// after it. `due` includes the overdue rows.
package func waveDueWords(due: Int64, overdue: Int64) -> (before: String, after: String) {
    let soon = "\(counted(due - overdue, "row")) must be sent within a day"
    guard overdue > 0 else { return ("\(soon), the first by ", "") }
    let late = "\(counted(overdue, "row")) \(overdue == 1 ? "is" : "are") overdue, the first since "
    return (late, due > overdue ? ", and \(soon)" : "")
}

/// What `too large` means, and what to do about it.
package let sumTooLarge =
    "too large: a sum of more than \(counted(Int64.max / 1000)), which is not shown; "
    + "check the prices of these rows"
