import Pricing
import TestSupport
import Testing

@testable import Batches

/// What an import finds before it is judged by.
struct RulePlausibilityTests {
    private static let header = "rule,storefront,currency,period_kind,amount,valid_from,withdrawn\n"
    private static let now = Instant(milliseconds: 1_793_491_200_000)  // 2026-11-01

    private func change(_ rows: String, stored: RuleSet = .shipped) throws -> RuleImport {
        let text = Array((Self.header + rows).utf8)
        let file = try RuleFile(source: MemoryByteSource(text), file: "rules.csv")
        return RuleImport(file, stored: stored, from: Self.now)
    }

    @Test(arguments: [
        ("threshold,DEU,EUR,nonannual,5,,\nthreshold,DEU,EUR,annual,50,,\n", []),
        ("threshold,DEU,EUR,nonannual,49.99,,\n", []),
        // Five hundred thousand where Apple's other amounts say five.
        ("threshold,DEU,EUR,nonannual,500000,,\n", ["2 implausible_amount"]),
        ("threshold,DEU,EUR,nonannual,50.01,,\n", ["2 implausible_amount"]),
        ("threshold,DEU,EUR,nonannual,0.50,,\n", []),
        ("threshold,DEU,EUR,nonannual,0.49,,\n", ["2 implausible_amount"]),
        // The annual amount beside the other one, of the file or stored.
        (
            "threshold,DEU,EUR,nonannual,50,,\nthreshold,DEU,EUR,annual,5,,\n",
            ["3 annual_below_nonannual"]
        ),
        (
            "threshold,USA,USD,annual,4.99,,\n",
            ["2 annual_below_nonannual", "2 implausible_amount"]
        ),
        (
            "threshold,USA,USD,nonannual,50.01,,\n",
            ["2 annual_below_nonannual", "2 implausible_amount"]
        ),
        ("threshold,USA,USD,annual,50.01,,\n", ["2 implausible_amount"]),
        ("threshold,USA,USD,nonannual,6,,\nthreshold,USA,USD,annual,60,,\n", []),
        (
            "threshold,BRA,BRL,nonannual,20,,\nthreshold,BRA,BRL,annual,201,,\n",
            ["3 implausible_amount"]
        ),
        // A currency that the storefront does not have.
        ("threshold,DEU,USD,nonannual,5,,\n", ["2 implausible_currency"]),
        ("threshold,JPN,EUR,nonannual,5,,\n", ["2 implausible_currency"]),
        ("threshold,AFG,EUR,nonannual,5,,\n", ["2 implausible_currency"]),
        ("threshold,BGR,EUR,nonannual,5,,\n", []),
        ("threshold,KHM,USD,nonannual,5,,\n", []),
    ])
    func threshold_thatCanHardlyBeMeant_isWarnedOf(rows: String, warnings: [String]) throws {
        let change = try change(rows)

        #expect(change.faults.isEmpty)
        #expect(change.warnings.map { "\($0.line) \($0.code.rawValue)" } == warnings)
    }

    /// In yen Apple's amounts are not shipped, and neither is a rate. So a slip of the hand would look like any amount.
    @Test(arguments: ["800", "80000000"])
    func threshold_thatNothingCanBeComparedWith_isWarnedOf(amount: String) throws {
        let row = "threshold,JPN,JPY,nonannual,\(amount),,\n"
        let threshold =
            "rule,storefront,currency,period_kind,amount,per_euro\n"
            + "threshold,JPN,JPY,nonannual,\(amount),\n"
        let rates = "exchange_rate,,JPY,,,160\nexchange_rate,,USD,,,1.1\n"
        var stored = RuleSet.shipped
        stored[.exchangeRate] = try [("JPY", "160"), ("USD", "1.1")].map { currency, rate in
            .exchangeRate(
                currency, perEuro: try Rate(decimal: rate),
                validFrom: Instant(milliseconds: 1_790_000_000_000), source: "ecb")
        }
        let both = try RuleFile(
            source: MemoryByteSource(Array((threshold + rates).utf8)), file: "rules.csv")
        let isMeant = amount == "800"

        let alone = try change(row).warnings
        let rated = try change(row, stored: stored).warnings
        let together = RuleImport(both, stored: .shipped, from: Self.now)

        #expect(
            alone.map { $0.text(file: "rules.csv") } == [
                "rules.csv:2: implausible_amount: \(amount) JPY cannot be checked: no amount in JPY and no "
                    + "exchange rate of it is known; import exchange rates before it, such as the "
                    + "European Central Bank's eurofxref.csv, or check it yourself"
            ])
        #expect(rated.isEmpty == isMeant, "\(rated)")
        #expect(together.faults.isEmpty)
        #expect(together.warnings.isEmpty == isMeant, "\(together.warnings)")
    }

    /// Rates and decimals that are not those in force: a slip of the decimal point, or the wrong way round.
    @Test(arguments: [
        ("exchange_rate,EUR,1,,\n", []), ("exchange_rate,EUR,2,,\n", ["2 implausible_amount"]),
        ("exchange_rate,JPY,1599,,\n", []),
        ("exchange_rate,JPY,160000,,\n", ["2 implausible_amount"]),
        ("exchange_rate,JPY,0.00625,,\n", ["2 implausible_amount"]),
        // Decades ago a rate was another one.
        ("exchange_rate,JPY,15,,2000-01-01\n", []), ("exchange_rate,TWD,35,,\n", []),
        ("currency,USD,,2,\n", []), ("currency,USD,,3,\n", ["2 implausible_currency"]),
        ("currency,JPY,,2,\n", ["2 implausible_currency"]),
    ])
    func rateOrDecimals_thatCanHardlyBeMeant_areWarnedOf(row: String, warnings: [String]) throws {
        var stored = RuleSet.shipped
        stored[.exchangeRate] = [
            .exchangeRate(
                "JPY", perEuro: try Rate(decimal: "160"),
                validFrom: Instant(milliseconds: 1_790_000_000_000), source: "ecb")
        ]
        let text = "rule,currency,per_euro,decimals,valid_from\n" + row
        let file = try RuleFile(source: MemoryByteSource(Array(text.utf8)), file: "rules.csv")

        let change = RuleImport(file, stored: stored, from: Self.now)

        #expect(change.faults.isEmpty, "\(change.faults)")
        #expect(change.warnings.map { "\($0.line) \($0.code.rawValue)" } == warnings)
    }

    /// What the file withdraws is no rate to compare with.
    @Test func rateThatCorrectsAWithdrawnOne_isPlausible() throws {
        var stored = RuleSet.shipped
        let from = Instant(milliseconds: 1_790_000_000_000)
        stored[.exchangeRate] = [
            .exchangeRate(
                "JPY", perEuro: try Rate(decimal: "1.6"), validFrom: from, source: "desk")
        ]
        let text =
            "rule,currency,per_euro,valid_from,withdrawn\nexchange_rate,JPY,,\(from.text),true\n"
            + "exchange_rate,JPY,160,,\n"
        let file = try RuleFile(source: MemoryByteSource(Array(text.utf8)), file: "rules.csv")

        let change = RuleImport(file, stored: stored, from: Self.now)

        #expect(change.faults.isEmpty, "\(change.faults)")
        #expect(change.warnings.isEmpty, "\(change.warnings)")
    }

    @Test(arguments: [
        ("threshold,JPN,JPY,nonannual,800.50,,\n", ["2 amount_decimals"]),
        ("threshold,JPN,JPY,nonannual,800.00,,\n", []),
        ("threshold,DEU,EUR,nonannual,5.005,,\n", ["2 amount_decimals"]),
        ("threshold,DEU,QQQ,nonannual,5,,\n", ["2 unknown_currency"]),
    ])
    func threshold_thatCannotBe_isAFault(rows: String, faults: [String]) throws {
        #expect(try change(rows).faults.map { "\($0.line) \($0.code.rawValue)" } == faults)
    }

    private static func german(_ amount: Int64, _ from: Instant?) -> Rule {
        .threshold(
            storefront: "DEU", currency: "EUR", kind: .nonannual, amount: amount, validFrom: from,
            source: .apple)
    }

    @Test func withdrawal_ofARow_namesWhatHoldsAgain() throws {
        var stored = RuleSet.shipped
        let october = Instant(milliseconds: 1_790_812_800_000)
        stored[.threshold] += [Self.german(5_000, nil), Self.german(9_000, october)]

        let later = try change(
            "threshold,DEU,EUR,nonannual,,2026-10-01,true\n", stored: stored)
        let first = try change("threshold,DEU,EUR,nonannual,,ever,true\n", stored: stored)

        #expect(later.faults.isEmpty)
        #expect(later.changes.map(\.rule.words) == ["9.00 EUR (apple)"])
        #expect(later.changes.map { $0.old?.words } == ["5.00 EUR (apple)"])
        #expect(later.changes.map(\.isWithdrawal) == [true])
        #expect(first.changes.map { $0.old?.words } == [nil])
    }

    @Test(arguments: [
        ("threshold,DEU,EUR,nonannual,,2026-10-01,true\n", RuleFault.Code.nothingToWithdraw),
        ("threshold,USA,USD,nonannual,,,true\n", .badDate),
        ("threshold,USA,USD,nonannual,5,ever,true\n", .unexpectedCell),
        ("threshold,USA,USD,nonannual,5,,yes\n", .badWithdrawn),
        (
            "threshold,USA,USD,nonannual,,ever,true\nthreshold,USA,USD,nonannual,,ever,true\n",
            .duplicateRow
        ),
    ])
    func withdrawal_thatNamesNoRow_isAFault(rows: String, code: RuleFault.Code) throws {
        #expect(try change(rows).faults.map(\.code).contains(code))
    }

    @Test func storefronts_ofTheAppStore_are175() {
        #expect(AppStorefronts.all.count == 175)
        #expect(
            AppStorefronts.all.allSatisfy { code in
                AppStorefronts.currencies(of: code)?.isSubset(of: Currency.apple.map(\.code))
                    ?? true
            })
    }
}
