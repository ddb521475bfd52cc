import Facts
import HTTP
import Notifications
import Pages
import Postgres
import ServiceKit

/// The port of the pages, metrics and health.
extension Live {
    static let showing: [Variable] = [.pagesListen, .pagesTokenFile]

    /// Only a few people and their monitoring use it, and each connection has a thread.
    private static let connectionsMax = 64

    /// The liveness and readiness of this process, which each of its ports serves.
    func health(_ pool: DatabasePool) -> HealthRoutes {
        let store = NotificationStore(pool: pool)
        return HealthRoutes { await store.obstacle() }
    }

    /// Connections of the pages, apart from those that deliver; and how long one statement of theirs may take.
    private static let databaseConnections = 4
    private static let statementTimeout: Duration = .seconds(60)

    /// The pages' own read-only connections, so that a reader of a long report takes none from delivery.
    var pagesPool: DatabasePool {
        DatabasePool(
            conninfo: configuration.databaseConninfo, applicationName: "repricer pages",
            size: Self.databaseConnections,
            options: .init(statementTimeout: Self.statementTimeout, isReadOnly: true),
            waitMax: .seconds(10), watch: watch("pages"))
    }

    /// The metrics of a pool.
    func watch(_ pool: String) -> PoolWatch {
        PoolWatch(name: pool, metrics: metrics, outage: databaseOutage)
    }

    private var about: Site.About {
        Site.About(
            version: Commands.productVersion, bundleID: configuration.bundleID ?? "",
            environment: configuration.environment?.rawValue ?? "",
            isRehearsal: configuration.clock != nil,
            callsPerThousandSeconds: configuration.changePriceRate?.perThousandSeconds,
            silentAfter: (configuration.silentAfter ?? .seconds(86_400)).milliseconds)
    }

    /// Listens on the port of the pages. Returns the server and the watch of its password file; empty where the pages
    /// are switched off. Only the pages use `pool`.
    func pages(_ pool: DatabasePool, _ health: HealthRoutes) throws -> [any Service] {
        guard let listen = configuration.pagesListen else { return [] }
        let log = log.with(component: "pages")
        let password = try secret(.pagesTokenFile, configuration.pagesTokenFile, "pages")
        let site = Site(pool: pool, clock: clock, about: about, log: log)
        let routes = PageRoutes(
            site: site, health: health, password: password?.secret, metrics: metrics)
        var limits = HTTPServerLimits()
        limits.connectionsMax = Self.connectionsMax
        limits.addressSharePercent = 50
        let server = try HTTPServer(
            name: "pages", host: listen.host, port: listen.port, limits: limits,
            log: self.log.with(component: "http"),
            refused: HTTPServer.refusals(of: "pages", in: metrics)
        ) { await routes.respond(to: $0) }
        do throws(HTTPServerError) {
            let port = try server.bind()
            log.notice(
                "pages listening",
                [
                    "port": String(port),
                    "password": password == nil ? "none, for this machine only" : "asked for",
                ])
        } catch {
            throw CommandFailure.cannotListen(.pagesListen, error)
        }
        return [server] + (password.map { [$0.watch] } ?? [])
    }
}
