import Pricing
import Testing

struct WavePlanTests {
    @Test(arguments: [
        ("1%,10%,rest", ["1%", "10%", "rest"]), ("0.5%,99.5%", ["0.5%", "99.5%"]),
        ("12.34%,rest", ["12.34%", "rest"]), ("USA,GBR+IRL,rest", ["USA", "GBR+IRL", "rest"]),
        ("rest", ["rest"]), ("100%", ["100%"]),
    ])
    func text_ofAPlan_keepsItsLabels(text: String, labels: [String]) throws {
        #expect(try WavePlan(text).waves.map(\.label) == labels)
    }

    @Test(arguments: [
        "", "1%,", "1%", "1%,10%", "60%,50%,rest", "100%,rest", "rest,1%", "rest,rest", "0%,rest",
        "0.001%,rest", "101%,rest", "-1%,rest", "1 %,rest", "%,rest", "1.%,rest", "USA",
        "USA,USA,rest",
        "usa,rest", "US,rest", "USA+,rest", "USA,10%,rest", "1%@,rest", "1%@soon,rest",
        "1%@+2,rest",
        "10%@2026-12-05,rest@2026-12-01", "1%@2026-12-02,1%@+1d,1%@hand,rest@2026-12-01T23:59:59Z",
        "1%@+0d,rest", "1%@+d,rest", "1%@+99999999d,rest", "１%,rest",
    ])
    func text_whenItIsNoPlan_isRefused(text: String) {
        #expect(throws: WavePlan.Fault.self) { try WavePlan(text) }
    }

    @Test func text_withManyWaves_isRefused() {
        let text = (0...99).map { _ in "0.01%," }.joined() + "rest"

        let fault = #expect(throws: WavePlan.Fault.self) { try WavePlan(text) }

        #expect(fault?.description == "more than 100 waves")
    }

    @Test func release_whenNotTyped_isTheApprovalThenAHand() throws {
        let plan = try WavePlan("1%,10%@2026-12-01,20%@2026-12-01T12:00:00Z,rest@+2d")
        let held = try WavePlan("1%@hand,10%,rest@+90m")

        #expect(
            plan.waves.map(\.release) == [
                .approval, .at(at("2026-12-01T00:00:00Z")), .at(at("2026-12-01T12:00:00Z")),
                .after(2 * 86_400_000),
            ])
        #expect(held.waves.map(\.release) == [.hand, .hand, .after(90 * 60_000)])
    }

    /// A wrong year would send everything with the approval.
    @Test func instantOfAWave_thatHasPassed_isRefused() throws {
        let now = at("2026-12-01T00:00:00Z")
        let ahead = try WavePlan("1%@2026-12-01T00:00:00.001Z,rest@2026-12-02")
        let first = try WavePlan("1%@2026-12-01,rest")
        let later = try WavePlan("1%,1%@+2d,rest@2025-12-03")

        try ahead.requireAhead(of: now)
        let ofFirst = #expect(throws: WavePlan.Fault.self) { try first.requireAhead(of: now) }
        let ofLater = #expect(throws: WavePlan.Fault.self) { try later.requireAhead(of: now) }

        #expect(
            ofFirst?.description
                == "wave 1 (1%) is to be released at 2026-12-01T00:00:00Z, which has passed; name a later instant, or none: "
                + "the approval then releases it")
        #expect(
            ofLater?.description
                == "wave 3 (rest) is to be released at 2025-12-03T00:00:00Z, which has passed; name a later instant"
        )
    }

    @Test func earliestReleases_followOneAnother() throws {
        let plan = try WavePlan("1%,1%@hand,1%@+2d,1%@2026-11-11,1%@2026-12-01,rest@+12h")
        let long = Array(repeating: "0.01%@+100000d", count: 99).joined(separator: ",") + ",rest"

        let releases = plan.earliestReleases(approvedAt: at("2026-11-10T00:00:00Z"))
        let longest = try WavePlan(long).earliestReleases(approvedAt: at("2026-11-10T00:00:00Z"))

        #expect(
            releases.map(\.text) == [
                "2026-11-10T00:00:00Z", "2026-11-10T00:00:00Z",
                "2026-11-12T00:00:00Z", "2026-11-12T00:00:00Z",
                "2026-12-01T00:00:00Z", "2026-12-01T12:00:00Z",
            ])
        #expect(longest.count == 100)
        #expect(Judge.make().calling(from: longest[99]).one().code == .malformedRow)
    }

    /// As `printf %s 2000000000000001 | sha256sum` has it: 10ded6cadafda694… modulo 10,000.
    @Test(arguments: [
        ("2000000000000001", 6804), ("2000000012345678", 3478), ("1", 2913),
    ])
    func point_ofASubscription_isWhatAnybodyComputes(id: String, point: Int) {
        #expect(WavePlan.point(of: id) == point)
    }

    @Test func shares_ofManySubscriptions_areTheShares() throws {
        let plan = try WavePlan("1%,10%,rest")
        var rows = [0, 0, 0]
        for number in 0..<20_000 {
            let wave = try #require(
                plan.wave(ofSubscription: "20000000\(number)", storefront: nil))
            rows[wave - 1] += 1
        }

        #expect(rows.reduce(0, +) == 20_000)
        #expect((150...250).contains(rows[0]))
        #expect((1800...2200).contains(rows[1]))
    }

    @Test func share_whenItGrows_keepsWhoWasInIt() throws {
        let (small, large) = (try WavePlan("1%,rest"), try WavePlan("5%,rest"))

        for number in 0..<5000 {
            let id = "30000000\(number)"
            guard small.wave(ofSubscription: id, storefront: nil) == 1 else { continue }
            #expect(large.wave(ofSubscription: id, storefront: nil) == 1)
        }
    }

    @Test func storefronts_takeTheirOwnAndTheRestTheOthers() throws {
        let plan = try WavePlan("USA,GBR+IRL,rest")

        let waves = ["IRL", "USA", "DEU", nil, "GBR"].map {
            plan.wave(ofSubscription: "1", storefront: $0)
        }

        #expect(waves == [2, 1, 3, 3, 2])
    }
}
