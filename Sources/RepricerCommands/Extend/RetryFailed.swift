import Extensions
import Pricing
import ServiceKit

extension Commands {
    static let extendRetryFailed = Command(
        "extend retry-failed", "ask one by one for what a mass extension failed for",
        positionals: [extensionID],
        discussion: """
            On the terms that were approved, at REPRICER_EXTEND_RATE. Those that are not eligible, and those that were \
            extended since, are left out and counted. Run again, it asks for what failed again.
            """
    ) { invocation in
        let typed = try invocation.arguments.required(extensionID)
        return try await invocation.withDatabase { pool, now in
            let mass = try await ExtensionFinder.find(typed, pool: pool)
            let (failed, obstacles, asked) = try await pool.withTransaction { connection in
                let failed = try ExtensionQueries.failed(mass, on: connection)
                let judged = try ExtensionForecast.obstacles(
                    of: failed, now: Instant(milliseconds: now), on: connection)
                let eligible = failed.filter { judged[$0] == .some(nil) }
                let asked = try ExtensionQueries.retry(
                    mass, eligible, requestIDs: eligible.map { _ in ExtensionArguments.newID() },
                    at: now, on: connection)
                let obstacles = failed.compactMap { judged[$0] ?? nil }
                return (failed.count, obstacles, asked)
            }
            var left: [String: Int64] = [:]
            for obstacle in obstacles { left[obstacle.rawValue, default: 0] += 1 }
            try invocation.print(
                json: [
                    "extension_id": mass, "failed": failed, "queued": asked, "ineligible": left,
                ], "\(failed) failed, \(asked) queued\n" + notEligible(left))
            return .done
        }
    }
}
