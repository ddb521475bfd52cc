import Batches
import Postgres
import Pricing
import TestSupport
import Testing

@Suite(.database) struct RuleQueriesTests {
    private static let october = Instant(milliseconds: 1_790_812_800_000)
    private static let november = Instant(milliseconds: 1_793_491_200_000)

    private static func threshold(_ amount: Int64, from: Instant) -> Rule {
        .threshold(
            storefront: "DEU", currency: "EUR", kind: .annual, amount: amount, validFrom: from,
            source: .apple)
    }

    private static func rate(
        _ billionths: Int64, _ currency: String = "USD", from: Instant
    ) throws -> Rule {
        .exchangeRate(
            currency, perEuro: try #require(Rate(billionths: billionths)), validFrom: from,
            source: "ecb")
    }

    private static func add(
        _ rules: [Rule], revision: Int, on connection: PostgresConnection
    ) async throws {
        let added = try await connection.transaction { connection in
            try RuleQueries.add(
                rules.map { .init(rule: $0) }, file: "rules.csv", contentSHA256: "00", at: 0,
                on: connection)
        }
        #expect(added == revision)
    }

    private static func load(
        _ span: RuleQueries.Span, _ now: Instant, _ connection: PostgresConnection
    ) async throws -> RuleSet {
        try await connection.read { try RuleQueries.load(span, now, on: $0) }
    }

    @Test func seed_whenLoaded_isExactlyWhatThePricingTestsJudgeBy() async throws {
        let connection = try await TestDatabase.connect()
        let rules = try await Self.load(.at, Instant(milliseconds: 0), connection)
        await connection.close()

        #expect(Set(rules[.threshold]) == Set(RuleSet.shipped[.threshold]))
        #expect(rules[.threshold].count == RuleSet.shipped[.threshold].count)
        #expect(Set(rules[.currency]) == Set(RuleSet.shipped[.currency]))
        #expect(rules[.currency].count == RuleSet.shipped[.currency].count)
        #expect(rules[.alwaysConsent].isEmpty)
        #expect(rules[.exchangeRate].isEmpty)
    }

    @Test func rules_whenAdded_leaveOlderInstantsAlone() async throws {
        let connection = try await TestDatabase.connect()
        var first = RuleSet()
        first[.threshold] = [
            Self.threshold(40_000, from: Self.october), Self.threshold(50_000, from: Self.november),
        ]
        first[.alwaysConsent] = [
            .alwaysConsent("CHL", validFrom: Self.november)
        ]
        first[.currency] = [
            .currency(
                Currency(code: "USD", decimals: 0), validFrom: Self.november,
                source: .apple)
        ]
        first[.exchangeRate] = [
            try Self.rate(1_100_000_000, from: Self.october),
            try Self.rate(1_200_000_000, from: Self.november),
        ]
        try await Self.add(first.rows, revision: 2, on: connection)
        for index in first.rows.indices { first.rows[index].recordedAt = Instant(milliseconds: 0) }

        let before = try await Self.load(.at, Self.october, connection)
        let after = try await Self.load(.at, Self.november, connection)
        let later = try await Self.load(.from, Self.october, connection)
        let past = try await Self.load(.from, Self.november, connection)
        let all = try await Self.load(.all, Self.october, connection)
        await connection.close()

        #expect(before[.threshold].filter { $0.storefront == "DEU" }.map(\.value) == [40_000])
        #expect(after[.threshold].filter { $0.storefront == "DEU" }.map(\.value) == [50_000])
        #expect(before[.alwaysConsent].isEmpty)
        #expect(after[.alwaysConsent] == first[.alwaysConsent])
        #expect(before[.exchangeRate] == [first[.exchangeRate][0]])
        #expect(after[.exchangeRate] == [first[.exchangeRate][1]])
        #expect(before[.currency].first { $0.currency == "USD" }?.value == 2)
        #expect(after[.currency].filter { $0.currency == "USD" } == first[.currency])
        #expect(later[.exchangeRate] == first[.exchangeRate])
        #expect(past.inForce(at: Self.october) == before.inForce(at: Self.october))
        #expect(past.inForce(at: Self.november) == after.inForce(at: Self.november))
        #expect(later.inForce(at: Self.november) == after.inForce(at: Self.november))
        #expect(all[.currency].count == RuleSet.shipped[.currency].count + 1)
    }

    @Test func rules_ofTheSameInstant_followTheLastImport() async throws {
        let connection = try await TestDatabase.connect()
        for (revision, amount) in [(2, Int64(40_000)), (3, 60_000)] {
            try await Self.add(
                [Self.threshold(amount, from: Self.october)], revision: revision, on: connection)
        }

        let rules = try await Self.load(.at, Self.october, connection)
        let all = try await Self.load(.all, Self.october, connection)
        await connection.close()

        #expect(rules[.threshold].filter { $0.storefront == "DEU" }.map(\.value) == [60_000])
        #expect(Self.german(all.inForce(at: Self.october)) == 60_000)
    }

    @Test func revision_whenTakenByAnother_isRefused() async throws {
        let (first, second) = (
            try await TestDatabase.connect(), try await TestDatabase.connect()
        )

        await #expect {
            try await first.transaction(.repeatableRead) { connection in
                _ = try RuleQueries.revision(on: connection)
                try await Self.add([], revision: 2, on: second)
                _ = try RuleQueries.add(
                    [], file: "rules.csv", contentSHA256: "00", at: 0, on: connection)
            }
        } throws: {
            ($0 as? PostgresError)?.constraint == "rule_imports_pkey"
        }
        await first.close()
        await second.close()
    }

    private static func cached(
        _ cache: RuleCache, at now: Instant, _ connection: PostgresConnection
    ) async throws -> RulesInForce {
        try await connection.read { try cache.course(from: now, on: $0) }.rules(at: now)
    }

    @Test func cache_whenAnImportComes_readsTheNewRules() async throws {
        let connection = try await TestDatabase.connect()
        let cache = RuleCache()
        let before = try await Self.cached(cache, at: Self.october, connection)
        try await Self.add(
            [Self.threshold(40_000, from: Self.october)], revision: 2, on: connection)

        let after = try await Self.cached(cache, at: Self.november, connection)
        let earlier = try await Self.cached(cache, at: Instant(milliseconds: 0), connection)
        await connection.close()

        #expect(Self.german(before) == nil)
        #expect(Self.german(after) == 40_000)
        #expect(Self.german(earlier) == nil)
    }

    @Test func cache_whenTimePasses_followsWhatComesIntoForceAndNothingElse() async throws {
        let connection = try await TestDatabase.connect()
        let cache = RuleCache()
        try await Self.add(
            [
                Self.threshold(40_000, from: Self.october),
                Self.threshold(50_000, from: Self.november),
            ], revision: 2, on: connection)
        let second: Int64 = 1000

        var seen: [Int64?] = []
        for instant in [
            Self.october.advanced(by: -second), Self.october, Self.november.advanced(by: -1),
            Self.november, Self.november.advanced(by: second), Self.october,
        ] {
            seen.append(Self.german(try await Self.cached(cache, at: instant, connection)))
        }
        await connection.close()

        #expect(seen == [nil, 40_000, 40_000, 50_000, 50_000, 40_000])
    }

    private static func imported(
        _ text: String, at: Instant, on connection: PostgresConnection
    ) async throws {
        let file = try RuleFile(source: MemoryByteSource(Array(text.utf8)), file: "rules.csv")
        _ = try await connection.transaction(.repeatableRead) { connection in
            let change = RuleImport(
                file, stored: try RuleQueries.load(.all, at, on: connection), from: at)
            #expect(change.faults.isEmpty)
            return try RuleQueries.add(
                change.changes, file: "rules.csv", contentSHA256: "00", at: at.milliseconds,
                on: connection)
        }
    }

    @Test func rules_recordedLater_areNotKnownBefore() async throws {
        let connection = try await TestDatabase.connect()
        let header = "rule,storefront,currency,period_kind,amount,per_euro,valid_from\n"
        try await Self.imported(
            header + "threshold,DEU,EUR,annual,50,,2026-09-01\n"
                + "exchange_rate,,JPY,,,160,2026-09-01\n",
            at: Self.october, on: connection)
        try await Self.imported(
            header + "threshold,DEU,EUR,annual,60,,2026-09-15\n"
                + "exchange_rate,,JPY,,,170,2026-09-15\n",
            at: Self.november, on: connection)

        var seen: [String] = []
        for known in [
            Self.october.advanced(by: -1), Self.october, Self.november.advanced(by: -1),
            Self.november, nil,
        ] {
            let rules = try await connection.read {
                try RuleQueries.load(.at, Self.november, knownAt: known, on: $0)
            }.inForce(at: Self.november)
            let latest = try await connection.read {
                try RuleQueries.latestImport(knownAt: known, on: $0)?.revision
            }
            seen.append(
                "\(latest ?? 0) \(Self.german(rules) ?? 0) \(rules.exchangeRate("JPY")?.perEuro.text ?? "-")"
            )
        }
        await connection.close()

        #expect(seen == ["1 0 -", "2 50000 160", "2 50000 160", "3 60000 170", "3 60000 170"])
    }

    @Test func row_whenWithdrawn_givesWayToTheFormerOne() async throws {
        let connection = try await TestDatabase.connect()
        let header = "rule,storefront,currency,period_kind,amount,per_euro,valid_from,withdrawn\n"
        try await Self.imported(
            header + "threshold,DEU,EUR,annual,50,,2026-09-01,\n"
                + "threshold,DEU,EUR,annual,60,,2026-09-15,\n"
                + "exchange_rate,,JPY,,,160,2026-09-01,\nexchange_rate,,JPY,,,170,2026-09-15,\n"
                + "always_consent,CHL,,,,,2026-09-01,\n",
            at: Self.october, on: connection)
        try await Self.imported(
            header + "threshold,DEU,EUR,annual,,,2026-09-15,true\n"
                + "exchange_rate,,JPY,,,,2026-09-15,true\nalways_consent,CHL,,,,,2026-09-01,true\n",
            at: Self.november, on: connection)

        var seen: [String] = []
        for (span, known) in [
            (RuleQueries.Span.at, Self.october), (.at, nil), (.from, nil), (.all, nil),
        ] as [(RuleQueries.Span, Instant?)] {
            let rules = try await connection.read {
                try RuleQueries.load(span, Self.november, knownAt: known, on: $0)
            }.inForce(at: Self.november)
            seen.append(
                "\(Self.german(rules) ?? 0) \(rules.exchangeRate("JPY")?.perEuro.text ?? "-") "
                    + "\(rules.rows(of: .alwaysConsent).count)")
        }
        // What was withdrawn can be said again.
        try await Self.imported(
            header + "threshold,DEU,EUR,annual,70,,2026-09-15,\n", at: Self.november,
            on: connection)
        let again = try await Self.load(.at, Self.november, connection)
        await connection.close()

        #expect(seen == ["60000 170 1", "50000 160 0", "50000 160 0", "50000 160 0"])
        #expect(Self.german(again.inForce(at: Self.november)) == 70_000)
    }

    private static func german(_ rules: RulesInForce) -> Int64? {
        rules.rows(of: .threshold).first { $0.key.text == "threshold DEU EUR annual" }?.value
    }

    @Test(arguments: [
        "UPDATE repricer.consent_thresholds SET amount_milliunits = 1",
        "DELETE FROM repricer.exchange_rates", "TRUNCATE repricer.rule_imports",
        "INSERT INTO repricer.rule_imports (revision, imported_at, imported_by, file) "
            + "VALUES (2, '2026-01-01Z', 'somebody', 'x')",
    ])
    func pricing_whenItRewritesRules_isRefused(statement: String) async throws {
        let person = try await TestDatabase.login("paula", memberOf: ["repricer_pricing"])
        let connection = try await PostgresConnection.connect(person, applicationName: "test")

        await #expect {
            try await connection.script(statement)
        } throws: {
            ($0 as? PostgresError)?.sqlState == .insufficientPrivilege
        }
        await connection.close()
    }

    @Test func service_whenItReadsAndWrites_mayOnlyRead() async throws {
        let person = try await TestDatabase.login("serge", memberOf: ["repricer_service"])
        let connection = try await PostgresConnection.connect(person, applicationName: "test")

        let rules = try await Self.load(.from, Self.october, connection)
        #expect(rules[.threshold].count == 56)
        await #expect {
            try await Self.add([], revision: 2, on: connection)
        } throws: {
            ($0 as? PostgresError)?.sqlState == .insufficientPrivilege
        }
        await connection.close()
    }
}
