package import Facts
package import Pricing

/// Which subscriptions an extension would reach, judged on the facts. Apple decides.
package struct ExtensionForecast: Sendable {
    package var eligible: Int64 = 0
    package var ineligible: [ExtensionObstacle: Int64] = [:]

    package var total: Int64 { ineligible.values.reduce(eligible, +) }

    private static let pieceMax = 1000

    /// Why a subscription cannot be extended; nil where it can.
    package static func obstacle(
        of id: String, now: Instant, pool: DatabasePool
    ) async throws -> ExtensionObstacle? {
        try await pool.withTransaction { connection in
            try obstacles(of: [id], now: now, on: connection)[id] ?? nil
        }
    }

    /// Judges all subscriptions of a product, a piece at a time.
    package static func count(
        productID: String, storefronts: [String]?, now: Instant, pool: DatabasePool
    ) async throws -> ExtensionForecast {
        try await pool.withTransaction(.repeatableRead) { connection in
            var forecast = ExtensionForecast()
            var after = ""
            while true {
                let ids = try ExtensionQueries.subscribers(
                    productID: productID, storefronts: storefronts, after: after, limit: pieceMax,
                    on: connection)
                guard let last = ids.last else { return forecast }
                after = last
                for obstacle in try obstacles(of: ids, now: now, on: connection).values {
                    if let obstacle {
                        forecast.ineligible[obstacle, default: 0] += 1
                    } else {
                        forecast.eligible += 1
                    }
                }
            }
        }
    }

    package static func obstacles(
        of ids: [String], now: Instant, on connection: isolated DatabaseConnection
    ) throws -> [String: ExtensionObstacle?] {
        let (stored, _) = try SubscriptionQueries.loadReadable(ids, on: connection)
        let extendedAt = try ExtensionQueries.extendedAt(
            ids, now: now.milliseconds, on: connection)
        let underway = try ExtensionQueries.underway(ids, on: connection)
        let elsewhere = try ExtensionQueries.openElsewhere(ids, on: connection)
        var obstacles: [String: ExtensionObstacle?] = [:]
        for id in ids {
            obstacles[id] = .some(
                ExtensionEligibility.obstacle(
                    stored[id]?.facts, extendedAt: extendedAt[id] ?? [],
                    openElsewhere: elsewhere[id] ?? 0, hasOpen: underway.contains(id), now: now))
        }
        return obstacles
    }
}
