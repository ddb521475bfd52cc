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
        /// No call leaves until what the App Store says since then is read.
        package var catchUpSince: Int64?
        /// Real time: reading begins then.
        package var catchUpFrom: Int64?
        /// The person who recovers; nil: the service reads by itself.
        package var catchUpBy: String?
        /// Whoever is asked for it: a person's pause, or a catching up.
        package var isHeld: Bool

        package var isHalted: Bool { haltedAt != nil }
    }

    /// Whether no call may leave: paused, catching up, or in a database that the service does not know yet.
    package static let isHeld: SQL = """
        (SELECT is_paused OR catch_up_since IS NOT NULL
            OR coalesce(database_identity <> repricer.database_identity(), false)
        FROM repricer.service_controls)
        """

    package static func everything(
        on connection: isolated PostgresConnection
    ) throws -> Everything {
        try connection.ask(everything)
    }

    package static var everything: Question<Everything> {
        Question(
            """
            -- name: everythingControls
            SELECT *, \(fragment: isHeld) AS is_held FROM repricer.service_controls
            """
        ) { rows in
            let row = try rows.one()
            return Everything(
                isPaused: try row.bool("is_paused"), pausedBy: try row.textOrNil("paused_by"),
                pausedAt: try row.millisecondsOrNil("paused_at"),
                pausedReason: try row.textOrNil("paused_reason"),
                haltedAt: try row.millisecondsOrNil("halted_at"),
                haltedReason: try row.textOrNil("halted_reason"),
                catchUpSince: try row.millisecondsOrNil("catch_up_since"),
                catchUpFrom: try row.millisecondsOrNil("catch_up_from"),
                catchUpBy: try row.textOrNil("catch_up_by"), isHeld: try row.bool("is_held"))
        }
    }

    /// Notices a database that is another one than before, or whose history was last read before `oldest`, and holds
    /// calls back where it is. `from`: real time.
    package static func noteDatabase(at: Int64, from: Int64, oldest: Int64?) -> SQL {
        """
        -- name: noteDatabase
        SELECT repricer.note_database(\(timestamp: at), \(timestamp: from), \(timestamp: oldest))
        """
    }

    /// Holds calls back until what the App Store says since then is read; returns how many changes may have been called
    /// unknown to this database. `from`: real time. `byPerson`: until that person ends it; else the service does.
    package static func beginCatchUp(
        since: Int64, from: Int64, at: Int64, byPerson: Bool,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.query(
            """
            -- name: beginCatchUp
            SELECT repricer.begin_catch_up(\(timestamp: since), \(timestamp: from), \(timestamp: at),
                \(byPerson)) AS changes
            """
        ).one().int("changes")
    }

    package static let endCatchUp: SQL = """
        -- name: endCatchUp
        SELECT repricer.end_catch_up()
        """

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
