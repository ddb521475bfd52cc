import Facts
import Foundation
import Postgres
import Pricing

/// What an item brought at the end of each month, in plain code: the newest charge that stands, and the seats that came
/// beside it since.
enum RunOracle {
    /// The last instant at which a charge brings something.
    private static func end(
        of charge: MoneyLife.Charge, among charges: [MoneyLife.Charge]
    ) -> Int64 {
        var ends = [charge.until]
        if let revokedAt = charge.revokedAt { ends.append(revokedAt) }
        if charge.given >= charge.total, charge.given > 0 {
            ends.append(charge.refunds.map(\.at.milliseconds).max() ?? charge.until)
        }
        let next = charges.first { other in
            !other.isAddedSeat && other.stands
                && (charge.isAddedSeat
                    ? other.from > charge.from
                    : (other.from, other.transaction) > (charge.from, charge.transaction))
        }
        let end = ends.min() ?? charge.until
        guard let next else { return end }
        // A renewal that is dated some moments late leaves no gap.
        let moments = min(60 * MoneyLife.minute, (charge.until - charge.from) / 10)
        if end == charge.until, next.from <= end + moments { return next.from }
        return min(end, next.from)
    }

    /// What it brings a month: of an added seat, the price of a seat beside it, of which it may cost a part.
    private static func rate(
        of charge: MoneyLife.Charge, among charges: [MoneyLife.Charge]
    ) -> Int64 {
        let beside = charges.last {
            !$0.isAddedSeat && $0.from <= charge.from && $0.until > charge.from
        }
        guard charge.isAddedSeat, let beside, !beside.isOffer else { return charge.total }
        return beside.price * charge.seats
    }

    /// `subscription month-end amount`, where something was brought.
    private static func plain(_ life: MoneyLife) -> Set<String> {
        let charges = life.chargesOfCalled
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(secondsFromGMT: 0) ?? .gmt
        let first = Date(timeIntervalSince1970: 1_740_787_200)
        let ends = (1...30).compactMap { month in
            calendar.date(byAdding: .month, value: month, to: first).map {
                Int64($0.timeIntervalSince1970) * 1000
            }
        }
        return Set(
            ends.filter { $0 > life.calledAt }.compactMap { at in
                let running = charges.filter { $0.from < at && end(of: $0, among: charges) >= at }
                // Of a period that was charged twice, and given back once, the other charge counts.
                let isPaid = running.contains { !$0.isAddedSeat && $0.stands }
                let sum = running.filter { $0.isAddedSeat || $0.stands || !isPaid }.reduce(0) {
                    $0 + rate(of: $1, among: charges)
                }
                return sum == 0 ? nil : "\(life.id) \(at) \(sum)"
            })
    }

    /// Whether the bridge knows it by its charges alone: all are in one currency, one was paid for at the call, and no seat
    /// came at the price of an offer, of which the length of a period says how much it is a month.
    private static func isPlain(_ life: MoneyLife) -> Bool {
        let charges = life.told.values
        return charges.allSatisfy { $0.currency == "USD" && !($0.isOffer && $0.isAddedSeat) }
            && life.chargesOfCalled.contains {
                $0.from < life.calledAt && $0.until >= life.calledAt
                    && $0.given == 0
            }
    }

    /// Where the bridge says something else.
    static func faults(of lives: [MoneyLife], on owner: PostgresConnection) async throws -> [String]
    {
        let ours = lives.filter(isPlain)
        let ids = ours.map(\.id)
        let rows = try await owner.query(
            """
            SELECT concat_ws(' ', id, (extract(epoch FROM month + interval '1 month') * 1000)::bigint,
                round(sum(closing) / 12)) AS line
            FROM repricer.moves_of(\(ids)::text[], array_fill(timestamptz '2027-06-01Z', ARRAY[\(Int64(ids.count))::integer]), NULL)
            GROUP BY id, month HAVING sum(closing) <> 0
            """
        ).map { try $0.text("line") }
        let plain = ours.map(Self.plain).reduce(into: Set<String>()) { $0.formUnion($1) }
        return Set(rows).subtracting(plain).map { "bridge \($0)" }.sorted()
            + plain.subtracting(rows).map { "plain \($0)" }.sorted()
    }
}

/// Whom the reports name though they did nothing odd, or do not name though nothing is told of them any more.
enum ReturnOracle {
    static func faults(of lives: [MoneyLife], on owner: PostgresConnection) async throws -> [String]
    {
        let ends = try await MissingOracle.ends(on: owner)
        let lives = Dictionary(lives.map { ($0.id, $0) }) { first, _ in first }
        var faults: [String] = []
        let named = try await owner.query(
            """
            SELECT original_transaction_id AS id, transaction_id FROM report.charge_exception
            WHERE exception = 'other_price'
            """)
        for row in named {
            guard let life = try lives[row.text("id")], let since = ends[life.id]?.effectiveAt
            else {
                continue
            }
            let transaction = try row.text("transaction_id")
            // Who came back at the old price or less, and renews at that. Who buys within a paid period never left.
            let charges = life.chargesOfCalled.filter { $0.from > since }
            func hasLeft(before purchase: MoneyLife.Charge) -> Bool {
                let wasTold = life.events.contains {
                    $0.type == "EXPIRED" && $0.key.signedAt.milliseconds > since
                        && $0.key.signedAt.milliseconds < purchase.from
                }
                let isPaid = life.chargesOfCalled.contains {
                    $0.from < purchase.from && $0.until > purchase.from - 60_000
                        && $0.revokedAt == nil && ($0.given == 0 || $0.given < $0.total)
                }
                return wasTold || !isPaid
            }
            guard let charge = charges.first(where: { $0.transaction == transaction }),
                ends[life.id]?.state == "effective", charge.price <= MoneyLife.old
            else { continue }
            let isTheirs = charges.contains {
                $0.isPurchase && !$0.isAddedSeat && $0.from < charge.from
                    && $0.price == charge.price && $0.currency == charge.currency
                    && hasLeft(before: $0)
            }
            if isTheirs { faults.append("came back: \(transaction)") }
        }
        let further = try await owner.query(
            """
            SELECT original_transaction_id AS id FROM repricer.live_change_figures
            WHERE state = 'effective' AND renewals > 0 AND NOT is_leaving AND word_due_at IS NULL
            """)
        for row in further {
            guard let life = try lives[row.text("id")] else { continue }
            let isOver =
                life.events.contains { $0.type == "EXPIRED" || $0.type == "REVOKE" }
                || life.told.values.contains { $0.revokedAt != nil }
            if !isOver { faults.append("for ever: \(life.id)") }
        }
        return faults
    }
}
