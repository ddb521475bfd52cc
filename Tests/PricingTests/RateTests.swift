import Pricing
import Testing

struct RateTests {
    @Test(arguments: [
        ("1", 1_000_000_000), ("1.0876", 1_087_600_000), ("0.000000001", 1),
        ("17654.32", 17_654_320_000_000),
        ("007.50", 7_500_000_000), ("1.0000000000000", 1_000_000_000),
        ("9223372035.999999999", 9_223_372_035_999_999_999),
    ])
    func decimal_whenPlain_isBillionths(text: String, billionths: Int64) throws {
        #expect(try Rate(decimal: text).billionths == billionths)
    }

    @Test(arguments: [
        ("", Rate.Fault.notANumber), ("N/A", .notANumber), ("1,5", .notANumber),
        ("-1", .notANumber),
        ("1e3", .notANumber), ("1.", .notANumber), (".5", .notANumber), ("1.2.3", .notANumber),
        (" 1", .notANumber), ("٣", .notANumber), ("0", .notPositive), ("0.000", .notPositive),
        ("0.0000000001", .outOfRange), ("9223372036", .outOfRange),
        ("99999999999999999999999", .outOfRange),
    ])
    func decimal_whenNoRate_saysWhy(text: String, fault: Rate.Fault) {
        #expect(throws: fault) { try Rate(decimal: text) }
    }

    @Test(arguments: ["1.0876", "163.45", "0.58231", "28000.123456789", "1"])
    func text_whenReadBack_isTheSame(text: String) throws {
        #expect(try Rate(decimal: text).text == text)
    }
}
