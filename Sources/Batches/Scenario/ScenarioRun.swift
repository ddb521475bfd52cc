package import Facts
package import Pricing

/// Judges a whole cohort in one pass: while the database sends one piece, other pieces are judged.
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
                        let claims = try await claims(on: rows, connection)
                        let number = started
                        group.addTask { try judged(rows, claims, number, chosen) }
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

    /// The open changes that name items of these subscriptions as their dependents, by `SUBSCRIPTION/SKU`. They matter
    /// only where the scenario has dependents, because then its rows name them too.
    private func claims(
        on rows: PlanQueries.FactRows, _ connection: DatabaseConnection
    ) async throws -> [String: [DependentClaim]] {
        guard !judge.cohort.dependents.isEmpty else { return [:] }
        let ids = try rows.facts.map { try $0.text("original_transaction_id") }
        return try await connection.read { try PlanQueries.claims(on: ids, on: $0) }
    }

    private func judged(
        _ rows: PlanQueries.FactRows, _ claims: [String: [DependentClaim]], _ number: Int,
        _ chosen: Int?
    ) throws -> Judged {
        var judged = Judged(number: number, forecasts: judge.emptyForecasts, batch: "")
        var batch = ""
        var all = Array(try rows.decoded().values)
        // Only a file needs an order.
        if chosen != nil {
            all.sort { $0.facts.originalTransactionID < $1.facts.originalTransactionID }
        }
        for known in all {
            judged.subscriptions += 1
            if !claims.isEmpty {
                let id = known.facts.originalTransactionID
                for sku in known.facts.items.map(\.sku) {
                    let place = DependentReference(sku).placed(on: id).text
                    if let found = claims[place] { known.context.claims[place] = found }
                }
            }
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
            // A free item has no price that the file could state as expected.
            row.expectedPrice.flatMap { $0 > 0 ? price($0) : nil } ?? "",
        ])
    }

    private static func price(_ milliunits: Int64) -> String {
        PriceText.decimal(milliunits, decimals: milliunits % 1000 == 0 ? 0 : 2)
    }
}
