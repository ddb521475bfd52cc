import Facts
import Postgres

/// Whether settings and database are about the same app and environment.
enum AppCheck {
    /// Binds the database to the settings' app where nobody has yet, and refuses those of another.
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
        try await check(configuration, on: connection)
    }

    /// Refuses settings that name another app or environment; those that name none pass.
    static func check(
        _ configuration: Configuration, on connection: PostgresConnection
    ) async throws {
        let bound = try await connection.read { try AppBindingQueries.read(on: $0) }
        if let problem = problem(configuration, bound) {
            throw CommandFailure(.conflict, problem.description)
        }
    }

    static func problem(
        _ configuration: Configuration, _ bound: AppBinding?
    ) -> ConfigurationProblem? {
        guard let bound else { return nil }
        let isOurs =
            (configuration.bundleID ?? bound.bundleID) == bound.bundleID
            && (configuration.environment?.rawValue ?? bound.environment) == bound.environment
        guard !isOurs else { return nil }
        return ConfigurationProblem(
            Variable.bundleID.rawValue,
            "this database is about \(bound.bundleID) in \(bound.environment), the settings name "
                + "\(configuration.bundleID ?? bound.bundleID) in "
                + "\(configuration.environment?.rawValue ?? bound.environment)",
            remedy: "use the settings of that app, or a database of its own for this one")
    }
}

extension Configuration {
    /// nil where the settings do not name both.
    var app: AppBinding? {
        guard let bundleID, let environment else { return nil }
        return AppBinding(bundleID: bundleID, environment: environment.rawValue)
    }
}
