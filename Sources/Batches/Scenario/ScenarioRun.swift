package import Facts
package import Pricing

/// Judges a whole cohort in one reading: while the database sends one piece, other pieces are judged.
package struct ScenarioRun: Sendable {
    /// The most pieces that are being read or judged. It bounds the memory.
    private static let piecesInFlight = 4
    private static let pieceSize = 4096

    /// The result of one piece.
    private struct Judged: Sendable {
        var number: Int
        var forecasts: [ScenarioForecast]
        var batch: String
        var subscriptions = 0
    }

    private let pool: DatabasePool
    private let judge: ScenarioJudge
    private let known: Instant?

    /// `known`: past increases count as they were imported by then; nil stands for now.
    package init(pool: DatabasePool, judge: ScenarioJudge, knownAt known: Instant? = nil) {
        self.pool = pool
        self.judge = judge
        self.known = known
    }

    /// The header of a batch file of one scenario.
    package static let batchHeader = CSVText.record([
        "original_transaction_id", "sku", "price", "currency", "storefront", "dependent_skus",
        "expected_price",
    ])

    /// The forecasts of the scenarios. The rows of the scenario at `chosen` that can go are handed to `write` as
    /// lines of a batch file.
    package func run(
        writing chosen: Int? = nil,
        reporting progress: @Sendable (_ subscriptions: Int) -> Void = { _ in },
        to write: @escaping @Sendable (String) async throws -> Void = { _ in }
    ) async throws -> [ScenarioForecast] {
        try await pool.withConnection { connection in
            try await connection.read { try CohortQueries.begin(judge.cohort, on: $0) }
            var whole = judge.emptyForecasts
            try await withThrowingTaskGroup(of: Judged.self) { group in
                var started = 0
                var isAtEnd = false
                var running = 0
                // Batches are written in the order in which they were read.
                var waiting: [Int: String] = [:]
                var written = 0
                var subscriptions = 0
                while true {
                    while !isAtEnd, running < Self.piecesInFlight {
                        let rows = try await connection.read {
                            try CohortQueries.next(Self.pieceSize, knownAt: known, on: $0)
                        }
                        isAtEnd = rows.count == 0
                        if isAtEnd { break }
                        let number = started
                        group.addTask { try judged(rows, number, chosen) }
                        started += 1
                        running += 1
                    }
                    guard let piece = try await group.next() else { break }
                    running -= 1
                    subscriptions += piece.subscriptions
                    progress(subscriptions)
                    for (place, forecast) in piece.forecasts.enumerated() {
                        whole[place].add(forecast)
                    }
                    waiting[piece.number] = piece.batch
                    while let batch = waiting.removeValue(forKey: written) {
                        try await write(batch)
                        written += 1
                    }
                }
            }
            try await connection.read { try CohortQueries.end(on: $0) }
            return whole
        }
    }

    private func judged(
        _ rows: PlanQueries.FactRows, _ number: Int, _ chosen: Int?
    ) throws -> Judged {
        var judged = Judged(number: number, forecasts: judge.emptyForecasts, batch: "")
        var batch = ""
        for known in try rows.decoded().values.sorted(by: {
            $0.facts.originalTransactionID < $1.facts.originalTransactionID
        }) {
            judged.subscriptions += 1
            judge.add(known.facts, known.context, to: &judged.forecasts) { place, row in
                if place == chosen, row.fault == nil { batch += Self.line(row) }
            }
        }
        judged.batch = batch
        return judged
    }

    private static func line(_ row: PlanRow) -> String {
        CSVText.record([
            row.originalTransactionID, row.sku, row.newPrice.map(price) ?? "", row.currency ?? "",
            row.storefront ?? "", row.dependentSKUs.joined(separator: ";"),
            row.expectedPrice.map(price) ?? "",
        ])
    }

    private static func price(_ milliunits: Int64) -> String {
        PriceText.decimal(milliunits, decimals: milliunits % 1000 == 0 ? 0 : 2)
    }
}
