import Facts
import Postgres

/// Checks that settings and database belong to the same app and environment, and that both or neither belong to a
/// rehearsal.
enum AppCheck {
    /// Binds the database to the settings' app if it is not bound yet, and refuses settings of another app. With a
    /// virtual clock it makes the database a rehearsal's.
    static func bind(_ configuration: Configuration, on connection: PostgresConnection) async throws
    {
        if let app = configuration.app {
            let bound = try await connection.read { connection in
                try AppBindingQueries.read(on: connection)
            }
            if bound == nil {
                try await connection.transaction { try AppBindingQueries.bind(app, on: $0) }
            }
        }
        if let clock = configuration.clock?.clock() {
            try await connection.transaction { connection in
                if try !AppBindingQueries.isRehearsal(on: connection) {
                    try AppBindingQueries.beginRehearsal(
                        at: clock.nowMilliseconds(), on: connection)
                }
                try AppBindingQueries.followClock(
                    start: clock.start, rate: clock.rate, origin: clock.origin, on: connection)
            }
        }
        try await check(configuration, on: connection)
    }

    /// Refuses settings that name another app or environment. Settings that name none pass.
    static func check(
        _ configuration: Configuration, on connection: PostgresConnection
    ) async throws {
        let bound = try await connection.read { try AppBindingQueries.read(on: $0) }
        if let problem = problem(configuration, bound) {
            throw CommandFailure(.conflict, problem.description)
        }
    }

    /// The same for a user who may read only schema `report`. If the schema is closed to the user, the report itself
    /// says so. A login with grants on single views, but not on the functions, passes, because it cannot read which app
    /// they are about.
    static func checkReader(
        _ configuration: Configuration, on connection: PostgresConnection
    ) async throws {
        guard configuration.bundleID != nil || configuration.environment != nil else { return }
        let bound: AppBinding?
        do {
            bound = try await connection.read { try AppBindingQueries.readInReports(on: $0) }
        } catch let error as PostgresError
            where error.sqlState == .insufficientPrivilege || error.sqlState == .undefinedSchema
        {
            return
        }
        if let problem = problem(configuration, bound) {
            throw CommandFailure(.conflict, problem.description)
        }
    }

    /// Refuses to call a real App Store for decisions that a program has dated.
    static func checkStore(
        _ configuration: Configuration, on connection: PostgresConnection
    ) async throws {
        guard let base = configuration.apiBaseURL, BaseURL(base)?.isLoopback != true,
            try await connection.read({ try AppBindingQueries.isRehearsal(on: $0) })
        else { return }
        throw CommandFailure(
            .conflict,
            "this database is a rehearsal's, whose clock is virtual, and the settings name a real App Store; "
                + "use a database of its own for it")
    }

    static func problem(
        _ configuration: Configuration, _ bound: AppBinding?
    ) -> ConfigurationProblem? {
        guard let bound else { return nil }
        let isOurs =
            (configuration.bundleID ?? bound.bundleID) == bound.bundleID
            && (configuration.environment?.rawValue ?? bound.environment) == bound.environment
        guard !isOurs else { return nil }
        let isOtherApp = (configuration.bundleID ?? bound.bundleID) != bound.bundleID
        return ConfigurationProblem(
            (isOtherApp ? Variable.bundleID : Variable.environment).rawValue,
            "this database is about \(bound.bundleID) in \(bound.environment), the settings name "
                + "\(configuration.bundleID ?? bound.bundleID) in "
                + "\(configuration.environment?.rawValue ?? bound.environment)",
            remedy: isOtherApp
                ? "use the settings of that app, or a database of its own for this one"
                : "use the settings of that environment, or a database of its own for this one")
    }
}

extension Configuration {
    /// nil where the settings do not name both.
    var app: AppBinding? {
        guard let bundleID, let environment else { return nil }
        return AppBinding(bundleID: bundleID, environment: environment.rawValue)
    }
}
