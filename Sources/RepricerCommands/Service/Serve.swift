import Ledger
import Receiver
import ServiceKit

extension Commands {
    private static let only = ValueOption(
        "only", "PART", "run one part of the service; both when left out",
        choices: ["scheduler", "receiver"])
    /// Lanes, projector, canceller, receiver, status pages, and one to spare.
    private static let connections = 12

    static let serve = Command(
        "serve", "run the service: take notifications in, deliver changes, follow consent",
        options: [only],
        discussion: """
            Any number may run side by side; they share nothing but the database. The scheduler part folds \
            notifications as well. SIGTERM drains and ends it.
            """
    ) { invocation in
        let part = invocation.arguments[only]
        let configuration = try invocation.configuration()
        var needed = Live.common
        if part != "receiver" { needed += Live.scheduling }
        if part != "scheduler" { needed += Live.receiving }
        try configuration.check(needed)
        let live = try await Live(invocation, configuration)
        return try await invocation.withPool(configuration, size: connections) { pool in
            var services: [any Service] = []
            if part != "receiver" { services += try live.delivery(pool) }
            if part != "scheduler" {
                let (routes, server) = try live.receiver(pool)
                let port = try server.bind()
                services += [server, Drain(routes: routes)]
                live.log.notice("listening", ["port": String(port)])
            }
            live.log.notice("serving", ["part": part ?? "all"])
            try await ServiceGroup(services, log: live.log)
                .run(until: invocation.world.terminations())
            live.log.notice("stopped")
            return .done
        }
    }
}

/// Last to start and so first to stop: from then on senders are told to come again elsewhere.
private struct Drain: Service {
    let name = "drain"
    let routes: ReceiverRoutes

    func run() async throws {
        defer { routes.drain() }
        while !Task.isCancelled { try await Task.sleep(for: .seconds(3600)) }
    }
}
