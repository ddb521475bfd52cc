package import Postgres

/// The switch that holds everything back, and the halt of the whole service.
package enum ServiceControlQueries {
    /// The switch for everything; instants are UTC milliseconds.
    package struct Everything: Sendable, Equatable {
        package var isPaused: Bool
        package var pausedBy: String?
        package var pausedAt: Int64?
        package var pausedReason: String?
        /// Since when the service itself has stopped: calls are refused alike; one a minute asks whether they still are.
        package var haltedAt: Int64?
        package var haltedReason: String?

        package var isHalted: Bool { haltedAt != nil }
    }

    package static func everything(
        on connection: isolated PostgresConnection
    ) throws -> Everything {
        try connection.ask(everything)
    }

    package static var everything: Question<Everything> {
        Question(
            """
            -- name: everythingControls
            SELECT * FROM repricer.service_controls
            """
        ) { rows in
            let row = try rows.one()
            return Everything(
                isPaused: try row.bool("is_paused"), pausedBy: try row.textOrNil("paused_by"),
                pausedAt: try row.millisecondsOrNil("paused_at"),
                pausedReason: try row.textOrNil("paused_reason"),
                haltedAt: try row.millisecondsOrNil("halted_at"),
                haltedReason: try row.textOrNil("halted_reason"))
        }
    }

    /// Stops the service; false where it has stopped already.
    package static func haltService(
        reason: String, at: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: haltService
            SELECT repricer.halt_service(\(timestamp: at), \(reason)::text) AS is_new
            """
        ).one().bool("is_new")
    }

    /// A call was answered again; false where the service had not stopped.
    package static func recoverService(
        at: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: recoverService
            SELECT repricer.recover_service(\(timestamp: at)) AS is_new
            """
        ).one().bool("is_new")
    }
}
