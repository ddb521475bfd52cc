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
        /// What the latest probe was refused with.
        package var haltedAnswer: String?
        /// Kinds of call that have stopped, since they are refused alike, in the order of their names.
        package var haltedKinds: [KindHalt] = []
        /// Kinds whose calls are few, since the App Store gives no answers, in the order of their names.
        package var throttledKinds: [KindThrottle] = []
        /// Kinds of which some call was refused since one that fares alike succeeded.
        package var refusedKinds: [String] = []
        /// No call leaves until what the App Store says since then is read.
        package var catchUpSince: Int64?
        /// Real time: reading begins then.
        package var catchUpFrom: Int64?
        /// The person who recovers; nil: the service reads by itself.
        package var catchUpBy: String?
        /// Whoever is asked for it: a person's pause, or a catching up.
        package var isHeld: Bool
        /// Real time, UTC milliseconds: since when rows are held that calls wait for, and who holds them.
        package var heldSince: Int64?
        package var heldBy: String?
        /// Changes are due and none can be claimed; else others go on.
        package var heldIsAll = false

        package var isHalted: Bool { haltedAt != nil }

        /// Whether one call of the kind asks for all.
        package func isHalted(_ kind: StoreCall.Kind) -> Bool {
            isHalted || haltedKinds.contains { $0.kind == kind.rawValue }
        }
    }

    /// Calls of one kind are refused alike; one a minute asks whether they still are.
    package struct KindHalt: Sendable, Equatable {
        package var kind: String
        /// UTC milliseconds.
        package var at: Int64
        package var reason: String
        /// What the latest probe was refused with.
        package var answer: String?
    }

    /// Calls of one kind get no answers.
    package struct KindThrottle: Sendable, Equatable {
        package var kind: String
        /// UTC milliseconds, as `until`: the next call leaves then.
        package var since: Int64
        package var until: Int64
        /// The latest one.
        package var answer: String
    }

    /// Whether no call may leave: paused, catching up, in a database that the service does not know yet, or in one that
    /// belongs to newer programs. Each claim asks, so that none is made once a breaking migration is announced.
    package static let isHeld: SQL = """
        (SELECT is_paused OR catch_up_since IS NOT NULL OR lowest_program > \(expectedSchemaVersion)
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
            SELECT s.*, \(fragment: isHeld) AS is_held, u.since AS held_since, u.sessions AS held_by,
                coalesce(u.is_all, false) AS held_is_all,
                ARRAY(SELECT DISTINCT r.kind FROM repricer.refusal_streaks r
                    WHERE r.refused <> '{}') AS refused_kinds, k.kind, k.is_halt, k.kind_at, k.kind_until, k.kind_reason,
                k.kind_answer
            FROM repricer.service_controls s
            LEFT JOIN LATERAL (
                SELECT (s.unclaimed ->> 'since')::timestamptz AS since, s.unclaimed ->> 'sessions' AS sessions,
                    (s.unclaimed ->> 'is_all')::boolean AS is_all
                WHERE repricer.was_just_now((s.unclaimed ->> 'seen_at')::timestamptz)
            ) u ON true
            LEFT JOIN LATERAL (
                SELECT key AS kind, true AS is_halt, (value ->> 'at')::timestamptz AS kind_at,
                    NULL::timestamptz AS kind_until, value ->> 'reason' AS kind_reason,
                    value ->> 'answer' AS kind_answer
                FROM jsonb_each(s.halted_kinds)
                UNION ALL
                SELECT key, false, (value ->> 'since')::timestamptz, (value ->> 'until')::timestamptz, NULL,
                    value ->> 'answer'
                FROM jsonb_each(s.throttled_kinds)
            ) k ON true
            ORDER BY k.kind
            """
        ) { rows in
            guard let row = rows.first else { throw FactsError.unreadable("service_controls") }
            var everything = Everything(
                isPaused: try row.bool("is_paused"), pausedBy: try row.textOrNil("paused_by"),
                pausedAt: try row.millisecondsOrNil("paused_at"),
                pausedReason: try row.textOrNil("paused_reason"),
                haltedAt: try row.millisecondsOrNil("halted_at"),
                haltedReason: try row.textOrNil("halted_reason"),
                haltedAnswer: try row.textOrNil("halted_answer"),
                catchUpSince: try row.millisecondsOrNil("catch_up_since"),
                catchUpFrom: try row.millisecondsOrNil("catch_up_from"),
                catchUpBy: try row.textOrNil("catch_up_by"), isHeld: try row.bool("is_held"),
                heldSince: try row.millisecondsOrNil("held_since"),
                heldBy: try row.textOrNil("held_by"), heldIsAll: try row.bool("held_is_all"))
            everything.refusedKinds = try row.texts("refused_kinds")
            for row in rows {
                guard let kind = try row.textOrNil("kind") else { continue }
                if try row.bool("is_halt") {
                    everything.haltedKinds.append(try halt(kind, row))
                } else {
                    everything.throttledKinds.append(try throttle(kind, row))
                }
            }
            return everything
        }
    }

    private static func halt(_ kind: String, _ row: Row) throws -> KindHalt {
        KindHalt(
            kind: kind, at: try row.milliseconds("kind_at"),
            reason: try row.textOrNil("kind_reason") ?? "",
            answer: try row.textOrNil("kind_answer"))
    }

    private static func throttle(_ kind: String, _ row: Row) throws -> KindThrottle {
        KindThrottle(
            kind: kind, since: try row.milliseconds("kind_at"),
            until: try row.milliseconds("kind_until"),
            answer: try row.textOrNil("kind_answer") ?? "")
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

    /// Lets calls go on. `restoredAt` (UTC milliseconds of the business clock): no call of a lost database can be on its way
    /// later, and no status was read since; nil where the statuses were read.
    package static func endCatchUp(restoredAt: Int64?) -> SQL {
        """
        -- name: endCatchUp
        SELECT repricer.end_catch_up(\(timestamp: restoredAt))
        """
    }

    /// Rows are held since that instant of real time, `isAll`: and no change that is due can be claimed; nil: none are any
    /// more.
    package static func noteUnclaimed(since: Int64?, sessions: String?, isAll: Bool) -> SQL {
        """
        -- name: noteUnclaimed
        SELECT repricer.note_unclaimed(\(timestamp: since), \(sessions)::text, \(isAll))
        """
    }

    /// Stops the service; false where it has stopped already. `since` is the first of the refusals of calls of this kind, UTC
    /// milliseconds of the business clock: what ended by them is put back.
    package static func haltService(
        reason: String, at: Int64, by kind: StoreCall.Kind, since: Int64?,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: haltService
            SELECT repricer.halt_service(\(timestamp: at), \(reason)::text, \(kind.rawValue)::text,
                \(timestamp: since)) AS is_new
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

    // MARK: Kinds of call

    /// Stops one kind of call; false where it has stopped already. `since` as above.
    package static func halt(
        _ kind: StoreCall.Kind, reason: String, at: Int64, since: Int64?,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: haltKind
            SELECT repricer.halt_kind(\(kind.rawValue)::text, \(timestamp: at), \(reason)::text,
                \(timestamp: since)) AS is_new
            """
        ).one().bool("is_new")
    }

    /// A call of the kind was answered; false where it had not stopped.
    package static func recover(
        _ kind: StoreCall.Kind, at: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: recoverKind
            SELECT repricer.recover_kind(\(kind.rawValue)::text, \(timestamp: at)) AS is_new
            """
        ).one().bool("is_new")
    }

    /// What the latest probe was refused with: of the service, or of one kind of call.
    package static func noteHaltAnswer(_ kind: StoreCall.Kind?, _ answer: String) -> SQL {
        """
        -- name: noteHaltAnswer
        SELECT repricer.note_halt_answer(\(kind?.rawValue)::text, \(answer)::text)
        """
    }

    /// Calls of the kind are few: the next one leaves at `until`.
    package static func throttle(
        _ kind: StoreCall.Kind, until: Int64, answer: String, at: Int64
    ) -> SQL {
        """
        -- name: throttleKind
        SELECT repricer.throttle_kind(\(kind.rawValue)::text, \(timestamp: at), \(timestamp: until),
            \(answer)::text)
        """
    }

    /// The App Store answers again; false where calls of the kind were not few.
    package static func endThrottle(
        _ kind: StoreCall.Kind, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: endThrottle
            SELECT repricer.end_throttle(\(kind.rawValue)::text) AS is_new
            """
        ).one().bool("is_new")
    }
}
