import Facts
import Foundation
import Notifications
import ServiceKit

/// Notifications a second from the inbox into facts, by the projector of `serve`, until the inbox is empty. `database=`
/// is a connection string for libpq.
enum FoldRate {
    static func run(_ options: Options) async throws {
        let pool = DatabasePool(
            conninfo: try options.text("database"), applicationName: "benchmarks", size: 2)
        let projector = Projector(
            pool: pool, log: Log(component: "benchmarks", level: .warning), metrics: Metrics())
        let start = ContinuousClock.now
        var folded = 0
        while case let count = try await projector.foldOnce(), count > 0 { folded += count }
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        await pool.close()
        print(folded, String(format: "%.0f", Double(folded) / seconds))
    }
}
