import Pricing
import Testing

struct MoneyTests {
    @Test(arguments: [
        ("12.99", 12_990), ("12.990", 12_990), ("12.9900000", 12_990), ("12", 12_000),
        ("0.01", 10), ("0.001", 1), ("12.995", 12_995), ("007.50", 7500),
        ("9223372036854775.807", Int64.max),
    ])
    func decimal_whenPlain_isMilliunits(text: String, expected: Int64) throws {
        #expect(try PriceText.milliunits(decimal: text) == expected)
    }

    @Test(arguments: [
        ("", PriceText.Fault.notANumber), (".", .notANumber), ("12.", .notANumber),
        (".99", .notANumber), ("-1", .notANumber), ("+1", .notANumber), ("1e3", .notANumber),
        ("1,299.00", .notANumber), ("12,99", .notANumber), (" 1", .notANumber),
        ("1.2.3", .notANumber), ("١٢", .notANumber), ("1\u{0}", .notANumber), ("0", .notPositive),
        ("0.000", .notPositive), ("12.9955", .tooManyDecimals),
        ("9223372036854775.808", .tooLarge), ("99999999999999999999", .tooLarge),
    ])
    func decimal_whenNotAPrice_saysWhy(text: String, expected: PriceText.Fault) {
        #expect(throws: expected) { try PriceText.milliunits(decimal: text) }
    }

    @Test(arguments: [
        ("12.99", PriceText.Fault.notANumber), ("-5", .notANumber), ("", .notANumber),
        ("0", .notPositive), ("9223372036854775808", .tooLarge),
    ])
    func integer_whenNotMilliunits_saysWhy(text: String, expected: PriceText.Fault) throws {
        #expect(throws: expected) { try PriceText.milliunits(integer: text) }
        #expect(try PriceText.milliunits(integer: "12990") == 12_990)
    }

    @Test(arguments: [
        (12_990, 2, "12.99"), (12_000, 2, "12.00"), (1_200_000, 0, "1200"),
        (1_200_500, 0, "1200.500"),
        (12_995, 2, "12.995"), (10, 2, "0.01"), (-12_990, 2, "-12.99"),
        (Int64.min, 2, "-9223372036854775.808"),
    ])
    func price_whenShown_hasItsCurrencysDecimals(price: Int64, decimals: Int, expected: String) {
        #expect(PriceText.decimal(price, decimals: decimals) == expected)
    }

    @Test(arguments: [
        ("USD", 12_990, true), ("USD", 12_995, false), ("EUR", 10, true), ("JPY", 310_950, false),
        ("JPY", 359_000, true), ("HKD", 8_500, false), ("INR", 99_000, true),
        ("MXN", 19_990, false),
        ("SEK", 129_000, true), ("TRY", 49_990, true),
    ])
    func currency_whenAsked_takesApplesDecimals(
        code: String, price: Int64, expected: Bool
    ) throws {
        let rules = RuleSet.shipped.inForce(at: at("2026-11-01T00:00:00Z"))

        let currency = try #require(rules.currency(code))

        #expect(currency.accepts(milliunits: price) == expected)
    }

    @Test func currencies_whenCounted_areApples44() {
        #expect(Currency.apple.count == 44)
        #expect(Set(Currency.apple.map(\.code)).count == 44)
        #expect(Currency.apple.count { $0.decimals == 0 } == 21)
        #expect(RuleSet.shipped.inForce(at: at("2026-11-01T00:00:00Z")).currency("BHD") == nil)
    }
}
