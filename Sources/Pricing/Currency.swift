/// A currency of Apple's price list, with Apple's own number of decimals. It is 0 or 2 and may differ from ISO 4217
/// (HKD, INR, MXN and SEK have none here).
package struct Currency: Hashable, Sendable {
    /// The ISO 4217 code in upper case.
    package let code: String
    package let decimals: Int

    package init(code: String, decimals: Int) {
        self.code = code
        self.decimals = decimals
    }

    /// The currency whose decimals a rule gives.
    package init(_ rule: Rule) {
        self.init(code: rule.currency, decimals: Int(rule.value))
    }

    /// Whether a price in milliunits has no more decimals than the currency.
    package func accepts(milliunits: Int64) -> Bool {
        milliunits % smallestStep == 0
    }

    /// The smallest difference between two prices, in milliunits: 10 or 1000.
    package var smallestStep: Int64 {
        switch decimals {
        case ...0: 1000
        case 1: 100
        case 2: 10
        default: 1
        }
    }

    /// Apple's 44 currencies.
    package static let apple: [Currency] =
        list(
            "CLP COP DKK HKD HUF IDR INR JPY KRW KZT MXN NGN NOK PHP PKR RUB SEK THB TWD TZS VND", 0
        )
        + list(
            "AED AUD BGN BRL CAD CHF CNY CZK EGP EUR GBP ILS MYR NZD PEN PLN QAR RON SAR SGD TRY "
                + "USD ZAR", 2)

    private static func list(_ codes: String, _ decimals: Int) -> [Currency] {
        codes.split(separator: " ").map { Currency(code: String($0), decimals: decimals) }
    }
}
