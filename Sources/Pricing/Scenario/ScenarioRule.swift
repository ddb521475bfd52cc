/// How a scenario makes new prices from the current ones.
package enum ScenarioRule: Hashable, Sendable {
    /// Hundredths of a percent of the current price; below 0 for a decrease.
    case percent(Int64)
    /// Milliunits; below 0 for a decrease.
    case amount(Int64)
    /// The new price in milliunits.
    case price(Int64)
    /// The highest price that surely needs no consent.
    case maxWithoutConsent

    /// The largest percentage. A larger one is a typing error.
    static let percentMax: Int64 = 1000_00
    /// The step of a range in hundredths of a percent, and the most scenarios that one range makes.
    static let rangeStep: Int64 = 5_00
    static let rangeMax = 20

    package struct Fault: Error, CustomStringConvertible {
        package let description: String
    }

    /// Reads `+10%`, `-5%`, `+1.50`, `=12.99`, `max-without-consent`, and a range: `+10%..+25%` in steps of 5
    /// percent, or with its own step: `+10%..+25%/2.5`.
    package static func list(_ text: String) throws(Fault) -> [ScenarioRule] {
        guard let dots = text.firstRange(of: "..") else { return [try one(text)] }
        let upper = text[dots.upperBound...].split(
            separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard case .percent(let from) = try one(String(text[..<dots.lowerBound])),
            let last = upper.first, case .percent(let to) = try one(String(last)), from < to
        else {
            throw Fault(
                description:
                    "\(text) is no range; write two percentages, the lower first, as +10%..+25%")
        }
        var step = rangeStep
        if upper.count == 2 {
            guard case .percent(let own) = try one("+\(upper[1])%") else {
                throw Fault(description: "\(text): the step after / is no number of percent")
            }
            step = own
        }
        let steps = Array(stride(from: from, to: to, by: Int(step))) + [to]
        guard steps.count <= rangeMax else {
            throw Fault(
                description: "\(text) makes \(steps.count) scenarios; the most is \(rangeMax)")
        }
        return steps.map { .percent($0) }
    }

    private static func one(_ text: String) throws(Fault) -> ScenarioRule {
        if text == "max-without-consent" { return .maxWithoutConsent }
        let wrong = Fault(
            description:
                "\(text) is no rule; write +10%, -5%, +1.50, =12.99, +10%..+25% or max-without-consent"
        )
        guard let sign = text.first, "+-=".contains(sign) else { throw wrong }
        var digits = text.dropFirst()
        let isPercent = digits.last == "%"
        if isPercent { digits = digits.dropLast() }
        let number: Int64
        do throws(PriceText.Fault) {
            number = try PriceText.units(decimal: digits, places: isPercent ? 2 : 3)
        } catch { throw wrong }
        switch (sign, isPercent) {
        case ("=", false): return .price(number)
        case ("+", false): return .amount(number)
        case ("-", false): return .amount(-number)
        case ("+", true) where number <= percentMax: return .percent(number)
        case ("-", true) where number < 100_00: return .percent(-number)
        default: throw wrong
        }
    }

    /// The rule as it is typed.
    package var text: String {
        switch self {
        case .percent(let hundredths): "\(Self.signed(hundredths * 10))%"
        case .amount(let milliunits): Self.signed(milliunits)
        case .price(let milliunits): "=\(PriceText.decimal(milliunits))"
        case .maxWithoutConsent: "max-without-consent"
        }
    }

    private static func signed(_ milliunits: Int64) -> String {
        let text = PriceText.decimal(milliunits, decimals: milliunits % 1000 == 0 ? 0 : 2)
        return milliunits < 0 ? text : "+\(text)"
    }
}

/// How the prices of a scenario end.
package enum PriceEnding: Hashable, Sendable {
    /// They end at the nearest of the currency's smallest steps.
    case none
    /// They end at the nearest lower price with this ending, in milliunits below one unit: 990 is .99. A currency
    /// without decimals has none.
    case fraction(Int64)

    /// Reads `none`, `.99` or `.95`.
    package init?(_ text: String) {
        if text == "none" {
            self = .none
            return
        }
        guard text.utf8.count == 3, text.first == ".",
            let digits = decimalNumber(Array(text.utf8.dropFirst()))
        else { return nil }
        self = .fraction(Int64(digits) * 10)
    }

    /// The price in a currency's own steps, and then the nearest price at or below it with that ending; nil where
    /// none above 0 is left.
    func price(_ milliunits: Int64, in currency: Currency) -> Int64? {
        let step = currency.smallestStep
        let (raised, overflow) = milliunits.addingReportingOverflow(step / 2)
        guard !overflow else { return nil }
        var price = raised - raised % step
        if case .fraction(let ending) = self, step <= 10 {
            guard price >= ending else { return nil }
            price -= (price - ending) % 1000
        }
        return price > 0 ? price : nil
    }
}

extension ScenarioRule {
    /// The new price in milliunits before rounding; nil where it is not above 0 or does not fit, and for
    /// `maxWithoutConsent`, which depends on the rules.
    func price(from current: Int64) -> Int64? {
        let price: Int64?
        switch self {
        case .percent(let hundredths):
            let product = Int128(current) * Int128(100_00 + hundredths)
            // It is cut to milliunits, because rounding comes once, to the currency's own steps.
            price = Int64(exactly: product / 100_00)
        case .amount(let amount):
            let (sum, overflow) = current.addingReportingOverflow(amount)
            price = overflow ? nil : sum
        case .price(let fixed): price = fixed
        case .maxWithoutConsent: price = nil
        }
        return price.flatMap { $0 > 0 ? $0 : nil }
    }
}
