import Batches
import Facts
import Foundation
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

@testable import SandboxStore

/// Customers who do what no price change expects: refunds in part and whole, reversals, downgrades taken back, leaving
/// and buying again, moves, prices that another system sets. The simulated App Store keeps its own book of what it
/// charged; ours has to say the same, and every charge has to be explained or named.
@Suite(.database) struct AdversarialLivesTests {
    private static let days: Int64 = 130
    /// `REPRICER_LIVES=200` lives through so many seeds.
    private static let seeds =
        1...(ProcessInfo.processInfo.environment["REPRICER_LIVES"].flatMap(UInt64.init) ?? 3)

    /// Half of them get an increase, large or small, and a quarter a decrease.
    private static func subscriptions(_ seed: UInt64, count: Int64) -> [StoreSubscription] {
        (0..<count).map { number in
            var life = Rehearsal.subscription(
                number, items: ["A": 9990, "B": 4990], boughtBefore: 3 + number % 25)
            var random = SeededRandom(seed: seed, "life", life.id)
            life.plan.answer =
                [.consentsEarly, .consentsLate, .ignores, .consentsToSome, .cancels]
                .randomElement(using: &random) ?? .consentsEarly
            if random.chance(30) {
                life.plan.trouble = .init(
                    from: Rehearsal.start.milliseconds + random.pick(0...90) * Rehearsal.day,
                    hasGrace: random.chance(50),
                    recoversAfter: random.chance(60) ? random.pick(1...12) * Rehearsal.day : nil)
            }
            life.plan.doings = Doing.adversarial(
                of: life.id, seed: seed, from: Rehearsal.start.milliseconds + Rehearsal.day,
                until: Rehearsal.start.milliseconds + days * Rehearsal.day, hasSeats: true)
            if random.chance(30) { life.seatCount = Int(random.pick(2...3)) }
            return life
        }
    }

    @Test(arguments: seeds)
    func everyCharge_isInTheLedgerAsTheStoreMadeIt_andExplainedOrNamed(seed: UInt64) async throws {
        let count: Int64 = 24
        let rehearsal = try await Rehearsal.open(all: Self.subscriptions(seed, count: count))
        let rows = (0..<count).map { number -> BatchRow in
            let price: Int64 = [12990, 15990, 15990, 7990][Int(number % 4)]
            return Rehearsal.row("A", to: price, line: Int(number) + 2, number: number)
        }
        try await rehearsal.submit(all: rows)

        try await rehearsal.live(Self.days)

        let told = LivesEvidence(seed: seed, rehearsal)
        try await told.expectTheBook()
        try await told.expectEveryChargeExplained()
        try await told.expectEndsToFollowTheMoney()
        try await told.expectTheOraclesFigures()
        if seed == 1 { try await told.expectPlantedFaultsToBeFound() }
        await rehearsal.close()
    }
}

/// What the store did, beside what the database says.
struct LivesEvidence {
    let seed: UInt64
    let rehearsal: Rehearsal

    init(seed: UInt64, _ rehearsal: Rehearsal) {
        self.seed = seed
        self.rehearsal = rehearsal
    }

    func book() async -> [MoneyOracle.Charge] {
        await rehearsal.store.keeper.engine.subscriptions.values.sorted {
            $0.originalTransactionID < $1.originalTransactionID
        }.flatMap { life in
            let past = (life.past ?? []).map { life.originalTransactionID + Int64($0.number) }
            return (past + [life.transactionID]).compactMap { life.asOf(transaction: $0) }
                .flatMap { period in
                    period.items.map { item in
                        MoneyOracle.Charge(
                            id: life.id, transaction: String(period.transactionID), sku: item.sku,
                            price: item.chargedPrice, seats: Int64(period.seats),
                            isAddedSeat: period.isAddedSeat == true, currency: period.currency,
                            isOffer: item.offer != nil,
                            refunded: item.refund?.amount
                                ?? (period.revokedAt == nil
                                    ? 0 : item.chargedPrice * Int64(period.seats)),
                            refundedAt: item.refund?.at ?? period.revokedAt,
                            from: period.purchasedAt,
                            // It may be revoked with no more given back than a seat was before.
                            until: min(period.expiresAt, period.revokedAt ?? period.expiresAt))
                    }
                }
        }
    }

    func query(_ sql: SQL) async throws -> [String] {
        let owner = try await TestDatabase.connect()
        let rows = try await owner.query(sql).map { try $0.text("line") }
        await owner.close()
        return rows
    }

    func expectTheBook() async throws {
        let ours = try await query(
            """
            SELECT concat_ws(' ', transaction_id, sku, currency,
                sum(amount_milliunits) FILTER (WHERE kind = 'charge'),
                coalesce(-sum(amount_milliunits) FILTER (WHERE kind <> 'charge'), 0)) AS line
            FROM report.money GROUP BY transaction_id, sku, currency
            """)
        let theirs = await book().map {
            "\($0.transaction) \($0.sku) \($0.currency) \($0.total) \($0.refunded)"
        }
        let (missing, added) = (
            Set(theirs).subtracting(ours).sorted(), Set(ours).subtracting(theirs).sorted()
        )
        #expect(missing == [], "seed \(seed): in the store's book and not in the ledger")
        #expect(added == [], "seed \(seed): in the ledger and not in the store's book")
        #expect(theirs.count > 80)
    }

    /// Each charge since a call has an explanation or an exception, never both, and never none.
    func expectEveryChargeExplained() async throws {
        let bare = try await query(
            """
            SELECT concat_ws(' ', m.original_transaction_id, m.transaction_id, m.sku, m.amount_milliunits, c.state,
                c.reason, m.explained_as, x.exception) AS line
            FROM report.money m
            JOIN repricer.price_changes c ON c.original_transaction_id = m.original_transaction_id
                AND (c.sku = m.sku OR c.current_sku = m.sku) AND c.sent_at <= m.occurred_at
            LEFT JOIN report.charge_exception x ON x.transaction_id = m.transaction_id AND x.sku = m.sku
            WHERE m.kind = 'charge' AND (m.explained_as IS NULL) = (x.exception IS NULL)
            ORDER BY 1
            """)
        #expect(bare == [], "seed \(seed): a charge with no explanation, or with two")
        let missing = try await query(
            """
            SELECT concat_ws(' ', original_transaction_id, sku, exception, occurred_at, amount_milliunits,
                expected_milliunits) AS line
            FROM report.charge_exception WHERE exception IN ('missing', 'double', 'wrong_currency')
            ORDER BY 1
            """)
        #expect(missing == [], "seed \(seed): nothing of the kind was charged")
        // A charge at the new price, renewed, since the change took effect in the store, is the change's or is named.
        let unclaimed = try await query(
            """
            SELECT concat_ws(' ', m.original_transaction_id, m.transaction_id, c.state, c.reason, m.explained_as) AS line
            FROM report.money m
            JOIN repricer.price_changes c ON c.original_transaction_id = m.original_transaction_id
                AND c.sku = m.sku AND c.sent_at <= m.occurred_at
                AND c.new_price_milliunits = m.amount_milliunits AND c.currency = m.currency
            WHERE m.kind = 'charge' AND NOT (c.state = 'effective' AND m.explained_as = 'new_price')
                AND NOT EXISTS (SELECT FROM report.charge_exception x
                    WHERE x.transaction_id = m.transaction_id AND x.sku = m.sku)
            ORDER BY 1
            """)
        #expect(unclaimed == [], "seed \(seed): charged at the new price, and no change claims it")
    }

    /// What the store has forgotten is open nowhere.
    func expectEndsToFollowTheMoney() async throws {
        let open = try await query(
            """
            SELECT concat_ws(' ', original_transaction_id, sku) AS line FROM repricer.price_changes
            WHERE stage IN ('queued', 'unknown', 'scheduled', 'pending_consent', 'accepted') ORDER BY 1
            """)
        let subscriptions = await rehearsal.store.keeper.engine.subscriptions
        let forgotten = open.filter { line in
            let parts = line.split(separator: " ").map(String.init)
            guard let id = parts.first.flatMap({ Int64($0) }), let life = subscriptions[id] else {
                return true
            }
            let item = life.items.first { $0.sku == parts.last }
            return !life.isBilledOrWaiting || item?.change == nil
        }
        #expect(forgotten == [], "seed \(seed): open here, and the store has nothing scheduled")
    }
}
