import Foundation
import Postgres
import Pricing

/// The renewals that never came, in plain code: from what was told of each life, and from when its change took effect, or
/// ended. It shares no SQL with the reports.
struct MissingOracle {
    /// What became of a change, by the product's own word.
    struct End {
        var state: String
        var effectiveAt: Int64?
        var dueAt: Int64
        var endedAt: Int64?
        var isLeaving: Bool
    }

    /// `subscription instant expected`, sorted; without what is expected beside another currency.
    private(set) var lines: [String] = []
    /// Gaps in which more than one renewal is missing.
    private(set) var gapsOfSeveral = 0

    /// How long Apple tries a failed charge again, and a day.
    private static let retries = 61 * MoneyLife.day

    static func ends(on owner: PostgresConnection) async throws -> [String: End] {
        var ends: [String: End] = [:]
        for row in try await owner.query(
            """
            SELECT original_transaction_id AS id, state, effective_at, due_effective_at, ended_at, is_leaving
            FROM repricer.price_changes
            """)
        {
            ends[try row.text("id")] = End(
                state: try row.text("state"),
                effectiveAt: try row.millisecondsOrNil("effective_at"),
                dueAt: try row.milliseconds("due_effective_at"),
                endedAt: try row.millisecondsOrNil("ended_at"),
                isLeaving: try row.bool("is_leaving"))
        }
        return ends
    }

    init(_ lives: [MoneyLife], of ends: [String: End]) {
        let heard =
            lives.flatMap { life in
                life.told.values.flatMap { [$0.from] + $0.refunds.map(\.at.milliseconds) }
                    + life.events.filter { $0.type == "REFUND_REVERSED" }.map(
                        \.key.signedAt.milliseconds)
            }.max() ?? 0
        for life in lives {
            guard let end = ends[life.id] else { continue }
            let gaps = Self.gaps(of: life, end)
            gapsOfSeveral += gaps.count { $0.count > 1 }
            var named = gaps.flatMap { $0 }
            if let last = Self.silence(of: life, end, heard: heard - 3 * MoneyLife.day),
                !named.contains(where: { $0.at == last.at })
            {
                named.append(last)
            }
            lines += named.map { at, expected in
                (["\(life.id)", "\(at)"] + [expected].compactMap { $0.map { "\($0)" } }).joined(
                    separator: " ")
            }
        }
        lines.sort()
    }

    private static func charges(of life: MoneyLife) -> [MoneyLife.Charge] {
        life.chargesOfCalled
    }

    /// A renewal may be dated some moments off the one that the change is due at.
    private static func isBefore(_ renewal: Int64, _ end: End) -> Bool {
        renewal < end.dueAt - 60 * MoneyLife.minute
    }

    /// The seats of a period: of its renewal, or of what was bought in its place, and what was bought beside that since and
    /// not given back.
    private static func seats(
        until: Int64, among charges: [MoneyLife.Charge]
    ) -> Int64 {
        let period = charges.filter { $0.until == until }
        let own = period.filter { !$0.isAddedSeat }
        let newest = own.last { $0.revokedAt == nil && $0.given < $0.total }
        let bought = period.filter {
            $0.isAddedSeat && $0.given < $0.total && $0.from >= newest?.from ?? 0
        }
        return max(1, ((newest ?? own.last)?.seats ?? 0) + bought.reduce(0) { $0 + $1.seats })
    }

    private static func gaps(of life: MoneyLife, _ end: End) -> [[(at: Int64, expected: Int64?)]] {
        guard !["rejected", "ineligible", "missed", "aborted"].contains(end.state) else {
            return []
        }
        let charges = charges(of: life)
        return charges.compactMap { charge in
            guard let next = charges.first(where: { $0.from > charge.from })?.from else {
                return nil
            }
            let isShort = min(MoneyLife.day, (charge.until - charge.from) / 10)
            let stands = charges.filter {
                $0.from <= charge.from && $0.revokedAt == nil
                    && ($0.given == 0 || $0.given < $0.total)
            }
            let isTakenBack =
                charge.revokedAt.map { $0 <= charge.until + MoneyLife.day } ?? false
                && !stands.contains { $0.until >= charge.until - isShort }
            let until = max(charge.until, stands.map(\.until).max() ?? 0)
            guard next > until + isShort, !isTakenBack else { return nil }
            let isInEffect =
                end.state == "effective" && end.effectiveAt.map { charge.from >= $0 } ?? false
            let hasEnded = ["declined", "cancelled", "lapsed", "invalidated"].contains(end.state)
            let seats = Self.seats(until: charge.until, among: charges)
            // Each life renews monthly, however long its last period was.
            let began = charges.filter { $0.until == until }.map(\.from).min() ?? until
            let due = renewals(from: until, began: began, before: next - 15 * MoneyLife.day)
            return due.filter { at in
                !isExplained(at, charge, next, life)
                    && (isInEffect || at >= life.calledAt && (!hasEnded || next < end.endedAt ?? 0))
            }.map { at in
                let isNew = isInEffect || end.state == "effective" && !isBefore(at, end)
                // Beside another currency the prices of the change are no amount to expect.
                return (
                    at, charge.currency == "USD" ? (isNew ? life.new : MoneyLife.old) * seats : nil
                )
            }
        }
    }

    /// Whether a statement tells why a renewal did not come: the charge failed in the weeks before it, the subscription had
    /// ended or somebody came back to it. The lives choose no other plan, and what they modify they buy.
    private static func isExplained(
        _ renewal: Int64, _ charge: MoneyLife.Charge, _ next: Int64, _ life: MoneyLife
    ) -> Bool {
        life.events.contains { event in
            let at = event.key.signedAt.milliseconds
            guard at >= charge.from, at <= next + MoneyLife.day else { return false }
            switch event.type {
            case "DID_FAIL_TO_RENEW":
                return at <= renewal + MoneyLife.day && renewal <= at + retries
            case "GRACE_PERIOD_EXPIRED": return abs(renewal - at) <= retries
            case "DID_RENEW":
                return event.subtype == "BILLING_RECOVERY" && (0...retries).contains(at - renewal)
            case "EXPIRED": return at <= renewal + retries
            // A purchase in the second half of the period, or after it, is who came back.
            case "SUBSCRIBED": return 2 * (at - charge.from) > charge.until - charge.from
            case "REVOKE", "OFFER_REDEEMED": return true
            default: return false
            }
        }
    }

    /// Each month from the first on, which is always one. They keep the day of the paid period's beginning, which a short
    /// month alone may lack.
    private static func renewals(from first: Int64, began: Int64, before end: Int64) -> [Int64] {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(secondsFromGMT: 0) ?? .gmt
        func month(_ number: Int, after instant: Int64) -> Int64? {
            let start = Date(timeIntervalSince1970: Double(instant) / 1000)
            return calendar.date(byAdding: .month, value: number, to: start).map {
                Int64(($0.timeIntervalSince1970 * 1000).rounded())
            }
        }
        let keepsDay = month(1, after: began) == first
        let later = (1...400).lazy.compactMap {
            keepsDay ? month($0 + 1, after: began) : month($0, after: first)
        }
        return [first] + later.prefix { $0 < end }
    }

    /// A change in effect, or that the App Store has, whose item fell silent after the last charge that stands.
    private static func silence(
        of life: MoneyLife, _ end: End, heard: Int64
    ) -> (at: Int64, expected: Int64?)? {
        let isOpen = ["scheduled", "pending_consent", "accepted"].contains(end.state)
        guard isOpen || end.state == "effective" && !end.isLeaving else { return nil }
        let since = isOpen ? 0 : end.effectiveAt ?? .max
        let charges = charges(of: life).filter { $0.from >= since }
        guard let until = charges.map(\.until).max(), until >= life.calledAt else { return nil }
        // Who was asked and says nothing may have ended at the renewal that the change is due at.
        let isSettled =
            end.state == "accepted" || end.state == "scheduled" && life.new < MoneyLife.old
        guard !isOpen || isSettled || isBefore(until, end) else { return nil }
        let period = charges.filter { $0.until == until }
        let kept = period.filter { $0.revokedAt == nil && $0.given < $0.total }
        guard let last = kept.last else { return nil }
        var due = until
        for event in life.events where event.key.signedAt.milliseconds > last.from {
            switch event.type {
            case "EXPIRED", "REVOKE": return nil
            case "DID_FAIL_TO_RENEW", "GRACE_PERIOD_EXPIRED":
                due = max(due, event.key.signedAt.milliseconds + 61 * MoneyLife.day)
            default: break
            }
        }
        guard due < heard else { return nil }
        let price = isOpen && isBefore(until, end) ? MoneyLife.old : life.new
        let isOfTheChange = !isOpen || last.currency == "USD"
        return (until, isOfTheChange ? price * seats(until: until, among: charges) : nil)
    }
}
