import Digests
import Testing

@testable import Pricing

struct PlanTextTests {
    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
        (
            "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                + "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"
        ),
    ])
    func sha256_whenGivenTheFIPSVectors_agrees(text: String, expected: String) {
        var hasher = SHA256()
        for byte in text.utf8 { hasher.update([byte]) }

        #expect(hasher.hexadecimalDigest() == expected)
    }

    @Test func sha256_whenGivenAMillionAs_agrees() {
        var hasher = SHA256()
        for _ in 0..<100 { hasher.update([UInt8](repeating: 0x61, count: 10_000)) }

        #expect(
            hasher.hexadecimalDigest()
                == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    @Test func json_whenARowCanGo_isTheContractsObject() {
        let facts = SubscriptionFacts.make { $0.signedAt = at("2026-11-01T00:00:01Z") }
        let plan = Judge.make().one(.make(dependents: ["OTHER"]), facts)

        #expect(
            plan.json == """
                {"line":2,"original_transaction_id":"2000000000000001","sku":"ITEM","code":null,\
                "direction":"increase","currency":"USD","storefront":"USA","period":"P1M",\
                "current_price_milliunits":9990,"new_price_milliunits":12990,"seats":1,\
                "consent":"not_required","reasons":[],"not_known":[],"rules":[\
                {"rule":"always_consent_storefront","answer":false,"inputs":{"storefront":"USA",\
                "list_source":"inferred"}},\
                {"rule":"threshold","answer":false,"inputs":{"percent_over":false,\
                "amount_over":false,"increase_basis_points":3003,"increase_milliunits":3000,\
                "threshold_milliunits":5000,"threshold_kind":"nonannual","threshold_source":"apple"}},\
                {"rule":"increase_within_12_months","answer":false,"inputs":{\
                "last_increase_sku":null,"last_increase_at":null,"counts_until":null,\
                "known_since":"2026-01-01T00:00:00Z","known_from_start":true}},\
                {"rule":"korea_offer_conversion","answer":false,"inputs":{"storefront":"USA",\
                "offer_ends_at":null}}],"consent_turns_at":null,"consent_turns_to":null,\
                "judged_at":"2026-11-01T00:00:00Z",\
                "facts_at":"2026-11-01T00:00:01Z","known_since":"2026-01-01T00:00:00Z","stale":false,\
                "faults":[],"at_risk_milliunits":13980,"at_risk_elsewhere":[],\
                "renewal_at":"2026-12-01T00:00:00Z","notice_at":"2026-11-04T00:00:00Z",\
                "send_after":null,"send_by":"2026-11-04T00:00:00Z",\
                "effective_at":"2026-12-01T00:00:00Z","threshold_source":"apple",\
                "dependent_skus":["OTHER"],"expected_price_milliunits":null,\
                "effective_on_or_after":null,"message":null,"remedy":null}
                """)
    }

    @Test func json_whenTheFileSpoiledARow_holdsWhatIsKnown() {
        let plan = PlanRow(
            line: 3, sku: "A\"\\\n\u{1}é",
            fault: RowFault(.badTransactionID, "no digits", remedy: "mend it"))

        #expect(
            plan.json.hasPrefix(
                #"{"line":3,"original_transaction_id":"","sku":"A\"\\\n\u0001é","#
                    + #""code":"bad_transaction_id","direction":null,"#))
        #expect(plan.json.hasSuffix(#""message":"no digits","remedy":"mend it"}"#))
    }

    @Test func hash_whenOnlyTheClockMoved_isTheSame() {
        #expect(hash("2026-11-10T00:00:00Z") == hash("2026-11-10T00:00:01Z"))
        #expect(hash("2026-11-10T00:00:00Z").count == 64)
    }

    @Test func hash_whenAPriceARuleOrARenewalDiffers_differs() {
        var rules = RuleSet.shipped
        rules[.currency].removeLast()
        let hashes = [
            hash("2026-11-10T00:00:00Z"), hash("2026-11-10T00:00:00Z", newPrice: 13_000),
            hash("2026-11-10T00:00:00Z", rules: rules), hash("2026-12-10T00:00:00Z"),
        ]

        #expect(Set(hashes).count == 4)
    }

    private func hash(
        _ now: String, newPrice: Int64 = 12_990, rules: RuleSet = .shipped
    ) -> String {
        let judge = Judge.make(now: now, rules: rules)
        var hash = PlanHash(rules: rules.inForce(at: judge.now), environment: .production)
        hash.add(judge.one(.make(newPrice)))
        return hash.text
    }
}
