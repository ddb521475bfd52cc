/// The App Store's 175 storefronts, by the codes that Apple gives them: ISO 3166-1 alpha-3, and XKS for Kosovo.
package enum AppStorefronts {
    package static let all = codes(
        """
        AFG AGO AIA ALB ARE ARG ARM ATG AUS AUT AZE BEL BEN BFA BGR BHR BHS BIH BLR BLZ BMU BOL BRA BRB BRN BTN BWA CAN \
        CHE CHL CHN CIV CMR COD COG COL CPV CRI CYM CYP CZE DEU DMA DNK DOM DZA ECU EGY ESP EST FIN FJI FRA FSM GAB GBR \
        GEO GHA GMB GNB GRC GRD GTM GUY HKG HND HRV HUN IDN IND IRL IRQ ISL ISR ITA JAM JOR JPN KAZ KEN KGZ KHM KNA KOR \
        KWT LAO LBN LBR LBY LCA LKA LTU LUX LVA MAC MAR MDA MDG MDV MEX MKD MLI MLT MMR MNE MNG MOZ MRT MSR MUS MWI MYS \
        NAM NER NGA NIC NLD NOR NPL NRU NZL OMN PAK PAN PER PHL PLW PNG POL PRT PRY QAT ROU RUS RWA SAU SEN SGP SLB SLE \
        SLV SRB STP SUR SVK SVN SWE SWZ SYC TCA TCD THA TJK TKM TON TTO TUN TUR TWN TZA UGA UKR URY USA UZB VCT VEN VGB \
        VNM VUT XKS YEM ZAF ZMB ZWE
        """)

    /// The currencies that a storefront can have, where there is no doubt; nil for any other storefront. Where Apple
    /// has prices in the currency of a country, the storefront of that country uses it. Bulgaria has two, because it
    /// changed to the euro.
    static func currencies(of storefront: String) -> Set<String>? {
        if storefront == "BGR" { return ["BGN", "EUR"] }
        if euro.contains(storefront) { return ["EUR"] }
        return own[storefront].map { [$0] }
    }

    private static let euro = codes(
        "AUT BEL CYP DEU ESP EST FIN FRA GRC HRV IRL ITA LTU LUX LVA MLT NLD PRT SVK SVN")

    private static let own: [String: String] = [
        "ARE": "AED", "AUS": "AUD", "BRA": "BRL", "CAN": "CAD", "CHE": "CHF", "CHL": "CLP",
        "CHN": "CNY", "COL": "COP", "CZE": "CZK", "DNK": "DKK", "EGY": "EGP", "GBR": "GBP",
        "HKG": "HKD", "HUN": "HUF", "IDN": "IDR", "IND": "INR", "ISR": "ILS", "JPN": "JPY",
        "KAZ": "KZT", "KOR": "KRW", "MEX": "MXN", "MYS": "MYR", "NGA": "NGN", "NOR": "NOK",
        "NZL": "NZD", "PAK": "PKR", "PER": "PEN", "PHL": "PHP", "POL": "PLN", "QAT": "QAR",
        "ROU": "RON", "RUS": "RUB", "SAU": "SAR", "SGP": "SGD", "SWE": "SEK", "THA": "THB",
        "TUR": "TRY", "TWN": "TWD", "TZA": "TZS", "USA": "USD", "VNM": "VND", "ZAF": "ZAR",
    ]

    private static func codes(_ text: String) -> Set<String> {
        Set(text.split(separator: " ").map(String.init))
    }
}
