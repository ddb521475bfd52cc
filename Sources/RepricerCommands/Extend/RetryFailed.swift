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
        let mass = try ExtensionArguments.uuid(try invocation.arguments.required(extensionID))
        let configuration = try invocation.configuration()
        let now = try await invocation.now(configuration)
        return try await invocation.withPool(configuration) { pool in
            let (failed, obstacles, asked) = try await pool.withTransaction { connection in
                let failed = try ExtensionQueries.failed(mass, on: connection)
                let judged = try ExtensionForecast.obstacles(of: failed, now: now, on: connection)
                let eligible = failed.filter { judged[$0] == .some(nil) }
                var random = SystemRandomNumberGenerator()
                let realNow = SystemClock().nowMilliseconds()
                let requestIDs = eligible.map { _ in
                    UUIDv7.make(nowMilliseconds: realNow, random: &random)
                }
                let asked = try ExtensionQueries.retry(
                    mass, eligible, requestIDs: requestIDs, at: now.milliseconds, on: connection)
                let obstacles = failed.compactMap { judged[$0] ?? nil }
                return (failed.count, obstacles, asked)
            }
            var left: [String: Int64] = [:]
            for obstacle in obstacles { left[obstacle.rawValue, default: 0] += 1 }
            if invocation.isJSON {
                try invocation.print(
                    .object([
                        "extension_id": .string(mass), "failed": .integer(Int64(failed)),
                        "queued": .integer(asked), "ineligible": .counts(left),
                    ]))
            } else {
                try invocation.print("\(failed) failed, \(asked) queued\n")
                for (code, count) in left.sorted(by: { $0.key < $1.key }) {
                    try invocation.print("  not eligible: \(count) \(code)\n")
                }
            }
            return .done
        }
    }
}
