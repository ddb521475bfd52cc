import Batches
import Postgres
import PriceChanges
import Pricing
import ServiceKit

/// What stories of many rows that fare alike share.
extension DeliveryHarness {
    /// Submits and approves one row for each of these subscriptions; returns the batch.
    @discardableResult
    func submitRows(
        _ numbers: ClosedRange<Int>, guards: [GuardRail] = []
    ) async throws -> String {
        var rows: [BatchRow] = []
        for number in numbers {
            try await subscribe("\(number)")
            rows.append(Self.row("\(number)", line: number + 1))
        }
        let batchID = try await submit(
            rows, content: "\(numbers)", terms: BatchTerms(guards: guards))
        try await approve(batchID)
        return batchID
    }

    /// The column `text` of a query; `-` stands for NULL.
    func texts(_ sql: String) async throws -> [String] {
        try await service.withConnection { connection in
            try await connection.query(SQL(unsafe: sql)).map { try $0.textOrNil("text") ?? "-" }
        }
    }

    /// The number of changes in each state.
    func stateCounts() async throws -> [String: Int] {
        let states = try await texts("SELECT state AS text FROM repricer.price_changes")
        return Dictionary(states.map { ($0, 1) }, uniquingKeysWith: +)
    }

    /// What halted each batch, and then why the service is halted; `-` where nothing did.
    func halts() async throws -> [String] {
        try await texts(
            """
            SELECT coalesce(halted_by, '-') AS text FROM repricer.batches
            UNION ALL SELECT coalesce(halted_reason, '-') FROM repricer.service_controls
            """)
    }

    /// So many minutes go by, with deliveries of each scheduler in each.
    func pass(minutes: Int, _ schedulers: Scheduler...) async throws {
        for _ in 0..<minutes {
            clock.advance(by: .seconds(61))
            realClock.advance(by: .seconds(61))
            for scheduler in schedulers { try await deliver(scheduler) }
        }
    }

    func watch() -> BatchWatch {
        var limits = BatchWatch.Limits()
        limits.probes.spread = .zero
        return BatchWatch(
            pool: service, clock: clock, realClock: realClock, log: .silent, metrics: Metrics(),
            limits: limits)
    }
}
