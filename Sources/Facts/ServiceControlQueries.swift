package import Postgres

/// What holds calls back: a pause of everything, a halt of the service or of a kind, and a catch-up after a restore.
package enum ServiceControlQueries {
    /// The controls that concern every call. Instants are UTC milliseconds.
    package struct Everything: Sendable, Equatable {
        package var isPaused: Bool
        package var pausedBy: String?
        package var pausedAt: Int64?
        package var pausedReason: String?
        /// Since when the service has halted itself, because calls are refused alike. One call a minute asks whether
        /// they still are.
        package var haltedAt: Int64?
        package var haltedReason: String?
        /// The answer with which the latest probe was refused.
        package var haltedAnswer: String?
        /// The kinds of call that are halted, because they are refused alike, in the order of their names.
        package var haltedKinds: [KindHalt] = []
        /// The kinds of call that are throttled, because the App Store gives no answers, in the order of their names.
        package var throttledKinds: [KindThrottle] = []
        /// The kinds of call of which none can leave, in the order of their names.
        package var unreachedKinds: [KindUnreached] = []
        /// The kinds of which some call was refused since the last one that succeeded.
        package var refusedKinds: [String] = []
        /// No call leaves until everything that the App Store has said since then is read.
        package var catchUpSince: Int64?
        /// When reading begins, in real time.
        package var catchUpFrom: Int64?
        /// The person who recovers the database; nil where the service reads by itself.
        package var catchUpBy: String?
        /// Why the latest read of the history, or of statuses, was not completed.
        package var catchUpAnswer: String?
        /// Whether no call may leave, whatever the cause: a person's pause, a catch-up, or a database of newer
        /// programs.
        package var isHeld: Bool
        /// Since when another session holds rows that calls wait for, in UTC milliseconds of real time.
        package var heldSince: Int64?
        package var heldBy: String?
        /// Whether changes are due and none can be claimed. Otherwise some go on.
        package var heldIsAll = false

        package var isHalted: Bool { haltedAt != nil }

        /// Whether the halt of the service concerns calls of the kind. A halt for our key, or for the token that it
        /// signs, concerns all kinds. Any other refusal of price changes says nothing about other endpoints.
        package func isServiceHalted(_ kind: StoreCall.Kind) -> Bool {
            isHalted && (kind == .priceChange || haltedReason?.hasPrefix("401") ?? false)
        }

        /// Whether calls of the kind are halted, so that one call at a time is sent as a probe.
        package func isHalted(_ kind: StoreCall.Kind) -> Bool {
            isServiceHalted(kind) || haltedKinds.contains { $0.kind == kind.rawValue }
        }
    }

    /// A kind of call that is halted, because its calls are refused alike. One call a minute asks whether they still
    /// are.
    package struct KindHalt: Sendable, Equatable {
        package var kind: String
        /// When it began, in UTC milliseconds.
        package var at: Int64
        package var reason: String
        /// The answer with which the latest probe was refused.
        package var answer: String?
    }

    /// A kind of call whose calls get no answers.
    package struct KindThrottle: Sendable, Equatable {
        package var kind: String
        /// When it began; the next call leaves at `until`. Both are UTC milliseconds.
        package var since: Int64
        package var until: Int64
        /// The latest answer.
        package var answer: String
    }

    /// A kind of call of which none can leave: the App Store is out of reach. Each is tried again.
    package struct KindUnreached: Sendable, Equatable {
        package var kind: String
        /// Since when none could be sent, and when one was last tried, noted once a minute. Both are UTC milliseconds.
        package var since: Int64
        package var tried: Int64
        /// Why the latest call did not leave.
        package var answer: String
    }

    /// Whether no call may leave: delivery is paused, or catching up, or the service does not know this database yet,
    /// or the database belongs to newer programs. Each claim checks this, so that none is made once a breaking
    /// migration is announced.
    package static let isHeld: SQL = """
        (SELECT is_paused OR catch_up_since IS NOT NULL OR lowest_program > \(expectedSchemaVersion)
            OR coalesce(database_identity <> repricer.database_identity(), false)
        FROM repricer.service_controls)
        """

    /// Whether a breaking migration is announced that this program does not know.
    package static let isForNewerPrograms: SQL = """
        (SELECT lowest_program > \(expectedSchemaVersion) FROM repricer.service_controls)
        """

    /// True, or the error `SQLState.programTooOld` with its remedy where such a migration is announced. Everything that
    /// folds, stores, decides or drops includes it in a statement that it sends anyway, so that even a command that
    /// runs for days stops. Answers of calls that were sent before are still written, because the migration waits for
    /// them.
    package static let allowsThisProgram: SQL = """
        (SELECT repricer.allow_program(\(expectedSchemaVersion)::integer))
        """

    /// The same for a script.
    package static let allowingThisProgram =
        "SELECT repricer.allow_program(\(expectedSchemaVersion));"

    /// The most calls of the service in a thousand seconds; nil where no replica has started yet.
    package static func changePriceRate(
        on connection: isolated PostgresConnection
    ) throws -> Int? {
        try connection.query(
            "-- name: changePriceRate\nSELECT change_price_rate FROM repricer.service_controls"
        ).oneOrNil()?.intOrNil("change_price_rate")
    }

    package static func noteChangePriceRate(
        perThousandSeconds rate: Int, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.query(
            "-- name: noteChangePriceRate\nSELECT repricer.note_change_price_rate(\(rate)::integer)"
        )
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
            SELECT s.*, \(fragment: isHeld) AS is_held, u.since AS held_since, u.sessions AS held_by,
                coalesce(u.is_all, false) AS held_is_all,
                ARRAY(SELECT DISTINCT r.kind FROM repricer.refusal_streaks r
                    WHERE r.refused <> '{}' OR r.batch_id IS NOT NULL) AS refused_kinds, k.kind, k.what, k.kind_at, k.kind_until,
                k.kind_reason, k.kind_answer
            FROM repricer.service_controls s
            LEFT JOIN repricer.blocking_sessions u ON u.since IS NOT NULL AND repricer.was_just_now(u.seen_at)
            LEFT JOIN LATERAL (
                SELECT key AS kind, 'halt' AS what, (value ->> 'at')::timestamptz AS kind_at,
                    NULL::timestamptz AS kind_until, value ->> 'reason' AS kind_reason,
                    value ->> 'answer' AS kind_answer
                FROM jsonb_each(s.halted_kinds)
                UNION ALL
                SELECT key, 'throttle', (value ->> 'since')::timestamptz, (value ->> 'until')::timestamptz, NULL,
                    value ->> 'answer'
                FROM jsonb_each(s.throttled_kinds)
                UNION ALL
                SELECT key, 'unreached', (value ->> 'since')::timestamptz, (value ->> 'tried')::timestamptz, NULL,
                    value ->> 'answer'
                FROM jsonb_each(s.unreached_kinds)
                WHERE repricer.was_just_now((value ->> 'seen')::timestamptz)
            ) k ON true
            ORDER BY k.kind
            """
        ) { rows in
            guard let row = rows.first else { throw FactsError.unreadable("service_controls") }
            var everything = try Everything(
                isPaused: row.bool("is_paused"), pausedBy: row.textOrNil("paused_by"),
                pausedAt: row.millisecondsOrNil("paused_at"),
                pausedReason: row.textOrNil("paused_reason"),
                haltedAt: row.millisecondsOrNil("halted_at"),
                haltedReason: row.textOrNil("halted_reason"),
                haltedAnswer: row.textOrNil("halted_answer"),
                catchUpSince: row.millisecondsOrNil("catch_up_since"),
                catchUpFrom: row.millisecondsOrNil("catch_up_from"),
                catchUpBy: row.textOrNil("catch_up_by"), isHeld: row.bool("is_held"),
                heldSince: row.millisecondsOrNil("held_since"), heldBy: row.textOrNil("held_by"),
                heldIsAll: row.bool("held_is_all"))
            everything.catchUpAnswer = try row.textOrNil("catch_up_answer")
            everything.refusedKinds = try row.texts("refused_kinds")
            for row in rows {
                guard let kind = try row.textOrNil("kind") else { continue }
                switch try row.text("what") {
                case "halt": everything.haltedKinds.append(try halt(kind, row))
                case "throttle": everything.throttledKinds.append(try throttle(kind, row))
                default: everything.unreachedKinds.append(try unreached(kind, row))
                }
            }
            return everything
        }
    }

    private static func halt(_ kind: String, _ row: Row) throws -> KindHalt {
        try KindHalt(
            kind: kind, at: row.milliseconds("kind_at"), reason: row.textOrNil("kind_reason") ?? "",
            answer: row.textOrNil("kind_answer"))
    }

    private static func throttle(_ kind: String, _ row: Row) throws -> KindThrottle {
        try KindThrottle(
            kind: kind, since: row.milliseconds("kind_at"), until: row.milliseconds("kind_until"),
            answer: row.textOrNil("kind_answer") ?? "")
    }

    private static func unreached(_ kind: String, _ row: Row) throws -> KindUnreached {
        try KindUnreached(
            kind: kind, since: row.milliseconds("kind_at"), tried: row.milliseconds("kind_until"),
            answer: row.textOrNil("kind_answer") ?? "")
    }

    /// Notices that the database is another one than before, or that its history was last read before `oldest`, and
    /// holds calls back in that case. `from` is real time.
    package static func noteDatabase(at: Int64, from: Int64, oldest: Int64?) -> SQL {
        """
        -- name: noteDatabase
        SELECT repricer.note_database(\(timestamp: at), \(timestamp: from), \(timestamp: oldest))
        """
    }

    /// Holds calls back until everything that the App Store has said since `since` is read. Returns how many changes a
    /// lost database may have called without this one knowing. `from` is real time. With `byPerson` a person ends the
    /// catch-up, otherwise the service.
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

    /// Ends the catch-up. `isRestored`: a database was lost, and the statuses of subscriptions that it may have called
    /// are still to be read.
    package static func endCatchUp(isRestored: Bool) -> SQL {
        """
        -- name: endCatchUp
        SELECT repricer.end_catch_up(\(isRestored))
        """
    }

    /// Notes why a read was not completed; does nothing unless calls wait for that read.
    package static func noteCatchUpAnswer(_ answer: String) -> SQL {
        """
        -- name: noteCatchUpAnswer
        SELECT repricer.note_catch_up_answer(\(answer)::text)
        """
    }

    /// Notes since when, in real time, other sessions hold rows. `isAll` says that no due change can be claimed.
    /// `since: nil` says that nobody holds any.
    package static func noteUnclaimed(since: Int64?, sessions: String?, isAll: Bool) -> SQL {
        """
        -- name: noteUnclaimed
        SELECT repricer.note_unclaimed(\(timestamp: since), \(sessions)::text, \(isAll))
        """
    }

    /// Halts the service. Returns false where it is halted already. `since` is the first of the refusals of this
    /// kind, in UTC milliseconds of the business clock: what ended by them is put back.
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

    /// Ends the halt of the service after an answered call. Returns false where it was not halted.
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

    /// Halts one kind of call. Returns false where it is halted already. `since` is as in `haltService`.
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

    /// Ends the halt of a kind after an answered call. Returns false where it was not halted.
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

    /// Notes the answer with which the latest probe was refused: that of the service, or that of a kind.
    package static func noteHaltAnswer(_ kind: StoreCall.Kind?, _ answer: String) -> SQL {
        """
        -- name: noteHaltAnswer
        SELECT repricer.note_halt_answer(\(kind?.rawValue)::text, \(answer)::text)
        """
    }

    /// Throttles a kind of call: the next one leaves at `until`.
    package static func throttle(
        _ kind: StoreCall.Kind, until: Int64, answer: String, at: Int64
    ) -> SQL {
        """
        -- name: throttleKind
        SELECT repricer.throttle_kind(\(kind.rawValue)::text, \(timestamp: at), \(timestamp: until),
            \(answer)::text)
        """
    }

    /// Ends the throttle, because the App Store answers again. Returns false where the kind was not throttled.
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

    /// Notes that no call of the kind can leave.
    package static func noteUnreached(_ kind: StoreCall.Kind, answer: String, at: Int64) -> SQL {
        """
        -- name: noteUnreached
        SELECT repricer.note_unreached(\(kind.rawValue)::text, \(timestamp: at), \(answer)::text)
        """
    }

    /// Ends that note, because a call of the kind was answered.
    package static func endUnreached(_ kind: StoreCall.Kind) -> SQL {
        """
        -- name: endUnreached
        SELECT repricer.end_unreached(\(kind.rawValue)::text)
        """
    }
}
