import Foundation
import TestSupport
import Testing

@testable import RepricerCommands
@testable import SandboxStore

/// What goes on around a price change, told month by month, through the real programs: the simulated App Store with
/// months of seconds, `repricer serve`, and people at the command line. The store begins with everybody just
/// renewed; the first renewal after a call keeps the price and then the subscriber is told, the second one charges.
@Suite(.database) struct AroundProcessTests {
    private func states(_ harness: ProcessHarness) async throws -> [String] {
        try await harness.lines(
            """
            SELECT right(original_transaction_id, 5) || ' ' || sku || ' ' || state
                || coalesce(' ' || reason, '') AS line
            FROM repricer.price_changes ORDER BY original_transaction_id, sku
            """)
    }

    /// What can't be extended is asked of nobody.
    private func expectRefusals(_ harness: ProcessHarness) async throws {
        let tooFar = try await harness.command(
            "extend", "one", ProcessHarness.id(1), "--days", "91", "--reason", "outage", as: "ana",
            exits: .inputRejected)
        let unknown = try await harness.command(
            "extend", "one", "2000000009990000", "--days", "9", "--reason", "outage", as: "ana",
            exits: .inputRejected)
        #expect(tooFar.messages.contains("bad_days"))
        #expect(unknown.messages.contains("unknown_subscription"))
        #expect(try await harness.calls("extend") == [])
    }

    /// Six customers, who never answer unless said otherwise: 1: B of the same subscription falls with A. 2: consents
    /// late, so B stays. 3: B rises by itself, which is announced only, and falls with A all the same. 4 and 5: C is
    /// alone on the second subscription, found by its name: one call. 6 and 7: another item renews beside D, so a
    /// person decides. 8: turned the renewal off when asked.
    @Test func dependents_ofThoseWhoDecline_fallOnceAndNobodyElses() async throws {
        try await ProcessHarness.tell(months: [9, 18, 36]) { month in
            let ids = (0...8).map(ProcessHarness.id)
            let harness = try await ProcessHarness.open(
                .init(
                    month: month,
                    subscriptions: [
                        .init(ids[1], ["A", "B"], customer: 1),
                        .init(ids[2], ["A", "B"], customer: 2, answer: .consentsLate),
                        .init(ids[3], ["A", "B", "E"], customer: 3),
                        .init(ids[4], ["A", "B"], customer: 4),
                        .init(ids[5], ["C"], .year, customer: 4),
                        .init(ids[6], ["A", "B"], customer: 6),
                        .init(ids[7], ["D", "X"], .year, customer: 6),
                        .init(ids[8], ["A", "B"], customer: 8, answer: .cancels),
                    ]))
            defer { harness.close() }

            try await harness.raise([
                "\(ids[1]),A,19.99,USD,B", "\(ids[2]),A,19.99,USD,B", "\(ids[3]),A,19.99,USD,B",
                "\(ids[3]),B,5.49,USD,", "\(ids[4]),A,19.99,USD,C",
                "\(ids[6]),A,19.99,USD,\(ids[7])/D", "\(ids[8]),A,19.99,USD,B",
            ])
            // All calls leave in one month.
            guard try await harness.month(when: 7, are: "SCHEDULED") != nil else { return false }
            try await harness.until(
                "SELECT count(*) = 7 AS done FROM repricer.price_changes WHERE ended_at IS NOT NULL"
            )
            try await harness.until(
                """
                SELECT count(*) = 5 AND bool_and(state NOT IN ('requested', 'cancel_sent')) AS done
                FROM repricer.dependent_cancellations
                """)

            let ended = try await states(harness)
            #expect(
                ended.map { $0.split(separator: " ").prefix(3).joined(separator: " ") } == [
                    "10000 A declined", "20000 A effective", "30000 A declined", "30000 B declined",
                    "40000 A declined", "60000 A declined", "80000 A cancelled",
                ])
            #expect(
                try await harness.lines(
                    """
                    SELECT right(original_transaction_id, 5) || ' ' || dependent_sku || ' ' || state AS line
                    FROM repricer.dependent_cancellations ORDER BY original_transaction_id
                    """) == [
                        "10000 B confirmed", "30000 B confirmed", "40000 C confirmed",
                        "60000 \(ids[7])/D discrepancy", "80000 B confirmed",
                    ])
            #expect(try await harness.calls("cancel") == [200])
            #expect(try await harness.number("cancelledTwice") == 0)
            return true
        }
    }

    /// Twelve subscribers are asked at their first renewal; then each one's app, or our server, does something. 9 can't
    /// be migrated any more, 11 declines and then adds another item, 12 consents before the rename.
    @Test func interactions_whileConsentIsAwaited_moveOurChanges() async throws {
        try await ProcessHarness.tell(months: [9, 18, 36]) { month in
            let ids = (0...12).map(ProcessHarness.id)
            let harness = try await ProcessHarness.open(
                .init(
                    month: month,
                    subscriptions: (1...12).map {
                        .init(ids[$0], ["A", "B"], customer: $0)
                    }))
            defer { harness.close() }
            try await harness.raise((1...12).map { "\(ids[$0]),A,19.99,USD," })
            // What the store says: our own fold follows, in whatever order.
            guard let asked = try await harness.month(when: 12, are: "PENDING") else {
                return false
            }

            func items(_ fields: String) -> String {
                ",\"items\":[{\"currentSKU\":\"A\",\(fields)}]"
            }
            try await harness.act(ids[1], "turn_off")
            try await harness.act(ids[1], "reactivate", ",\"items\":[\"A\",\"B\"]")
            try await harness.act(
                ids[2], "modify", items("\"SKU\":\"PREMIUM\",\"price\":29990"))
            try await harness.act(
                ids[3], "modify",
                ",\"retainBillingCycle\":false" + items("\"SKU\":\"A\",\"price\":19990"))
            try await harness.act(ids[4], "modify", ",\"retainBillingCycle\":false")
            try await harness.act(ids[5], "rename", ",\"currentSKU\":\"A\",\"SKU\":\"A2\"")
            try await harness.act(
                ids[6], "modify",
                items("\"SKU\":\"A\",\"price\":19990,\"offer\":{\"price\":990,\"periodCount\":9}"))
            try await harness.act(ids[7], "refund")
            try await harness.act(
                ids[8], "modify", items("\"SKU\":\"A\",\"price\":19990"))
            try await harness.act(ids[9], "migrate", answers: 403)
            try await harness.act(
                ids[10], "modify",
                ",\"retainBillingCycle\":false" + items("\"SKU\":\"PREMIUM\",\"price\":29990"))
            try await harness.act(ids[11], "modify", ",\"removeItems\":[\"A\"]")
            try await harness.act(ids[11], "modify", ",\"items\":[{\"SKU\":\"C\",\"price\":990}]")
            try await harness.act(ids[12], "consent")
            try await harness.act(ids[12], "rename", ",\"currentSKU\":\"A\",\"SKU\":\"A2\"")
            guard try await harness.month() == asked else { return false }
            #expect(harness.unexpectedAnswers == [])
            try await harness.until(
                """
                SELECT count(*) = 12 AS done FROM repricer.price_changes
                WHERE ended_at IS NOT NULL OR reason = 'postponed_by_offer'
                """)

            #expect(
                try await states(harness) == [
                    "10000 A effective", "20000 A invalidated item_replaced", "30000 A effective",
                    "40000 A invalidated cycle_reset", "50000 A declined item_missing_at_renewal",
                    "60000 A scheduled postponed_by_offer", "70000 A cancelled refunded_or_revoked",
                    "80000 A effective", "90000 A declined item_missing_at_renewal",
                    "00000 A invalidated item_replaced", "10000 A declined item_missing_at_renewal",
                    "20000 A effective",
                ])
            #expect(
                try await harness.lines(
                    "SELECT current_sku AS line FROM repricer.price_changes WHERE current_sku <> sku"
                )
                    == ["A2", "A2"])
            return true
        }
    }

    /// Only B's return was agreed to: A is not raised, and drops.
    @Test func reactivation_withoutTheItem_isNoConsent() async throws {
        try await ProcessHarness.tell(months: [5, 10, 20]) { month in
            let harness = try await ProcessHarness.open(
                .init(month: month, subscriptions: [.init(ProcessHarness.id(1), ["A", "B"])]))
            defer { harness.close() }
            try await harness.raise(["\(ProcessHarness.id(1)),A,19.99,USD,"])
            guard let asked = try await harness.month(when: 1, are: "PENDING") else { return false }

            try await harness.act(ProcessHarness.id(1), "turn_off")
            try await harness.act(ProcessHarness.id(1), "reactivate", ",\"items\":[\"B\"]")
            guard try await harness.month() == asked else { return false }
            #expect(harness.unexpectedAnswers == [])
            try await harness.until(
                "SELECT ended_at IS NOT NULL AS done FROM repricer.price_changes")

            #expect(try await states(harness) == ["10000 A declined item_missing_at_renewal"])
            return true
        }
    }

    /// Nine subscribers' apps, or our server, do something before anybody is asked, which is at the first renewal: 1 is
    /// reactivated, 2 gets another item, 3 and 4 replace A, 5 and 6 begin a new cycle, 7 is renamed, 8 gets an offer,
    /// 9 is migrated.
    @Test func interactions_beforeAnybodyIsAsked_moveOurChanges() async throws {
        try await ProcessHarness.tell(months: [12, 24, 48]) { month in
            let ids = (0...9).map(ProcessHarness.id)
            let harness = try await ProcessHarness.open(
                .init(
                    month: month,
                    subscriptions: (1...9).map {
                        .init(ids[$0], ["A", "B"], customer: $0)
                    }))
            defer { harness.close() }
            try await harness.raise((1...9).map { "\(ids[$0]),A,19.99,USD," })
            // All calls are taken, and nobody is asked.
            guard let taken = try await harness.month(when: 9, are: "SCHEDULED") else {
                return false
            }

            func items(_ fields: String) -> String { ",\"items\":[{\(fields)}]" }
            let reset = ",\"retainBillingCycle\":false"
            let premium = items("\"currentSKU\":\"A\",\"SKU\":\"PREMIUM\",\"price\":29990")
            let higher = "\"currentSKU\":\"A\",\"SKU\":\"A\",\"price\":19990"
            try await harness.act(ids[1], "turn_off")
            try await harness.act(ids[1], "reactivate")
            try await harness.act(ids[2], "modify", items("\"SKU\":\"C\",\"price\":990"))
            try await harness.act(ids[3], "modify", premium)
            try await harness.act(ids[4], "modify", reset + premium)
            try await harness.act(ids[5], "modify", reset)
            try await harness.act(ids[6], "modify", reset + items(higher))
            try await harness.act(ids[7], "rename", ",\"currentSKU\":\"A\",\"SKU\":\"A2\"")
            try await harness.act(
                ids[8], "modify", items(higher + ",\"offer\":{\"price\":990,\"periodCount\":9}"))
            try await harness.act(ids[9], "migrate")
            guard try await harness.month() == taken else { return false }
            #expect(harness.unexpectedAnswers == [])
            try await harness.until(
                """
                SELECT count(*) FILTER (WHERE state = 'pending_consent') = 4
                    AND count(*) FILTER (WHERE state = 'invalidated') = 4
                    AND bool_or(reason = 'postponed_by_offer') AS done
                FROM repricer.price_changes
                """)

            #expect(
                try await states(harness) == [
                    "10000 A pending_consent", "20000 A pending_consent",
                    "30000 A invalidated item_replaced", "40000 A invalidated item_replaced",
                    "50000 A invalidated cycle_reset", "60000 A invalidated cycle_reset",
                    "70000 A pending_consent", "80000 A scheduled postponed_by_offer",
                    "90000 A pending_consent",
                ])
            #expect(
                try await harness.lines(
                    """
                    SELECT current_sku AS line FROM repricer.price_changes WHERE current_sku <> sku
                    ORDER BY original_transaction_id
                    """) == ["A2", "A_ACA"])
            return true
        }
    }

    /// The first subscription is extended by itself, and its open increase moves along; then all are, of whom some
    /// fail; the failed ones anew. A stranger's mass extension is told too, and is none of ours.
    @Test func extensions_ofOneOfAllAndOfTheFailed_areProvedByWhatIsTold() async throws {
        let ids = (0...9).map(ProcessHarness.id)
        let product = "com.example.stream.subscription"
        let request = "019a0000-0000-7000-8000-000000000001"
        let harness = try await ProcessHarness.open(
            .init(
                subscriptions: (1...9).map {
                    .init(ids[$0], ["A", "B"], .year, customer: $0)
                }, massFailurePercent: 40))
        defer { harness.close() }
        try await harness.raise(["\(ids[1]),A,5.49,USD,"])
        try await harness.until(
            "SELECT state = 'scheduled' AS done FROM repricer.price_changes")
        let due = "SELECT due_effective_at::text AS line FROM repricer.price_changes"
        let before = try await harness.lines(due)

        try await expectRefusals(harness)
        try await harness.command(
            "extend", "one", ids[1], "--days", "30", "--reason", "outage", as: "ana")
        try await harness.until(
            "SELECT check_result = 'clean' AS done FROM report.renewal_extension WHERE kind = 'one'"
        )
        try await harness.until(
            "SELECT due_effective_at > '\(try #require(before.first))' AS done FROM repricer.price_changes"
        )

        // The first notification comes when the summary was told already.
        try await harness.order(fault: "delay", on: "notifications", seconds: 3)
        try await harness.command(
            "extend", "all", "--product", product, "--days", "10", "--reason", "outage",
            "--request-id", request, as: "ana")
        try await harness.command(
            "approve", request, "--yes", as: "ana", exits: .approvalNeededOrRefused)
        #expect(try await harness.calls("extendAll") == [])
        try await harness.command("approve", request, "--yes", as: "ben")
        try await harness.until(
            """
            SELECT check_result = 'clean' AND extended + failed = 9 AND apple_extended = extended
                AND failed BETWEEN 1 AND 8 AS done
            FROM report.renewal_extension WHERE kind = 'all'
            """)

        try await harness.command("extend", "retry-failed", request, as: "ana")
        try await harness.until(
            """
            SELECT retried = failed AND retried_extended = failed AS done
            FROM report.renewal_extension WHERE kind = 'all'
            """)
        #expect(Set(try await harness.calls("extend")) == [200])
        #expect(try await harness.references("extendAll") == [request])

        try await harness.callAsAnother(
            "/inApps/v1/subscriptions/extend/mass",
            "{\"extendByDays\":1,\"extendReasonCode\":0,\"requestIdentifier\":\"theirs\",\"productId\":\"\(product)\"}"
        )
        try await harness.until(
            "SELECT count(*) = 1 AS done FROM report.renewal_extension WHERE kind = 'foreign'")
        try await harness.until(
            """
            SELECT count(*) = 2 AND bool_and(check_result = 'clean') AS done
            FROM report.renewal_extension WHERE kind IN ('one', 'all')
            """)
    }
}
