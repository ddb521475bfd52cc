/// A storefront as this store knows it.
struct Market: Sendable {
    var storefront: String
    var storefrontID: String
    var currency: String
    /// Consent amounts in milliunits: published by Apple, or this store's own estimate.
    var thresholds: Thresholds

    struct Thresholds: Sendable {
        var nonAnnual: Int64
        var annual: Int64
        var isPublished: Bool
    }
}

/// Storefronts, currencies and price rules: the store's own table, not the product's.
enum Markets {
    static let byStorefront: [String: Market] = {
        var table: [String: Market] = [:]
        let rows =
            publishedRows.split(separator: "\n").map { ($0, true) }
            + estimatedRows.split(separator: "\n").map { ($0, false) }
        for (row, isPublished) in rows {
            let cells = row.split(separator: " ").map(String.init)
            guard cells.count == 5, let small = Int64(cells[3]), let large = Int64(cells[4]) else {
                preconditionFailure("The built-in row \"\(row)\" has not five cells.")
            }
            table[cells[0]] = Market(
                storefront: cells[0], storefrontID: cells[1], currency: cells[2],
                thresholds: .init(
                    nonAnnual: small * 1000, annual: large * 1000, isPublished: isPublished))
        }
        return table
    }()

    /// Currencies without decimals in the Advanced Commerce API; unlike ISO 4217.
    static let wholeCurrencies: Set<String> = words(
        """
        CLP COP DKK HKD HUF IDR INR JPY KRW KZT MXN NGN NOK PHP PKR RUB SEK THB TWD TZS VND
        """)

    static let centCurrencies: Set<String> = words(
        """
        AED AUD BGN BRL CAD CHF CNY CZK EGP EUR GBP ILS MYR NZD PEN PLN QAR RON SAR SGD TRY USD ZAR
        """)

    /// The smallest step of a price in milliunits; nil for a currency that the API does not know.
    static func priceStep(of currency: String) -> Int64? {
        if wholeCurrencies.contains(currency) { return 1000 }
        return centCurrencies.contains(currency) ? 10 : nil
    }

    private static func words(_ text: String) -> Set<String> {
        Set(text.split(whereSeparator: { $0 == " " || $0 == "\n" }).map(String.init))
    }

    // Storefront, its number, currency, amount for periods under a year, amount for a year.
    private static let publishedRows = """
        AFG 143610 USD 5 50
        ALB 143575 USD 6 60
        DZA 143563 USD 5 50
        AGO 143564 USD 5 50
        AIA 143538 USD 5 50
        ATG 143540 USD 5 50
        ARG 143505 USD 5 50
        ARM 143524 USD 6 60
        AUS 143460 AUD 8 80
        AUT 143445 EUR 5 50
        AZE 143568 USD 5 50
        BHS 143539 USD 5 50
        BHR 143559 USD 5 50
        BRB 143541 USD 6 60
        BLR 143565 USD 6 60
        BEL 143446 EUR 5 50
        BLZ 143555 USD 5 50
        BEN 143576 USD 6 60
        BMU 143542 USD 5 50
        BTN 143577 USD 5 50
        BOL 143556 USD 5 50
        BIH 143612 EUR 5 50
        BWA 143525 USD 5 50
        BRA 143503 BRL 40 400
        VGB 143543 USD 5 50
        BRN 143560 USD 5 50
        BGR 143526 BGN 12 120
        USA 143441 USD 5 50
        """

    private static let estimatedRows = """
        CAN 143455 CAD 7 70
        CHE 143459 CHF 5 50
        CHN 143465 CNY 35 350
        DEU 143443 EUR 5 50
        DNK 143458 DKK 35 350
        ESP 143454 EUR 5 50
        FRA 143442 EUR 5 50
        GBR 143444 GBP 4 40
        HKG 143463 HKD 40 400
        IND 143467 INR 440 4400
        ITA 143450 EUR 5 50
        JPN 143462 JPY 750 7500
        KOR 143466 KRW 7000 70000
        MEX 143468 MXN 95 950
        NLD 143452 EUR 5 50
        NOR 143457 NOK 52 520
        NZL 143461 NZD 9 90
        SGP 143464 SGD 7 70
        SWE 143456 SEK 50 500
        THA 143475 THB 170 1700
        TUR 143480 TRY 200 2000
        TWN 143470 TWD 155 1550
        """
}
