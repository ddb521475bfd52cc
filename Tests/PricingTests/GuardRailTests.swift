import Pricing
import Testing

struct GuardRailTests {
    @Test(arguments: [
        ("errors>2%", ["errors>2%"]), ("errors>0.25%", ["errors>0.25%"]),
        ("moved>5%", ["moved>5%"]),
        ("declined>5%/200,auto_renew_off>3.5%", ["declined>5%/200", "auto_renew_off>3.50%"]),
        ("errors>0%/1", ["errors>0%/1"]),
    ])
    func text_ofGuardRails_comesBack(text: String, expected: [String]) throws {
        #expect(try GuardRail.list(text).map(\.text) == expected)
    }

    @Test(arguments: [
        "errors>100%", "declined>250%/200",
        "", "errors", "errors>2", "errors>%", "errors>2%/0", "errors>2%/x", "errors>2%/5/5",
        "errors>101%",
        "errors>-1%", "refunds>2%", "errors>2%,", "errors>2%,errors>3%", "errors>2%>3%",
        "errors >2%",
        "errors>0.001%",
    ])
    func text_whenItIsNoGuardRail_isRefused(text: String) {
        #expect(throws: GuardRail.Fault.self) { try GuardRail.list(text) }
    }

    @Test(
        arguments: [
            (1, 3, false), (49, 49, false), (1, 50, false), (2, 50, true), (20, 1000, false),
            (21, 1000, true), (0, 1000, false), (Int64.max, Int64.max, true),
        ] as [(Int64, Int64, Bool)])
    func twoPercent_isExceeded_fromFiftyOnAndOnlyBeyond(
        count: Int64, all: Int64, expected: Bool
    ) {
        let rail = GuardRail(figure: .errors, over: 200)

        #expect(rail.isExceeded(by: count, of: all) == expected)
    }
}
