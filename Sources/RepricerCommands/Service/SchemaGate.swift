import Facts
import Postgres
import Reconciliation
import ServiceKit

/// Holds work back until the database is there, and has a schema that this program can use and the app of its settings.
///
/// A database that is away at the start is a state to wait out, as it is later; one whose schema does not fit, or of
/// another app, is an error.
struct SchemaGate: Sendable {
    private static let wait = Backoff(first: .milliseconds(200), max: .seconds(5))

    let pool: PostgresPool
    let configuration: Configuration
    /// What calls wait for, where this process makes any.
    let catchUp: CatchUp?
    /// Shared by all that wait: one line while they do.
    private let outage: Outage

    init(
        pool: PostgresPool, configuration: Configuration, log: Log, catchUp: CatchUp? = nil
    ) {
        self.pool = pool
        self.configuration = configuration
        self.catchUp = catchUp
        outage = Outage(log: log, level: .warning, failure: "waiting for the database")
    }

    /// False while the database is away; throws where waiting cannot help.
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
/// Its calls have stopped already, for each claim asks the database. What is left is to let proxies turn away, to take the
/// last answers, and to hold no connection that the migration would wait for.
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
                // The database is away, and /readyz says so.
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

/// What the service may do. Without it every call and every notification would fail, one by one, for ever.
enum ServiceRights {
    /// `table`: what the caller is about to write, for the message; its rights come with those of the service.
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

/// A service that begins once the gate is open.
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
