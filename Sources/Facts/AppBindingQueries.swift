package import Postgres

/// The app and the environment that a database belongs to. They never change.
package struct AppBinding: Hashable, Sendable {
    package var bundleID: String
    package var environment: String

    package init(bundleID: String, environment: String) {
        self.bundleID = bundleID
        self.environment = environment
    }
}

package enum AppBindingQueries {
    /// Returns nil where no program has bound the database yet.
    package static func read(on connection: isolated PostgresConnection) throws -> AppBinding? {
        try binding(
            """
            -- name: appBinding
            SELECT bundle_id, environment FROM repricer.app_binding
            """, on: connection)
    }

    /// The same for a database user who may read only schema `report`.
    package static func readInReports(
        on connection: isolated PostgresConnection
    ) throws -> AppBinding? {
        try binding(
            """
            -- name: appOfReports
            SELECT bundle_id, environment FROM report.app()
            """, on: connection)
    }

    private static func binding(
        _ question: SQL, on connection: isolated PostgresConnection
    ) throws -> AppBinding? {
        try connection.query(question).first.map {
            try AppBinding(bundleID: $0.text("bundle_id"), environment: $0.text("environment"))
        }
    }

    /// Whether this database belongs to a rehearsal: decisions in it bear the instants of a virtual clock.
    package static func isRehearsal(on connection: isolated PostgresConnection) throws -> Bool {
        try connection.query(
            """
            -- name: isRehearsal
            SELECT is_rehearsal FROM repricer.service_controls
            """
        ).one().bool("is_rehearsal")
    }

    /// Marks the database as one of a rehearsal, for good. The database refuses this once anything was submitted.
    package static func beginRehearsal(
        at: Int64, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.query(
            """
            -- name: beginRehearsal
            SELECT repricer.begin_rehearsal(\(timestamp: at))
            """)
    }

    /// Sets the clock by which a rehearsal's database dates what it records. The clock shows `start` at the real
    /// instant `origin` and advances `rate` seconds a second. Both instants are UTC milliseconds.
    package static func followClock(
        start: Int64, rate: Double, origin: Int64, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.query(
            """
            -- name: followClock
            SELECT repricer.follow_clock(\(timestamp: start), \("\(rate)")::double precision, \(timestamp: origin))
            """)
    }

    /// Binds the database where nobody has yet. The caller reads the binding afterwards, since another program may
    /// have been earlier.
    package static func bind(
        _ app: AppBinding, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.query(
            """
            -- name: bindApp
            SELECT repricer.bind_app(\(app.bundleID), \(app.environment))
            """)
    }
}
