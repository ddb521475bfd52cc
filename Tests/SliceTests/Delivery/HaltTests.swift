import AppStore
import Batches
import Calls
import Facts
import Postgres
import PriceChanges
import Reports
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// What stops a batch or the service without a person: guard rails, and codes that are not about the change.
@Suite(.database) struct HaltTests {
    private typealias Harness = DeliveryHarness

    private static func watch(_ harness: Harness, _ metrics: Metrics = Metrics())
        -> BatchWatch
    {
        var limits = BatchWatch.Limits()
        limits.probes.spread = .zero
        return BatchWatch(
            pool: harness.service, clock: harness.clock, realClock: harness.realClock, log: .silent,
            metrics: metrics, limits: limits)
    }

    /// One row a subscription, 1 … count; returns the batch.
    private static func submit(
        _ harness: Harness, _ count: Int, _ guards: String
    ) async throws -> String {
        var rows: [BatchRow] = []
        for number in 1...count {
            try await harness.subscribe("\(number)")
            rows.append(Harness.row("\(number)", line: number + 1))
        }
        return try await harness.submitAndApprove(
            rows, terms: BatchTerms(guards: try GuardRail.list(guards)))
    }

    private static func text(_ harness: Harness, _ sql: String) async throws -> String? {
        try await harness.service.withConnection { connection in
            try await connection.query(SQL(unsafe: sql)).first?.textOrNil("text")
        }
    }

    private static let pause =
        "SELECT is_paused || ' ' || coalesce(halted_by, '-') || ' ' || coalesce(paused_reason, '-') AS text FROM repricer.batches"

    private static func set(
        _ harness: Harness, _ assignments: String, lines: ClosedRange<Int>
    )
        async throws
    {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "UPDATE repricer.price_changes SET \(assignments) WHERE line - 1 BETWEEN \(lines.lowerBound) AND \(lines.upperBound)"
        )
        await owner.close()
    }

    /// The clock of one machine is two hours ahead: when the guards are due again is said by the clock that all share.
    @Test func guards_areDueAgain_byTheSharedClock() async throws {
        let harness = try await Harness.make()
        _ = try await Self.submit(harness, 12, "errors>30%/10")
        try await Self.set(
            harness,
            "state = 'scheduled', scheduled_at = '2026-03-01Z', sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()",
            lines: 1...6)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            CREATE OR REPLACE FUNCTION repricer.rate_clock() RETURNS bigint LANGUAGE sql VOLATILE
            RETURN ((extract(epoch FROM clock_timestamp()) - 7200) * 1000000)::bigint
            """)
        await owner.close()

        try await BatchWatch(
            pool: harness.service, clock: harness.clock, log: .silent, metrics: Metrics()
        ).round()

        #expect(
            try await Self.text(
                harness,
                "SELECT (next_run_at < now() - interval '1 hour')::text AS text FROM repricer.service_leases WHERE name = 'guards'"
            ) == "true")
        await harness.close()
    }

    /// 4 of 10 were refused, 2 wait: beyond 30 % of at least 10.
    @Test func batch_whenTooManyAreRefused_isHaltedAndSaysWhy() async throws {
        let harness = try await Harness.make()
        let batchID = try await Self.submit(harness, 12, "errors>30%/10,declined>50%")
        let sent = "sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        try await Self.set(
            harness, "state = 'scheduled', scheduled_at = '2026-03-01Z', \(sent)", lines: 1...6)
        try await Self.set(
            harness, "state = 'rejected', ended_at = '2026-03-01Z', \(sent)", lines: 7...10)
        let metrics = Metrics()

        try await Self.watch(harness, metrics).round()
        try await harness.deliver(harness.scheduler())

        #expect(try await Self.text(harness, Self.pause) == "true errors errors>30%/10: 4 of 10")
        #expect(harness.store.calls.isEmpty)
        #expect(metrics.render().contains(#"repricer_batch_halts_total{by="errors"} 1"#))
        #expect(metrics.render().contains("repricer_batches_halted 1"))
        #expect(
            try await Self.text(
                harness,
                "SELECT object || ' ' || (details ->> 'reason') AS text FROM repricer.audit_trail WHERE action = 'halt'"
            ) == "batch:\(batchID) errors>30%/10: 4 of 10")
        await harness.close()
    }

    /// A person who decides on a batch, and does not commit, keeps it alone from being judged.
    @Test(arguments: [0, 1])
    func batch_thatSomebodyHolds_keepsNoOtherFromItsHalt(held: Int) async throws {
        let harness = try await Harness.make()
        var batches: [String] = []
        for rows in [1...12, 13...24] {
            batches.append(
                try await harness.submitRows(rows, guards: try GuardRail.list("errors>30%/10")))
        }
        let sent = "sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        try await Self.set(
            harness, "state = 'rejected', ended_at = '2026-03-01Z', \(sent)", lines: 1...11)
        try await Self.set(
            harness, "state = 'rejected', ended_at = '2026-03-01Z', \(sent)", lines: 13...23)
        let login = try await TestDatabase.login("impatient", memberOf: ["repricer_service"])
        let impatient = DatabasePool(
            conninfo: login + (login.contains("?") ? "&" : "?")
                + "options=-c%20lock_timeout%3D300ms", applicationName: "impatient", size: 2)
        let watch = BatchWatch(
            pool: impatient, clock: harness.clock, realClock: harness.realClock, log: .silent,
            metrics: Metrics())
        let person = try await TestDatabase.connect()
        try await person.script(
            "BEGIN; SELECT FROM repricer.batches WHERE batch_id = '\(batches[held])' FOR UPDATE")

        await #expect(throws: DatabaseServerError.self) { try await watch.round() }
        let meanwhile = try await harness.texts(Self.haltedBatches)
        try await person.script("ROLLBACK")
        harness.realClock.advance(by: .seconds(3600))
        try await watch.round()

        #expect(meanwhile == [batches[1 - held]])
        #expect(try await harness.texts(Self.haltedBatches) == batches.sorted())
        await person.close()
        await impatient.close()
        await harness.close(isTamperedWith: true)
    }

    private static let haltedBatches =
        "SELECT batch_id::text AS text FROM repricer.batches WHERE halted_by = 'errors' ORDER BY 1"

    @Test func batch_resumedByAPerson_isJudgedByWhatIsSentSince() async throws {
        let harness = try await Harness.make()
        let batchID = try await Self.submit(harness, 12, "errors>30%/3")
        let sent = "request_reference_id = gen_random_uuid()"
        try await Self.set(
            harness,
            "state = 'rejected', ended_at = '2026-03-01Z', sent_at = '2026-02-28Z', \(sent)",
            lines: 1...3)
        let watch = Self.watch(harness)
        try await watch.round()
        #expect(try await Self.text(harness, Self.pause)?.hasPrefix("true errors") == true)

        harness.realClock.advance(by: .seconds(60))
        try await harness.setPause(batchID, false)
        try await watch.round()
        #expect(try await Self.text(harness, Self.pause) == "false - -")
        try await Self.set(
            harness,
            "state = 'rejected', ended_at = '2026-03-02Z', sent_at = '2026-03-02Z', \(sent)",
            lines: 4...6)
        harness.realClock.advance(by: .seconds(60))
        try await watch.round()

        #expect(try await Self.text(harness, Self.pause)?.hasPrefix("true errors") == true)
        await harness.close()
    }

    /// One row waits, so that there is something to hold back.
    @Test(arguments: [
        (
            "declined>25%/4",
            "state = 'declined', consent_asked_at = '2026-03-01Z', ended_at = '2026-03-01Z'",
            "true declined declined>25%/4: 2 of 4"
        ),
        // The statement that they were asked was lost. Nobody declines unasked.
        (
            "declined>25%/4", "state = 'declined', ended_at = '2026-03-01Z'",
            "true declined declined>25%/4: 2 of 4"
        ),
        // Dependents of a decliner fall without being asked.
        (
            "declined>25%/4",
            "state = 'declined', reason = 'parent_declined', ended_at = '2026-03-01Z'", "false - -"
        ),
        (
            "auto_renew_off>25%/4",
            "state = 'cancelled', reason = 'left_voluntarily', consent_asked_at = '2026-03-01Z', ended_at = '2026-03-01Z'",
            "true auto_renew_off auto_renew_off>25%/4: 2 of 4"
        ),
        (
            "auto_renew_off>25%/4",
            "state = 'cancelled', reason = 'refunded_or_revoked', consent_asked_at = '2026-03-01Z', ended_at = '2026-03-01Z'",
            "true auto_renew_off auto_renew_off>25%/4: 2 of 4"
        ),
        // Who fell with a parent did not leave.
        (
            "auto_renew_off>25%/4",
            "state = 'cancelled', reason = 'parent_declined', consent_asked_at = '2026-03-01Z', ended_at = '2026-03-01Z'",
            "false - -"
        ),
    ])
    func guards_countCustomers_ofThoseWhoWereAskedOrTold(
        rails: String, bad: String, expected: String
    ) async throws {
        let harness = try await Harness.make()
        _ = try await Self.submit(harness, 7, rails)
        let sent = "sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        try await Self.set(harness, "\(bad), \(sent)", lines: 1...2)
        try await Self.set(
            harness, "state = 'pending_consent', consent_asked_at = '2026-03-01Z', \(sent)",
            lines: 3...4)
        try await Self.set(harness, "state = 'scheduled', \(sent)", lines: 5...6)

        try await Self.watch(harness).round()

        #expect(try await Self.text(harness, Self.pause) == expected)
        await harness.close()
    }

    /// One of five customers, each with two items: of ten changes that would be one fifth, too, and more than a quarter once
    /// two items count twice.
    @Test(arguments: [
        ("declined>25%/5", "state = 'declined', ended_at = '2026-03-01Z'"),
        (
            "auto_renew_off>25%/5",
            "state = CASE sku WHEN 'A' THEN 'cancelled' ELSE 'accepted' END, reason = 'item_refunded', "
                + "accepted_at = '2026-03-01Z', ended_at = CASE sku WHEN 'A' THEN timestamptz '2026-03-01Z' END"
        ),
    ])
    func guards_countACustomerOnce_howeverManyItemsTheBatchHas(
        rails: String, bad: String
    ) async throws {
        let harness = try await Harness.make()
        var rows: [BatchRow] = []
        for number in 1...6 {
            try await harness.subscribe("\(number)")
            for sku in ["A", "B"] {
                rows.append(Harness.row("\(number)", sku, line: rows.count + 2))
            }
        }
        let guards = try GuardRail.list(rails)
        let batchID = try await harness.submitAndApprove(rows, terms: BatchTerms(guards: guards))
        let asked =
            "consent_asked_at = '2026-03-01Z', sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        try await Self.set(harness, "state = 'pending_consent', \(asked)", lines: 3...10)
        try await Self.set(harness, "\(bad), \(asked)", lines: 1...2)
        // The one with an item that is left has turned the renewal off, too.
        try await harness.tell(Self.renewalOff("1", at: harness.now))

        try await Self.watch(harness).round()

        let counts = try await Self.reading(harness, batchID)?.counts.values.map {
            [$0.count, $0.all]
        }
        #expect(counts == [[1, 5]])
        #expect(try await Self.text(harness, Self.pause) == "false - -")
        await harness.close()
    }

    private static func renewalOff(_ id: String, at: Instant) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: at, evidenceID: "off"), source: .notification,
            originalTransactionID: id, type: "DID_CHANGE_RENEWAL_STATUS", status: 1,
            renewal: RenewalStatement(autoRenewStatus: 0))
    }

    @Test func autoRenewOff_ofACustomerWhoWasTold_counts() async throws {
        let harness = try await Harness.make()
        _ = try await Self.submit(harness, 3, "auto_renew_off>40%/2")
        try await Self.set(
            harness,
            "state = 'accepted', accepted_at = '2026-03-01Z', sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()",
            lines: 1...2)
        try await harness.tell(Self.renewalOff("1", at: harness.now))

        try await Self.watch(harness).round()

        #expect(
            try await Self.text(harness, Self.pause)
                == "true auto_renew_off auto_renew_off>40%/2: 1 of 2")
        await harness.close()
    }

    @Test func guards_onTwoReplicas_areJudgedByOneAtATime() async throws {
        let harness = try await Harness.make()
        _ = try await Self.submit(harness, 3, "errors>1%/1")
        try await Self.watch(harness).round()
        try await Self.set(
            harness,
            "state = 'rejected', ended_at = '2026-03-01Z', sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()",
            lines: 1...1)
        let other = Self.watch(harness)

        try await other.round()
        #expect(try await Self.text(harness, Self.pause) == "false - -")
        // A count that took long on a busy machine is followed by a longer pause.
        harness.realClock.advance(by: .seconds(600))
        try await other.round()

        #expect(try await Self.text(harness, Self.pause)?.hasPrefix("true errors") == true)
        await harness.close()
    }

    // MARK: What was counted

    private static func reading(_ harness: Harness, _ batchID: String) async throws
        -> GuardQueries.Reading?
    {
        try await harness.service.withTransaction { try GuardQueries.reading(of: batchID, on: $0) }
    }

    @Test func reading_isKeptAsJudged_andGoneWithTheResume() async throws {
        let harness = try await Harness.make()
        let batchID = try await Self.submit(harness, 6, "errors>30%/3,declined>5%")
        let sent =
            "state = 'rejected', ended_at = '2026-03-01Z', sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        let watch = Self.watch(harness)
        #expect(try await Self.reading(harness, batchID) == nil)

        try await Self.set(harness, sent, lines: 1...2)
        try await watch.round()
        let first = try await Self.reading(harness, batchID)
        try await Self.set(harness, sent, lines: 3...3)
        #expect(try await Self.reading(harness, batchID) == first, "not counted anew by who checks")
        // A count that took long on a busy machine is followed by a longer pause.
        harness.realClock.advance(by: .seconds(3600))
        harness.clock.advance(by: .seconds(3))
        try await watch.round()
        let second = try await Self.reading(harness, batchID)
        try await harness.setPause(batchID, false)

        #expect(
            first?.counts.mapValues { [$0.count, $0.all] } == [
                .errors: [2, 2], .declined: [0, 0],
            ])
        #expect(first?.at == Harness.start.milliseconds)
        #expect(second?.counts[.errors].map { [$0.count, $0.all] } == [3, 3])
        #expect(second.map { $0.at - Harness.start.milliseconds } == 3000)
        #expect(try await Self.text(harness, Self.pause) == "false - -")
        #expect(try await Self.reading(harness, batchID) == nil)
        await harness.close()
    }

    /// What the last calls brought is counted soon, and the figures that led to a halt stand beside it.
    @Test func reading_afterTheLastCall_andAfterAHalt_isOfAllAnswers() async throws {
        let harness = try await Harness.make()
        let sent = try await Self.submit(harness, 2, "errors>50%/50")
        let watch = Self.watch(harness)
        func reading(_ batchID: String) async throws -> [Int64]? {
            harness.realClock.advance(by: .seconds(3))
            try await watch.round()
            return try await Self.reading(harness, batchID)?.counts[.errors].map {
                [$0.count, $0.all]
            }
        }
        let done = "sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        #expect(try await reading(sent) == [0, 0])

        try await Self.set(harness, "state = 'scheduled', \(done)", lines: 1...1)
        try await Self.set(harness, "state = 'sending', \(done)", lines: 2...2)
        #expect(try await reading(sent) == [0, 1])
        try await Self.set(harness, "state = 'scheduled', \(done)", lines: 2...2)
        #expect(try await reading(sent) == [0, 2])

        let halted = try await harness.submitRows(
            11...30, guards: try GuardRail.list("errors>30%/3"))
        #expect(try await reading(halted) == [0, 0])
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        try await harness.deliver(harness.scheduler())
        #expect(try await harness.texts(Self.haltedBatches) == [halted])
        #expect(try #require(try await reading(halted)).first != 0)
        await harness.close()
    }

    /// Nothing is left to hold back: it is counted every five minutes until all have ended, and once more then.
    @Test func reading_ofABatchThatIsAllSent_goesOnUntilAllHaveEnded() async throws {
        let harness = try await Harness.make()
        let batchID = try await Self.submit(harness, 2, "declined>5%/1")
        let watch = Self.watch(harness)
        let sent = "sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        func declinedAfter(_ seconds: Int64) async throws -> [Int64]? {
            harness.realClock.advance(by: .seconds(seconds))
            try await watch.round()
            return try await Self.reading(harness, batchID)?.counts[.declined].map {
                [$0.count, $0.all]
            }
        }
        try await Self.set(
            harness, "state = 'pending_consent', consent_asked_at = '2026-03-01Z', \(sent)",
            lines: 1...2)

        #expect(try await declinedAfter(3) == [0, 2])
        try await Self.set(
            harness, "state = 'declined', ended_at = '2026-03-02Z', \(sent)", lines: 1...2)
        #expect(try await declinedAfter(3) == [0, 2])
        #expect(try await declinedAfter(301) == [2, 2])
        #expect(
            try await Self.text(
                harness, "SELECT guard_reading ->> 'is_last' AS text FROM repricer.batches")
                == "true")
        #expect(try await Self.text(harness, Self.pause) == "false - -")
        await harness.close()
    }

    // MARK: Codes

    private static let halted =
        "SELECT string_agg(h.key || ' ' || (h.value ->> 'by'), ',' ORDER BY h.key) AS text"
        + " FROM repricer.batches, jsonb_each(halted_storefronts) h"
    private static let held =
        "SELECT string_agg(line::text, ',' ORDER BY line) AS text FROM repricer.price_changes WHERE is_held"

    /// Lines 2 to 7 of Canada, where the product has no price; line 8 of the USA.
    private static func unpriced(_ harness: Harness) async throws -> String {
        let ids = (1...7).map(String.init)
        for id in ids.dropLast() { try await harness.subscribe(id, storefront: "CAN") }
        try await harness.subscribe("7")
        harness.store.setUnpriced(["CAN"])
        return try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($1, line: $0 + 2) })
    }

    @Test func code_ofOneStorefront_haltsThatStorefrontUntilAPersonResumes() async throws {
        let harness = try await Harness.make()
        let batchID = try await Self.unpriced(harness)
        let scheduler = harness.scheduler()
        let metrics = Metrics()

        try await harness.deliver(scheduler)
        let refused = harness.store.calls.count { $0.storefront == "CAN" }
        try await Self.watch(harness, metrics).round()
        try await harness.deliver(scheduler)

        #expect(try await harness.changes().last == "A scheduled")
        #expect(try await harness.changes().dropLast().allSatisfy { $0.hasPrefix("A queued") })
        #expect(try await Self.text(harness, Self.pause) == "false - -")
        #expect(try await Self.text(harness, Self.halted) == "CAN 4000134")
        #expect(try await Self.text(harness, Self.held) == "2,3,4,5,6,7")
        #expect(harness.store.calls.count { $0.storefront == "CAN" } == refused)
        #expect(metrics.render().contains("repricer_storefronts_halted 1"))
        #expect(
            try await Self.text(
                harness,
                "SELECT object || ' ' || (details ->> 'storefront') AS text FROM repricer.audit_trail WHERE action = 'halt'"
            ) == "batch:\(batchID) CAN")

        harness.store.setUnpriced([])
        try await harness.setPause(batchID, false)
        try await harness.deliver(scheduler)

        #expect(try await Self.text(harness, Self.halted) == nil)
        #expect(try await Self.text(harness, Self.held) == nil)
        // Those that were parked before the storefront was halted wait a little longer.
        harness.realClock.advance(by: .seconds(150))
        harness.clock.advance(by: .seconds(150))
        try await harness.deliver(scheduler)
        #expect(try await harness.changes() == Array(repeating: "A scheduled", count: 7))
        await harness.close()
    }

    /// Before the watch has taken them out of the queues the claim passes them over.
    @Test func haltedStorefront_beforeItsRowsAreParked_isNotClaimed() async throws {
        let harness = try await Harness.make()
        _ = try await Self.unpriced(harness)
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        let before = harness.store.calls.count
        harness.store.setUnpriced([])
        try await harness.deliver(scheduler)

        #expect(harness.store.calls.count == before)
        #expect(try await Self.text(harness, Self.held) == nil)
        await harness.close()
    }

    @Test func haltedStorefront_whenTheBatchIsAborted_isWithdrawnWithIt() async throws {
        let harness = try await Harness.make()
        let batchID = try await Self.unpriced(harness)
        try await harness.deliver(harness.scheduler())
        try await Self.watch(harness).round()

        try await harness.abort(batchID)

        #expect(
            try await harness.changes()
                == Array(repeating: "A aborted aborted", count: 6) + ["A scheduled"])
        await harness.close()
    }

    @Test func refusedKey_haltsTheServiceUntilACallIsAnswered() async throws {
        let refusal = ScriptedStore.Reply.refused(.haltService, code: 4_010_000)
        let harness = try await Harness.make(Array(repeating: refusal, count: 6))
        let ids = (1...6).map(String.init)
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($1, line: $0 + 2) })
        let scheduler = harness.scheduler()
        let halted =
            "SELECT halted_reason AS text FROM repricer.service_controls"

        try await harness.deliver(scheduler)
        #expect(try await Self.text(harness, halted)?.hasPrefix("4010000 code_4010000: ") == true)
        let before = harness.store.calls.count
        try await harness.deliver(scheduler)
        #expect(harness.store.calls.count == before)

        for _ in 0..<20 {
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
            try await harness.deliver(scheduler)
        }

        #expect(try await Self.text(harness, halted) == nil)
        #expect(try await harness.changes() == Array(repeating: "A scheduled", count: 6))
        let actions = try await harness.service.withConnection { connection in
            try await connection.query(
                "SELECT action FROM repricer.audit_trail WHERE object = 'everything' ORDER BY sequence"
            ).map { try $0.text("action") }
        }
        #expect(actions == ["halt", "recover"])
        await harness.close()
    }

    /// An answered status proves that our key is good. It says nothing of what stands between us and the price changes.
    @Test(arguments: [(4_010_000, false), (401, false), (403, true), (404, true)])
    func halt_ofPriceChanges_isEndedByAnAnsweredStatus_onlyWhereItIsAboutOurKey(
        code: Int, isStillHalted: Bool
    ) async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...12)
        harness.store.setAnswers([], nil, all: .refused(.haltService, code: code))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        let engine = harness.engine()
        let controls = try await engine.controls()
        #expect(controls.haltedReason?.hasPrefix("\(code) ") == true)

        try await engine.heed(
            .answered([], StoreReply(httpStatus: 200)), of: "77", for: .cancel,
            .statuses(engine, perSecond: 50, wait: { _ in }), controls)

        #expect(try await engine.controls().isHalted == isStillHalted)
        harness.store.setAnswers([], nil)
        for _ in 0..<14 {
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
            try await harness.deliver(scheduler)
        }
        #expect(try await engine.controls().isHalted == false)
        #expect(harness.store.applied.count == 12)
        await harness.close()
    }

    /// Each probe without an answer leaves a call whose outcome nobody knows.
    @Test func probesOfAHaltedService_withoutAnAnswer_areAMinuteApart() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...20)
        harness.store.setAnswers([], nil, all: .refused(.haltService, code: 4_010_000))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        harness.store.setAnswers([], nil, all: .unavailable)
        let before = harness.store.calls.count

        harness.clock.advance(by: .seconds(61))
        harness.realClock.advance(by: .seconds(61))
        for _ in 0..<5 { try await harness.deliver(scheduler) }
        let atOnce = harness.store.calls.count - before
        harness.store.setAnswers([], nil)
        for _ in 0..<25 {
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
            try await harness.deliver(scheduler)
        }

        #expect(atOnce == 1)
        #expect(try await harness.changes() == Array(repeating: "A scheduled", count: 20))
        await harness.close()
    }

    @Test(arguments: [50, nil])
    func refusedKey_howeverFastCallsMayGo_isProbedByOneCall(perSecond: Double?) async throws {
        let refusal = ScriptedStore.Reply.refused(.haltService, code: 4_010_000)
        let harness = try await Harness.make(Array(repeating: refusal, count: 100))
        let ids = try await harness.idsOfOneBucket(12)
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($1, line: $0 + 2) })
        try await harness.deliver(harness.scheduler())
        harness.clock.advance(by: .seconds(61))
        harness.realClock.advance(by: .seconds(61))

        let store = SilentStore(to: Set(ids), others: harness.store)
        let scheduler = harness.scheduler(calls: store, perSecond: perSecond)
        let round = Task { try await scheduler.round() }
        while store.asked == 0 { await Task.yield() }
        let out = try await Self.text(
            harness,
            "SELECT count(*)::text AS text FROM repricer.store_calls WHERE state = 'sending'"
        )
        store.answer()
        _ = try await round.value

        #expect(out == "1")
        #expect(store.asked == 1)
        await harness.close()
    }

    @Test func pause_ofEverything_isAskedByTheClaimItself() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.setPause(nil, true)
        let realNow = harness.realClock.nowMilliseconds()

        let (due, locked) = try await harness.service.withTransaction { connection in
            let due = try connection.ask(DueQueries.earliest(realNow: realNow))
            let locked = try connection.ask(
                DueQueries.locking(due, until: nil, limit: 25, realNow: realNow)
            ).ids
            return (due, locked)
        }

        #expect(due.count == 1)
        #expect(locked.isEmpty)
        await harness.close()
    }
}
