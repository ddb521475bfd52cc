package import Postgres

/// A streak of refusals without a success between them, over all replicas.
package struct StoredStreak: Hashable, Sendable {
    /// The batch; nil in the streak of the whole kind.
    package var batchID: String?
    package var storefront: String?
    package var code: Int
    /// The subscriptions that were refused with this code, and those that were refused with any code; sorted.
    package var alike: [String] = []
    package var refused: [String] = []
    /// The subscriptions that were refused again at their second chance; sorted. `alike` and `refused` do not contain
    /// them.
    package var refusedAgain: [String] = []
    /// In the streak of the whole kind, some subscriptions of each batch; sorted.
    package var batches: [Pair] = []
    /// When it began, in UTC milliseconds of the business clock.
    package var since: Int64
    /// When it halted something, in UTC milliseconds of real time.
    package var haltedAt: Int64?
    package var isAboutKey = false
    /// In the streak of the whole kind, the subscriptions whose "done already" refusals are not counted until a status
    /// shows whether they are true; sorted.
    package var believedDone: [Believed] = []

    package struct Believed: Hashable, Sendable {
        package var subject: String
        /// When it was refused, in UTC milliseconds of real time.
        package var at: Int64

        package init(subject: String, at: Int64) {
            self.subject = subject
            self.at = at
        }
    }

    package struct Pair: Hashable, Sendable {
        package var batchID: String
        package var subscription: String

        package init(batchID: String, subscription: String) {
            self.batchID = batchID
            self.subscription = subscription
        }
    }

    package init(batchID: String?, storefront: String?, code: Int, since: Int64) {
        self.batchID = batchID
        self.storefront = storefront
        self.code = code
        self.since = since
    }
}

/// The stored streaks. Whoever judges refusals locks them first, so that replicas judge one after another.
package enum RefusalStreakQueries {
    /// Locks and reads the streaks of a kind. No other process judges calls of that kind until the transaction ends.
    package static func lock(
        _ kind: StoreCall.Kind, on connection: isolated PostgresConnection
    ) throws -> [StoredStreak] {
        // The lock is a statement of its own: only the next statement sees what others added while this one waited.
        _ = try connection.query(
            """
            -- name: lockStreaks
            SELECT 1 FROM repricer.refusal_streaks
            WHERE kind = \(kind.rawValue) AND batch_id IS NULL AND storefront IS NULL FOR UPDATE
            """)
        return try read(kind, on: connection)
    }

    /// Reads them without the lock.
    package static func read(
        _ kind: StoreCall.Kind, on connection: isolated PostgresConnection
    ) throws -> [StoredStreak] {
        try connection.query(
            """
            -- name: readStreaks
            SELECT * FROM repricer.refusal_streaks WHERE kind = \(kind.rawValue) AND (refused <> '{}' OR believed_done <> '{}' OR batch_id IS NOT NULL)
            """
        ).map { row in
            var streak = try StoredStreak(
                batchID: row.textOrNil("batch_id"), storefront: row.textOrNil("storefront"),
                code: row.int("code"), since: row.milliseconds("since"))
            streak.alike = try row.texts("alike")
            streak.refused = try row.texts("refused")
            streak.refusedAgain = try row.texts("refused_again")
            streak.batches = zip(
                try row.texts("of_batches"), try row.texts("of_subscriptions")
            ).map { StoredStreak.Pair(batchID: $0, subscription: $1) }
            streak.haltedAt = try row.millisecondsOrNil("halted_at")
            streak.isAboutKey = try row.bool("is_about_key")
            streak.believedDone = zip(
                try row.texts("believed_done"), try row.texts("believed_done_at")
            ).map { StoredStreak.Believed(subject: $0, at: Int64($1) ?? 0) }
            return streak
        }
    }

    /// Writes what changed since `former`, in the transaction that locked it. Returns no statement where nothing
    /// changed.
    package static func write(
        _ kind: StoreCall.Kind, _ streaks: [StoredStreak], former: [StoredStreak]
    ) -> [SQL] {
        let known = Set(former)
        let changed = streaks.filter { !known.contains($0) }
        let places = Set(streaks.map(\.place))
        let ended = former.filter { !places.contains($0.place) }
        return (ended.isEmpty ? [] : end(kind, ended))
            + (changed.isEmpty ? [] : [put(kind, changed)])
    }

    private static func end(_ kind: StoreCall.Kind, _ streaks: [StoredStreak]) -> [SQL] {
        var statements: [SQL] = []
        if streaks.contains(where: { $0.batchID == nil }) {
            statements.append(
                """
                -- name: endStreakOfAll
                UPDATE repricer.refusal_streaks
                SET alike = '{}', refused = '{}', of_batches = '{}', of_subscriptions = '{}', halted_at = NULL,
                    is_about_key = false, believed_done = '{}', believed_done_at = '{}'
                WHERE kind = \(kind.rawValue) AND batch_id IS NULL AND storefront IS NULL
                """)
        }
        let ofBatches = streaks.filter { $0.batchID != nil }
        guard !ofBatches.isEmpty else { return statements }
        statements.append(
            """
            -- name: endStreaks
            DELETE FROM repricer.refusal_streaks r
            USING unnest(\(uuids: ofBatches.map(\.batchID))::uuid[], \(texts: ofBatches.map(\.storefront))::text[]
                ) AS t (batch, storefront)
            WHERE r.kind = \(kind.rawValue) AND r.batch_id = t.batch
                AND r.storefront IS NOT DISTINCT FROM t.storefront
            """)
        return statements
    }

    private static func put(_ kind: StoreCall.Kind, _ streaks: [StoredStreak]) -> SQL {
        """
        -- name: putStreaks
        INSERT INTO repricer.refusal_streaks AS r (kind, batch_id, storefront, code, alike, refused, of_batches,
            of_subscriptions, since, halted_at, is_about_key, believed_done, believed_done_at, refused_again)
        SELECT \(kind.rawValue), t.batch, t.storefront, t.code, t.alike::text[], t.refused::text[],
            t.of_batches::uuid[], t.of_subscriptions::text[], t.since, t.halted_at, t.is_about_key,
            t.believed_done::text[], t.believed_done_at::text[], t.refused_again::text[]
        FROM unnest(\(uuids: streaks.map(\.batchID))::uuid[], \(texts: streaks.map(\.storefront))::text[],
            \(streaks.map(\.code))::bigint[], \(streaks.map { arrayText($0.alike) })::text[],
            \(streaks.map { arrayText($0.refused) })::text[],
            \(streaks.map { arrayText($0.batches.map(\.batchID)) })::text[],
            \(streaks.map { arrayText($0.batches.map(\.subscription)) })::text[],
            \(timestamps: streaks.map(\.since))::timestamptz[],
            \(timestamps: streaks.map(\.haltedAt))::timestamptz[], \(bools: streaks.map(\.isAboutKey))::boolean[],
            \(streaks.map { arrayText($0.believedDone.map(\.subject)) })::text[],
            \(streaks.map { arrayText($0.believedDone.map { String($0.at) }) })::text[],
            \(streaks.map { arrayText($0.refusedAgain) })::text[]
        ) AS t (batch, storefront, code, alike, refused, of_batches, of_subscriptions, since, halted_at, is_about_key,
            believed_done, believed_done_at, refused_again)
        ON CONFLICT ON CONSTRAINT refusal_streaks_scope DO UPDATE SET code = EXCLUDED.code, alike = EXCLUDED.alike,
            refused = EXCLUDED.refused, of_batches = EXCLUDED.of_batches,
            of_subscriptions = EXCLUDED.of_subscriptions, since = EXCLUDED.since, halted_at = EXCLUDED.halted_at,
            is_about_key = EXCLUDED.is_about_key, believed_done = EXCLUDED.believed_done,
            believed_done_at = EXCLUDED.believed_done_at, refused_again = EXCLUDED.refused_again
        """
    }
}

extension StoredStreak {
    fileprivate struct Place: Hashable {
        var batchID: String?
        var storefront: String?
    }

    fileprivate var place: Place { Place(batchID: batchID, storefront: storefront) }
}
