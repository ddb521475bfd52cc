import Batches
import Extensions
import Facts
import Foundation
import Postgres
import Pricing
import ServiceKit

/// Analysts of a simulated world: they submit and approve batches, ask for extensions, pause and withdraw. Each thing that
/// they did is kept for the auditor as they meant it.
actor People {
    struct Row: Encodable, Sendable {
        var line: Int
        var id: String
        var sku: String
        var price: Int64
        var dependents: [String]
        /// nil: it can go.
        var refusedAs: String?
    }

    struct Deed: Encodable, Sendable {
        var at: Int64
        var kind: String
        var subject: String
        var rows: [Row] = []
        var days: Int?
        var refusal: String?
    }

    private(set) var deeds: [Deed] = []
    private let submitter: DatabasePool
    private let approver: DatabasePool
    private let clock: WorldClock
    private let seed: UInt64
    private let productID: String
    private var count = 0
    private var batches: [String] = []
    private var isPaused = false

    init(
        _ database: SimulationDatabase, _ clock: WorldClock, _ world: World.Shape, productID: String
    ) {
        submitter = database.pool("submitter", size: 1)
        approver = database.pool("approver", size: 1)
        self.clock = clock
        seed = world.seed
        self.productID = productID
    }

    func close() async {
        await submitter.close()
        await approver.close()
    }

    /// What they do in one step, if anything.
    func act() async throws {
        count += 1
        var dice = Dice(seed, "people", String(count))
        if dice.chance(count == 1 ? 1000 : 90) { try await submit(dice) }
        if dice.chance(60) { try await extendOne(dice) }
        if dice.chance(12) { try await extendAll(dice) }
        if dice.chance(25), let batch = batches.randomElement(using: &dice) {
            await decide("withdraw", batch, by: approver) {
                guard try !BatchQueries.isFinished(batch, on: $0) else { return }
                _ = try BatchQueries.withdraw(
                    batch, newState: "aborted", reason: "simulated", at: $1, on: $0)
            }
        }
        if dice.chance(60), let batch = batches.randomElement(using: &dice) {
            await undo(batch, as: identifier(&dice))
        }
        let pauses = dice.chance(60)
        guard pauses || isPaused else { return }
        isPaused = pauses
        let reason: String? = pauses ? "simulated" : nil
        await decide(pauses ? "pause" : "resume", "all", by: approver) {
            try ControlQueries.setPause(nil, isPaused: pauses, reason: reason, at: $1, on: $0)
        }
    }

    /// Nothing is held back by a person any more.
    func resumeAll() async {
        await decide("resume", "all", by: approver) {
            try ControlQueries.setPause(nil, isPaused: false, reason: nil, at: $1, on: $0)
        }
        for batch in batches {
            await decide("resume", batch, by: approver) {
                try ControlQueries.setPause(batch, isPaused: false, reason: nil, at: $1, on: $0)
            }
        }
    }

    private func decide(
        _ kind: String, _ subject: String, days: Int? = nil, by pool: DatabasePool,
        _ body: @escaping @Sendable (isolated PostgresConnection, Int64) throws -> Void
    ) async {
        let at = clock.nowMilliseconds()
        var deed = Deed(at: at, kind: kind, subject: subject, days: days)
        do {
            try await pool.withTransaction { try body($0, at) }
        } catch {
            deed.refusal = "\(error)"
        }
        deeds.append(deed)
    }

    private struct Item: Sendable {
        var id: String
        var sku: String
        var price: Int64
        var currency: String
    }

    private func items() async throws -> [Item] {
        try await submitter.withConnection { connection in
            try await connection.query(
                """
                SELECT s.original_transaction_id AS id, s.currency, i ->> 'sku' AS sku, coalesce(i ->> 'currentPrice', i ->> 'renewalPrice')::bigint AS price
                FROM repricer.subscriptions s, jsonb_array_elements(s.items) i
                WHERE s.status = 1 AND s.currency IS NOT NULL AND coalesce(i ->> 'currentPrice', i ->> 'renewalPrice') IS NOT NULL ORDER BY 1, 3
                """
            ).map {
                Item(
                    id: try $0.text("id"), sku: try $0.text("sku"), price: try $0.int64("price"),
                    currency: try $0.text("currency"))
            }
        }
    }

    private func submit(_ given: Dice) async throws {
        var dice = given
        let all = try await items()
        let ids = Array(Set(all.map(\.id))).sorted()
        let share = dice.pick(200...900)
        var rows: [BatchRow] = []
        for item in all where ["A", "FAR"].contains(item.sku) || dice.chance(150) {
            guard dice.chance(share) else { continue }
            let percent: Int64 = [80, 105, 120, 160, 220].randomElement(using: &dice) ?? 105
            var dependents: [String] = []
            if item.sku == "A", dice.chance(400) { dependents.append("B") }
            if item.sku == "A", dice.chance(300),
                let place = ids.firstIndex(of: item.id), place + 1 < ids.count
            {
                dependents.append("\(ids[place + 1])/FAR")
            }
            rows.append(
                BatchRow(
                    line: rows.count + 2, originalTransactionID: item.id, sku: item.sku,
                    newPrice: max(1000, item.price * percent / 100 / 1000 * 1000),
                    currency: item.currency, dependentSKUs: dependents))
        }
        guard !rows.isEmpty else { return }
        try await hand(in: rows, grouping: dice.chance(700) ? .announced : .item)
    }

    private func hand(in rows: [BatchRow], grouping: RequestGrouping) async throws {
        let now = Instant(milliseconds: clock.nowMilliseconds())
        let rules = try await submitter.withTransaction {
            try RuleQueries.load(.from, now, on: $0)
        }
        let planned = try await Planner(
            pool: submitter, rules: rules, environment: .production
        ).plan(rows: rows, asOf: now)
        var terms = BatchTerms()
        terms.grouping = grouping
        if count % 3 == 0 { terms.waves = try WavePlan("30%,60%@+2d,rest@+3d") }
        var deed = Deed(at: now.milliseconds, kind: "batch", subject: "")
        deed.rows = zip(rows, planned).map { row, plan in
            Row(
                line: row.line, id: row.originalTransactionID, sku: row.sku, price: row.newPrice,
                dependents: row.dependentSKUs, refusedAs: plan.code?.rawValue)
        }
        guard planned.contains(where: { $0.fault == nil }) else { return }
        do {
            let outcome = try await Submission.store(
                name: "batch \(count)", contentSHA256: "content \(count)", asOf: now, terms: terms,
                storesRefused: true, pool: submitter, reportingTo: Deaf()
            ) { sink in
                try await sink.take(try sink.prepare(PlannedPiece(entries: [], rows: planned)))
                let changes = planned.count { $0.fault == nil }
                return ("hash", changes, planned.count - changes)
            }
            deed.subject = outcome.batchID
            batches.append(outcome.batchID)
        } catch {
            deed.refusal = "\(error)"
        }
        deeds.append(deed)
        guard !deed.subject.isEmpty else { return }
        let batch = deed.subject
        await decide("approve", batch, by: approver) {
            _ = try BatchQueries.approve(batch, at: $1, on: $0)
        }
    }

    private func undo(_ batch: String, as undo: String) async {
        let name = "undo \(count)"
        await decide("undo \(batch)", undo, by: submitter) {
            _ = try UndoQueries.store(.init(batchID: batch), as: undo, name: name, at: $1, on: $0)
        }
        // Where nothing could be taken back there is nothing to approve.
        await decide("approve", undo, by: approver) {
            _ = try BatchQueries.approve(undo, at: $1, on: $0)
        }
        if deeds.last?.refusal == nil { batches.append(undo) }
    }

    private func extendOne(_ given: Dice) async throws {
        var dice = given
        guard let item = try await items().randomElement(using: &dice) else { return }
        let (days, request) = (Int(dice.pick(1...30)), identifier(&dice))
        guard let terms = ExtensionTerms(days: days, reason: .outage) else { return }
        await decide("extend", "\(item.id) \(request)", days: days, by: submitter) {
            _ = try ExtensionQueries.request(
                item.id, extensionID: request, terms, note: nil, at: $1, on: $0)
        }
    }

    private func extendAll(_ given: Dice) async throws {
        var dice = given
        let (days, request) = (Int(dice.pick(1...10)), identifier(&dice))
        guard let terms = ExtensionTerms(days: days, reason: .outage) else { return }
        let product = productID
        await decide("extend all", request, days: days, by: submitter) {
            _ = try ExtensionQueries.requestMass(
                request, productID: product, storefronts: nil, terms, note: nil, eligible: 1,
                ineligible: "{}", at: $1, on: $0)
        }
        await decide("approve all", request, by: approver) {
            _ = try ExtensionQueries.approve(request, at: $1, on: $0)
        }
    }

    private func identifier(_ dice: inout Dice) -> String {
        let digits = String(dice.next(), radix: 16)
        let text = String(repeating: "0", count: 16 - digits.count) + digits
        return "019a0000-0000-7000-8\(text.prefix(3))-\(text.suffix(12))"
    }

    private struct Deaf: PlanSink {
        func prepare(_ piece: PlannedPiece) {}
        func take(_ prepared: Void) {}
    }
}
