import Facts
import Postgres
import Reconciliation
import ServiceKit

/// Holds work back until the database can be reached, has a schema that this program can use, and belongs to the app of
/// the settings.
///
/// An unreachable database is waited for, at the start as later. A schema that does not fit, or another app, is an
/// error.
struct SchemaGate: Sendable {
    private static let wait = Backoff(first: .milliseconds(200), max: .seconds(5))

    let pool: PostgresPool
    let configuration: Configuration
    /// The catch-up for which calls wait; nil in a process that makes none.
    let catchUp: CatchUp?
    /// Shared by all waiting services, so that the log has one line for all.
    private let outage: Outage

    init(
        pool: PostgresPool, configuration: Configuration, log: Log, catchUp: CatchUp? = nil
    ) {
        self.pool = pool
        self.configuration = configuration
        self.catchUp = catchUp
        outage = Outage(log: log, level: .warning, failure: "waiting for the database")
    }

    /// False while the database cannot be reached; throws where waiting cannot help.
    func isOpen() async throws -> Bool {
        let schema: SchemaState
        do {
            schema = try await pool.withConnection { connection in
                let schema = try await schemaState(connection)
                if schema.misfit() == nil {
                    try await ServiceRights.check(on: connection)
                    try await AppCheck.bind(configuration, on: connection)
                    try await AppCheck.checkStore(configuration, on: connection)
                    if catchUp != nil, let rate = configuration.changePriceRate {
                        try await connection.transaction { connection in
                            try ServiceControlQueries.noteChangePriceRate(
                                perThousandSeconds: rate.perThousandSeconds, on: connection)
                        }
                    }
                }
                return schema
            }
            if schema.misfit() == nil { try await catchUp?.prepare() }
        } catch let error as PostgresError {
            let failure = CommandFailure(database: error)
            guard failure.code == .unavailable else { throw failure }
            outage.note(failure.message)
            return false
        }
        outage.end()
        try SchemaCheck.check(schema)
        return true
    }

    func waitUntilOpen() async throws {
        var random = SystemRandomNumberGenerator()
        var attempt = 1
        while try await !isOpen() {
            try await Task.sleep(for: Self.wait.delay(attempt: attempt, random: &random))
            attempt += 1
        }
    }
}

/// Ends the service once the database belongs to newer programs: a breaking migration is announced.
///
/// Its calls have stopped already, because each claim checks the database. It only has to let proxies switch to other
/// replicas, store the last answers, and close the connections for which the migration waits.
struct SchemaWatch: Service {
    let name = "schema"
    /// Real time.
    static let every: Duration = .seconds(1)

    let pool: PostgresPool
    let log: Log
    let leaving: Leaving

    func run() async throws {
        while !Task.isCancelled {
            let schema: SchemaState
            do {
                schema = try await pool.withConnection { try await schemaState($0) }
            } catch is CancellationError {
                return
            } catch {
                // The database cannot be reached, which /readyz reports.
                try await Task.sleep(for: Self.every)
                continue
            }
            if let problem = SchemaCheck.problem(schema) {
                log.error("the schema is for newer programs", ["error": problem.description])
                await leaving.letProxiesTurnAway()
                throw CommandFailure(.failed, problem.description)
            }
            try await Task.sleep(for: Self.every)
        }
    }
}

/// Checks the database rights of the service. Without them every call and every notification would fail, one by one,
/// for ever.
enum ServiceRights {
    /// `table` is the table that the caller will write, for the message. The right to write it comes with those of the
    /// service.
    static func check(
        on connection: PostgresConnection, writing table: String? = nil
    ) async throws {
        guard let closed = try await tableClosedToService(connection) else { return }
        let table = table ?? closed
        throw CommandFailure(
            .approvalNeededOrRefused,
            "this database user may not write \(table); GRANT repricer_service to it, or use "
                + "another user")
    }
}

/// A service that starts once the gate is open.
struct GatedService: Service {
    let gate: SchemaGate
    let inner: any Service
    var stopsAtOnce = false

    var name: String { inner.name }

    func run() async throws {
        try await gate.waitUntilOpen()
        try await inner.run()
    }
}
