import Facts
import HTTP
import Notifications
import Reports
import ServiceKit

/// The port of the pages, metrics and health.
extension Live {
    static let showing: [Variable] = [.pagesListen, .pagesTokenFile]

    /// People and their monitoring, no crowd: each connection has a thread.
    private static let connectionsMax = 64

    /// Whether this process lives and is ready, told on each of its ports.
    func health(_ pool: DatabasePool) -> HealthRoutes {
        let store = NotificationStore(pool: pool)
        return HealthRoutes { await store.obstacle() }
    }

    /// Listens on the port of the pages; returns what serves it, and what keeps its password up to date. Empty where
    /// the pages are switched off.
    func pages(_ pool: DatabasePool, _ health: HealthRoutes) throws -> [any Service] {
        guard let listen = configuration.pagesListen else { return [] }
        let log = log.with(component: "pages")
        let password = try secret(.pagesTokenFile, configuration.pagesTokenFile, "pages")
        let routes = PageRoutes(
            pages: StatusPages(reports: ReportStore(pool: pool), clock: clock, log: log),
            health: health, password: password?.secret, metrics: metrics)
        var limits = HTTPServerLimits()
        limits.connectionsMax = Self.connectionsMax
        limits.addressSharePercent = 50
        let server = try HTTPServer(
            name: "pages", host: listen.host, port: listen.port, limits: limits,
            log: self.log.with(component: "http")
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
