/// The sample company's products and storefronts.
enum SampleCatalogue {
    struct Product: Sendable {
        var code: String
        var name: String
        var description: String
    }

    static let products: [Product] = [
        .init(code: "CHANNEL_NEWS", name: "News Channel", description: "News around the clock"),
        .init(code: "CHANNEL_SPORT", name: "Sport Channel", description: "Live matches"),
        .init(code: "AD_FREE", name: "Ad Free", description: "No advertisements"),
        .init(code: "CHANNEL_KIDS", name: "Kids Channel", description: "Series for children"),
        .init(code: "CHANNEL_FILM", name: "Film Channel", description: "Films every evening"),
        .init(code: "OFFLINE", name: "Offline", description: "Downloads on the road"),
        .init(code: "EXTRA_STREAMS", name: "Extra Streams", description: "Four screens at once"),
        .init(code: "UHD", name: "Ultra HD", description: "The sharpest picture"),
    ]

    /// Sixteen storefronts, thirteen currencies, five of them without decimals.
    static let storefronts = [
        "USA", "GBR", "JPN", "AUS", "FRA", "KOR", "BRA", "MEX", "CAN", "BEL", "CHE", "SWE", "ARG",
        "HKG", "ITA", "TWN",
    ]

    static func market(_ storefront: String) -> Market {
        guard let market = Markets.byStorefront[storefront] else {
            preconditionFailure("The sample names only storefronts of the built-in table.")
        }
        return market
    }

    /// A SKU names its period, as the company's price list would.
    static func sku(_ product: Product, _ period: BillingPeriod) -> String {
        "\(product.code)_\(period.rawValue.dropFirst())"
    }
}
