import Pricing
import Reports

/// A rule's inputs as a person reads them; `--json` has each one under its own name.
struct RuleInWords {
    private let rule: ConsentReason
    private let currency: String
    /// For when the rule was answered. An earlier increase may lie behind it and still be to come.
    private let judgedAt: Instant?
    private var inputs: [String: RuleAnswer.Value] = [:]

    init(_ answer: RuleAnswer, currency: String, judgedAt: Instant?) {
        rule = answer.rule
        self.currency = currency
        self.judgedAt = judgedAt
        for input in answer.inputs { inputs[input.name] = input.value }
    }

    var text: String {
        let reason =
            switch rule {
            case .alwaysConsentStorefront: list
            case .threshold: "\(percent); \(amount)"
            case .increaseWithin12Months: history
            case .koreaOfferConversion: korea
            }
        guard let turnsAt = instant("turns_at") else { return reason }
        let then = flag("turns_to").map { $0 ? "yes" : "no" } ?? "not known"
        return "\(reason); sent from \(turnsAt.text) on: \(then)"
    }

    private var list: String {
        let source = string("list_source")
        let storefront = string("storefront") ?? "the storefront"
        return switch source {
        case RuleSource.unknown.rawValue: "no row says whether \(storefront) always asks"
        case "inferred": "Apple gives an amount for \(storefront), so it does not always ask"
        default: "a row for \(storefront) (\(source ?? "?"))"
        }
    }

    private var percent: String {
        let over = flag("percent_over") == true ? "over 50 %" : "not over 50 %"
        guard let points = number("increase_basis_points") else { return over }
        let fraction = points % 100
        return "+\(points / 100).\(fraction < 10 ? "0" : "")\(fraction) %, \(over)"
    }

    private var amount: String {
        let increase = price(number("increase_milliunits"), currency)
        guard let threshold = number("threshold_milliunits") else {
            return "+\(increase); the threshold is unknown"
        }
        let kind =
            "\(string("threshold_kind") ?? "?"), \(string("threshold_source") ?? "?")\(basis)"
        let shown = "\(price(threshold, currency)) (\(kind))"
        guard let isOver = flag("amount_over") else {
            return "+\(increase), close to the line: \(shown)"
        }
        return "+\(increase), \(isOver ? "over" : "not over") \(shown)"
    }

    private var basis: String {
        guard let error = number("threshold_error_milliunits"), let rows = number("estimate_rows")
        else { return "" }
        let off = error > 0 ? ", may be off by \(price(error, currency))" : ""
        guard let usd = number("usd_threshold_milliunits"), let rate = string("units_per_eur"),
            let dollars = string("usd_per_eur"), let correction = string("correction")
        else { return " by \(rows) of Apple's amounts in \(currency)\(off)" }
        return ": \(price(usd, "USD")) x \(rate) / \(dollars) x \(correction), "
            + "\(string("rates_source") ?? "?") of "
            + "\(instant("rates_from")?.day.text ?? "ever")\(off)"
    }

    private var history: String {
        guard let at = instant("last_increase_at"), let until = instant("counts_until") else {
            let since =
                flag("known_from_start") == true
                ? "its first period" : instant("known_since")?.text
            return "no earlier increase is known; statements tell from "
                + "\(since ?? "no period") on"
        }
        let isImported = string("increase_source") == PastIncrease.Source.imported.rawValue
        let verb = judgedAt.map { at > $0 } ?? false ? "rises" : "rose"
        return "\(string("last_increase_sku") ?? "?") \(verb) at \(at.text)"
            + "\(isImported ? " (imported)" : ""); counts until \(until.text)"
    }

    private var korea: String {
        guard let sku = string("offer_sku"), let day = string("conversion_on"),
            let first = string("window_first_on"), let last = string("window_last_on")
        else {
            if let sku = string("offer_sku") { return "when the offer of \(sku) ends is not known" }
            return string("storefront") == "KOR"
                ? "no other item's offer ends at this renewal" : "not South Korea"
        }
        return "the offer of \(sku) ends on \(day); consent is asked for from \(first) to \(last)"
    }

    private func price(_ milliunits: Int64?, _ currency: String) -> String {
        milliunits.map { "\(Reports.price($0, currency: currency)) \(currency)" } ?? "?"
    }

    private func flag(_ name: String) -> Bool? {
        if case .flag(let flag)? = inputs[name] { flag } else { nil }
    }

    private func number(_ name: String) -> Int64? {
        if case .number(let number)? = inputs[name] { number } else { nil }
    }

    private func string(_ name: String) -> String? {
        if case .text(let text)? = inputs[name] { text } else { nil }
    }

    private func instant(_ name: String) -> Instant? {
        if case .instant(let instant)? = inputs[name] { instant } else { nil }
    }
}
