import Glibc
import HTTP
import ServiceKit
import Testing

@testable import RepricerCommands

/// How a replica leaves, and what monitoring hears of whether it is ready.
struct LeavingTests {
    @Test(arguments: [(600, 30), (3, 3)])
    func leaving_beforeABreakingMigration_isDoneWhileTheMigrationWaits(
        _ wait: Int, _ expected: Int
    ) {
        let leaving = Leaving(
            health: HealthRoutes { nil }, wait: .seconds(wait), supervised: nil)

        #expect(leaving.wait == .seconds(wait))
        #expect(leaving.beforeMigration.wait == .seconds(expected))
    }

    /// systemd would end the process before it has drained, where its unit allows less.
    @Test func leaving_asksTheSupervisorForTheTime() async throws {
        let name = "repricer-leaving-\(getpid())"
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: [0] + Array(name.utf8)) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + 1 + name.utf8.count)
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
        }
        try #require(bound == 0)
        let health = HealthRoutes { nil }
        let leaving = Leaving(
            health: health, wait: .zero,
            supervised: Supervised(environment: ["NOTIFY_SOCKET": "@" + name]))

        await leaving.letProxiesTurnAway()

        var bytes = [UInt8](repeating: 0, count: 100)
        let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        #expect(
            String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
                == "EXTEND_TIMEOUT_USEC=20000000")
    }

    /// A database that answers and takes no writes is up, and yet nothing works.
    @Test func readiness_isWhatReadyzSays_butForAnEndThatIsWanted() async {
        let metrics = Metrics()
        let (ready, closed) = (
            HealthRoutes { nil }, HealthRoutes { "the database is read-only" }
        )
        func isReady(_ health: HealthRoutes) async -> Bool {
            await ReadinessGauge(health: health, metrics: metrics).refresh()
            return metrics.render().contains("\nrepricer_ready 1\n")
        }

        #expect(await isReady(ready))
        #expect(await !isReady(closed))
        #expect(metrics.render().contains("\nrepricer_ready 0\n"))
        ready.leave()
        #expect(await isReady(ready), "it leaves because somebody wants it")
    }
}
