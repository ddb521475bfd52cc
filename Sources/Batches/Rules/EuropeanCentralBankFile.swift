import Pricing

/// The rows of the European Central Bank's `eurofxref` files: a day and what one euro costs in each currency.
///
/// It takes both layouts as they are: the daily file (`02 October 2026`, blanks after the commas) and the history
/// (`2026-10-02`). A rate is in force from 00:00 UTC of its day.
enum EuropeanCentralBankFile {
    static let source = "ecb"

    static func rows(
        line: Int, _ cells: [String], _ currencies: [String]
    ) throws(RuleFault) -> [RuleFile.Row] {
        guard let first = cells.first, let date = day(first), date.year >= 1970 else {
            throw RuleFault(
                line, .badDate, "\(shownInMessage(cells.first ?? "")) is not a day",
                remedy: "write 02 October 2026 or 2026-10-02")
        }
        var rates = Array(cells.dropFirst())
        if rates.count == currencies.count + 1, rates.last == "" { rates.removeLast() }
        guard rates.count == currencies.count else {
            throw RuleFault(
                line, .malformedRow,
                "the row has \(rates.count) rates, the header \(currencies.count) currencies",
                remedy: "download the file again")
        }
        var rows: [RuleFile.Row] = []
        for (currency, text) in zip(currencies, rates) where text != "N/A" {
            let rate: Rule
            do throws(Rate.Fault) {
                rate = Rule.exchangeRate(
                    currency, perEuro: try Rate(decimal: text), validFrom: date.startAt,
                    source: source)
            } catch {
                throw RuleRowBuilder.badRate(line, "the rate of \(currency)", text, error)
            }
            rows.append(RuleFile.Row(line: line, rule: rate, isDated: true))
        }
        return rows
    }

    private static func day(_ text: String) -> CivilDate? {
        if let date = CivilDate(text) { return date }
        let words = text.split(separator: " ")
        guard words.count == 3, words[0].utf8.count <= 2, words[2].utf8.count == 4,
            let month = months.firstIndex(of: String(words[1])),
            let day = Int(words[0]), let year = Int(words[2])
        else { return nil }
        return CivilDate(year: year, month: month + 1, day: day)
    }

    private static let months = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September",
        "October", "November", "December",
    ]
}
