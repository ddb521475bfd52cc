import Facts
import Postgres
import Pricing
import ServiceKit

/// The clock by which a command decides what is over: what it drops, exports or reads no more cannot be brought back.
enum DecidingClock {
    /// By how much this machine's clock and the database's may differ, in milliseconds: a day.
    private static let differenceMax: Int64 = 86_400_000

    /// The earlier one of this machine's clock and the database's, in UTC milliseconds; a rehearsal's virtual clock as it
    /// is. Throws a conflict where the two differ by more than a day, because nobody knows which of them is right.
    static func now(by clock: any WallClock, _ pool: PostgresPool) async throws -> Int64 {
        let here = clock.nowMilliseconds()
        guard clock is SystemClock else { return here }
        let there = try await pool.read { try RateQueries.clockMicros(on: $0) } / 1000
        let (difference, isFar) = here.subtractingReportingOverflow(there)
        guard !isFar, difference.magnitude <= differenceMax.magnitude else {
            throw CommandFailure(
                .conflict,
                "this machine's clock says \(here.instantText), the database's \(there.instantText); "
                    + "set the wrong one right, then run it again")
        }
        return min(here, there)
    }

    /// Refuses a virtual clock on a database of real time, whose history, months and evidence it would misdate.
    static func check(_ configuration: Configuration, _ pool: PostgresPool) async throws {
        guard configuration.clock != nil,
            try await !pool.read({ try AppBindingQueries.isRehearsal(on: $0) })
        else { return }
        throw CommandFailure(
            .conflict,
            "the clock is virtual, and this database is none of a rehearsal; leave out --clock and "
                + "\(Variable.clock.rawValue), or name the rehearsal's database")
    }
}
