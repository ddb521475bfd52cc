import FoldStories
import Foundation
import Postgres
import Pricing

/// Why an item brings nothing any more, and what its increase brings, as the life itself knows it.
///
/// The bridge's last column is what the others leave, so that its sum is right whatever they say: each has to be asked.
struct CauseOracle {
    private(set) var faults: [String] = []
    private(set) var ends = 0
    private(set) var effects = 0

    private struct Month {
        var month: Int64
        var until: Int64
        var opening: Int64
        var closing: Int64
        var cause: String
        var effect: Int64
    }

    init(_ lives: [MoneyLife], on owner: PostgresConnection) async throws {
        let months = try await Self.months(of: lives.map(\.id), on: owner)
        let effective = try await owner.query(
            "SELECT original_transaction_id AS id FROM repricer.price_changes WHERE state = 'effective'"
        ).map { try $0.text("id") }
        for life in lives {
            let rows = months[life.id] ?? []
            if Self.isPlain(life) {
                for row in rows where row.opening > 0 && row.closing == 0 { check(row, of: life) }
            }
            if effective.contains(life.id) { checkEffect(rows, of: life) }
        }
    }

    /// Each charge is in one currency and at a plan's price, and nothing that was given back was taken again.
    private static func isPlain(_ life: MoneyLife) -> Bool {
        !life.events.contains { $0.type == "REFUND_REVERSED" }
            && life.told.values.allSatisfy { $0.currency == "USD" && !$0.isOffer }
    }

    private static func months(
        of ids: [String], on owner: PostgresConnection
    ) async throws -> [String: [Month]] {
        let rows = try await owner.query(
            """
            SELECT id, (extract(epoch FROM month) * 1000)::bigint AS month,
                (extract(epoch FROM month + interval '1 month') * 1000)::bigint AS until,
                round(opening / 12)::bigint AS opening, round(closing / 12)::bigint AS closing, cause,
                round(price_effect / 12)::bigint AS effect
            FROM repricer.moves_of(\(ids)::text[], array_fill(timestamptz '2027-06-01Z', ARRAY[\(Int64(ids.count))::integer]), NULL)
            """)
        var months: [String: [Month]] = [:]
        for row in rows {
            months[try row.text("id"), default: []].append(
                Month(
                    month: try row.int64("month"), until: try row.int64("until"),
                    opening: try row.int64("opening"), closing: try row.int64("closing"),
                    cause: try row.text("cause"), effect: try row.int64("effect")))
        }
        return months
    }

    /// Where the life ended once about then, and within that month, that is the cause.
    private mutating func check(_ row: Month, of life: MoneyLife) {
        let about = (row.month - 2 * MoneyLife.day)..<(row.until + 2 * MoneyLife.day)
        // A refund of a charge that was made twice ends nothing.
        let near = life.ends.filter { end in
            about.contains(end.at)
                && !(end.cause == "refunds"
                    && life.chargesOfCalled.contains {
                        $0.stands && $0.from <= end.at && end.at < $0.until
                    })
        }
        guard near.count == 1, let end = near.first, end.at >= life.calledAt,
            (row.month..<row.until).contains(end.at)
        else { return }
        ends += 1
        if row.cause != end.cause {
            faults.append("\(life.id) \(row.month): \(row.cause), and not \(end.cause)")
        }
    }

    /// The first charge at the new price says in which month the increase came, and for how many seats.
    private mutating func checkEffect(_ rows: [Month], of life: MoneyLife) {
        let charges = life.chargesOfCalled
        guard
            let first = charges.first(where: { $0.from >= life.calledAt && $0.price == life.new }),
            first.given == 0, first.revokedAt == nil, !first.isPurchase, !first.isOffer,
            // What was told at the new price once, and at another one since, may have brought it, too.
            !life.events.contains(where: { $0.told(at: life.new, before: first.from) }),
            first.currency == "USD",
            // Of two at one instant either may be the first.
            charges.filter({ $0.from < first.until && $0.until > first.from && $0 != first })
                .isEmpty,
            let row = rows.first(where: { ($0.month..<$0.until).contains(first.from) }),
            row.closing > 0
        else { return }
        effects += 1
        let effect = (life.new - MoneyLife.old) * first.seats
        if row.effect != effect {
            faults.append("\(life.id) \(row.month): an effect of \(row.effect), and not \(effect)")
        }
    }
}

extension SubscriptionEvent {
    fileprivate func told(at price: Int64, before instant: Int64) -> Bool {
        guard let transaction, let from = transaction.purchasedAt else { return false }
        return from.milliseconds < instant
            && transaction.items.contains { $0.sku.hasPrefix("A") && $0.price == price }
    }
}
