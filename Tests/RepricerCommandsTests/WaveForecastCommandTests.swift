import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// What a plan and a batch with waves say of dates.
@Suite(.database) struct WaveForecastCommandTests {
    private let ana: [String: String]
    private let ben: [String: String]
    private let scratch: ScratchFolder

    /// Twenty monthly subscriptions that renew on the first of a month.
    init() async throws {
        let team = try await PricingTeam(
            subscriptions: """
                SELECT '10000000000000' || i, repricer.bucket_of('10000000000000' || i), 1, true, 'USA', 'USD',
                    'P1M', 'generic', '2024-06-01Z', 'customer' || i, '2024-06-01Z', '2026-01-01Z', '2026-02-01Z',
                    '2026-02-01Z', '[{"sku":"PLAN","currentPrice":9990,"renewalPrice":9990,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '2024-06-01Z'
                FROM generate_series(11, 30) AS i
                """)
        try await TestDatabase.shipDefaultLimits()
        (ana, ben, scratch) = (team.ana, team.ben, team.scratch)
    }

    private func file() throws -> String {
        let rows = (11...30).map { "10000000000000\($0),PLAN,10.99,USD\n" }
        return try scratch.file(
            "batch.csv", "original_transaction_id,sku,price,currency\n" + rows.joined())
    }

    private func rows(_ waves: String...) async throws -> [[String: Any]] {
        let planned = await run(
            ["plan", try file(), "--as-of", "2026-01-02T00:00:00Z", "--rows", "-"] + waves,
            environment: ana)
        #expect(planned.code == .done, "\(planned.messages)")
        return try planned.output.split(separator: "\n").filter { $0.hasPrefix("{") }.map {
            try object(String($0))
        }
    }

    @Test func plan_withALaterWave_datesItFromItsReleaseOn() async throws {
        let rows = try await rows("--waves", "50%,rest@2026-01-20")

        let byWave = Dictionary(grouping: rows) { $0["wave"] as? Int }
        #expect(Set(byWave.keys) == [1, 2])
        #expect(
            Set(byWave[1, default: []].map { $0["effective_at"] as? String })
                == ["2026-02-01T00:00:00Z"])
        #expect(
            Set(byWave[2, default: []].map { $0["effective_at"] as? String })
                == ["2026-03-01T00:00:00Z"])
        #expect(rows.allSatisfy { $0["send_after"] is NSNull })
    }

    /// The hash covers the file and what is known of it. Who submits with waves checked the same plan.
    @Test func planHash_saysNothingOfWaves() async throws {
        let (plain, waved) = (
            try await hash(), try await hash("--waves", "50%,rest@2036-03-20")
        )
        let submitted = await run(
            "submit", try file(), "--name", "spring", "--plan-hash", plain, "--waves",
            "50%,rest@2036-03-20", environment: ana)
        let show = await run("show", "spring", environment: ana)

        #expect(plain == waved)
        #expect(submitted.code == .done, "\(submitted.messages)")
        #expect(show.output.contains("earliest release of each wave"), "\(show.output)")
        #expect(show.output.contains("2036-0"), "\(show.output)")
    }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    private func hash(_ waves: String...) async throws -> String {
        let planned = await run(
            ["plan", try file(), "--json"] + waves, environment: ana)
        return try #require(try object(planned.output)["plan_hash"] as? String)
    }
}
