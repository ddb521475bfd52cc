import TestSupport
import Testing

@testable import SandboxStore

/// What subscribers and their banks do by themselves.
@Suite(.ownThread) struct SubscriberScenarioTests {
    private func story(
        _ plan: SubscriberPlan, until: String, change: Int64? = nil
    ) throws -> (lines: [String], last: StoreSubscription) {
        var subscription = Fixture.subscription()
        subscription.plan = plan
        var engine = Fixture.engine(subscription)
        if let change { _ = try engine.change("A", to: change) }
        let lines = engine.advance(to: Fixture.instant(until)).map(\.line)
        return (lines, engine.only)
    }

    private func trouble(grace: Bool, days: Int64?) -> SubscriberPlan {
        var plan = SubscriberPlan()
        plan.trouble = .init(
            from: Fixture.instant("2026-02-01"), hasGrace: grace,
            recoversAfter: days.map { $0 * Milliseconds.day })
        return plan
    }

    @Test func failedCharge_recoveredInGrace_keepsTheBillingDate() throws {
        let (lines, last) = try story(
            trouble(grace: true, days: 2), until: "2026-03-11", change: 12_990)

        #expect(
            Array(lines.dropFirst(2)) == [
                "DID_FAIL_TO_RENEW/GRACE_PERIOD 2026-02-10",
                "DID_RENEW/BILLING_RECOVERY 2026-02-12", "DID_RENEW 2026-03-10",
            ])
        #expect(last.items[0].price == 12_990)
    }

    @Test func failedCharge_recoveredInRetry_beginsANewPeriod() throws {
        let (lines, last) = try story(
            trouble(grace: false, days: 3), until: "2026-03-14", change: 12_990)

        #expect(
            Array(lines.dropFirst(2)) == [
                "DID_FAIL_TO_RENEW 2026-02-10", "DID_RENEW/BILLING_RECOVERY 2026-02-13",
                "DID_RENEW 2026-03-13",
            ])
        #expect(last.items[0].price == 12_990)
    }

    @Test func failedCharge_pastGrace_goesOnInRetryAndExpires() throws {
        let (lines, last) = try story(trouble(grace: true, days: nil), until: "2026-03-01")

        #expect(
            lines == [
                "DID_FAIL_TO_RENEW/GRACE_PERIOD 2026-02-10", "GRACE_PERIOD_EXPIRED 2026-02-16",
                "EXPIRED/BILLING_RETRY 2026-02-20",
            ])
        #expect(last.expirationIntent == 2)
    }

    @Test func lateRecovery_withAChangeStillOpen_movesItToTheNewRenewals() throws {
        var subscription = Fixture.subscription()
        subscription.plan = trouble(grace: false, days: 3)
        var engine = Fixture.engine(subscription)
        _ = engine.advance(to: Fixture.instant("2026-01-20"))
        _ = try engine.change("A", to: 12_990)

        let lines = engine.story(until: "2026-03-20")

        #expect(lines.contains("DID_RENEW 2026-03-13"))
        #expect(engine.only.items[0].price == 12_990)
    }

    @Test func cancellation_takenBack_renewsAsBefore() throws {
        var plan = SubscriberPlan()
        plan.cancelsAt = Fixture.instant("2026-01-15")
        plan.resumesAt = Fixture.instant("2026-01-16")

        let (lines, _) = try story(plan, until: "2026-02-11")

        #expect(
            lines == [
                "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED 2026-01-15",
                "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED 2026-01-16",
                "DID_RENEW 2026-02-10",
            ])
    }

    @Test func refund_endsTheSubscriptionAtOnce() throws {
        var plan = SubscriberPlan()
        plan.refundedAt = Fixture.instant("2026-01-15")

        let (lines, last) = try story(plan, until: "2026-04-01")

        #expect(lines == ["REFUND 2026-01-15"])
        #expect(last.status == .revoked)
        #expect(last.revokedAt == Fixture.instant("2026-01-15"))
    }

    @Test func revocation_endsTheSubscriptionAtOnce() throws {
        var plan = SubscriberPlan()
        plan.revokedAt = Fixture.instant("2026-01-15")

        let (lines, _) = try story(plan, until: "2026-04-01")

        #expect(lines == ["REVOKE 2026-01-15"])
    }

    @Test func monthEnd_renewals_returnToTheAnchorDay() throws {
        var engine = Fixture.engine(
            Fixture.subscription(purchased: "2025-12-31"), now: "2026-01-12")

        let lines = engine.story(until: "2026-04-01")

        #expect(
            lines == ["DID_RENEW 2026-01-31", "DID_RENEW 2026-02-28", "DID_RENEW 2026-03-31"])
    }

    @Test func testAccount_afterTwelveRenewals_expires() {
        var subscription = Fixture.subscription()
        subscription.expiresAt = subscription.purchasedAt + 300_000
        var options = StoreEngine.Options(
            seed: 1, calendar: BillingCalendar(shortMonth: 300_000))
        options.renewalsMax = 12
        var engine = StoreEngine(
            options: options, now: subscription.purchasedAt, subscriptions: [subscription])

        let events = engine.advance(to: subscription.purchasedAt + 300_000 * 20)

        #expect(events.count { $0.kind == .didRenew } == 12)
        #expect(events.last?.kind == .expired)
    }

    @Test func store_toldTheSameTwice_isTheSame() throws {
        func run() throws -> [StoreEvent] {
            let sample = SampleTests.make(count: 120)
            var engine = StoreEngine(
                options: SampleTests.options, now: SampleTests.start,
                subscriptions: sample.subscriptions)
            for (number, row) in sample.rows.enumerated() where row.code == nil {
                let request = try SampleTests.request(row, number)
                _ = try engine.changePrice(transaction: row.transaction, request: request)
            }
            return engine.advance(to: SampleTests.start + 60 * Milliseconds.day)
        }

        let (first, second) = (try run(), try run())

        #expect(first == second)
        #expect(first.count > 300)
    }

    @Test func steps_ofAnyLength_giveTheSameStory() throws {
        func run(step: Int64) throws -> [StoreEvent] {
            let sample = SampleTests.make(count: 120)
            var engine = StoreEngine(
                options: SampleTests.options, now: SampleTests.start,
                subscriptions: sample.subscriptions)
            var events: [StoreEvent] = []
            for turn in 1...(60 / step) {
                events += engine.advance(
                    to: SampleTests.start + turn * step * Milliseconds.day)
            }
            return events
        }

        #expect(try run(step: 1) == run(step: 60))
    }
}
