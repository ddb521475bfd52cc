import Facts
package import Postgres
package import Pricing

/// The undo: it takes back changes that Apple has scheduled and that no customer was told of.
package enum UndoQueries {
    /// Which changes of a batch are taken back; nil fields take all.
    package struct Scope: Sendable {
        package var batchID: String
        package var subscription: String?
        package var sku: String?

        package init(batchID: String, subscription: String? = nil, sku: String? = nil) {
            self.batchID = batchID
            self.subscription = subscription
            self.sku = sku
        }
    }

    /// Stores the inverse changes as a batch that awaits approval, and returns how many there are. Where there are
    /// none, no batch is stored.
    package static func store(
        _ scope: Scope, as undoID: String, name: String, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Int64 {
        try connection.decide(
            "undoBatch",
            """
            repricer.undo_batch(\(uuid: scope.batchID), \(uuid: undoID), \(name)::text,
                \(scope.subscription)::text, \(scope.sku)::text, \(timestamp: at))
            """
        ).int64("answer")
    }

    /// How many aborted changes of the batch a lost database may have called, as long as that is not cleared up: while
    /// the service or a person catches up, or while their statuses are not read.
    package static func inDoubt(
        _ batchID: String, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        try connection.query(
            """
            -- name: abortedInDoubt
            SELECT count(*) AS rows FROM repricer.price_changes c
            WHERE c.batch_id = \(uuid: batchID) AND c.stage = 'aborted' AND c.doubtful_since IS NOT NULL
                AND ((SELECT catch_up_since IS NOT NULL AND (catch_up_from IS NOT NULL OR catch_up_by IS NOT NULL)
                        FROM repricer.service_controls)
                    OR EXISTS (
                        SELECT FROM repricer.status_checks k
                        WHERE k.original_transaction_id = c.original_transaction_id AND k.bucket = c.bucket
                            AND k.reason = 'recover' AND k.list_id = \(RestoredDatabase.checkList)
                            AND (k.done_at IS NULL OR k.outcome NOT IN ('read', 'drifted'))))
            """
        ).one().int64("rows")
    }

    /// Changes of one item and currency that an undo can take back now. Instants are UTC milliseconds.
    package struct Takeable: Sendable, Equatable {
        package var sku: String
        package var currency: String
        package var rows: Int64
        /// Until then all of them can be taken back.
        package var firstUntil: Int64
        /// Until then the last of them can be taken back.
        package var lastUntil: Int64
    }

    package static func takeable(
        _ scope: Scope, at: Int64, on connection: isolated PostgresConnection
    ) throws -> [Takeable] {
        try connection.query(
            """
            -- name: takeableByUndo
            SELECT u.sku, c.currency, count(*) AS rows, min(u.told_at) AS first_until, max(u.told_at) AS last_until
            FROM \(fragment: candidates(scope, at: at)) u
            JOIN repricer.price_changes c ON c.original_transaction_id = u.original_transaction_id
                AND c.change_id = u.change_id
            WHERE u.obstacle IS NULL GROUP BY 1, 2 ORDER BY 1, 2
            """
        ).map { row in
            try Takeable(
                sku: row.text("sku"), currency: row.text("currency"), rows: row.int64("rows"),
                firstUntil: row.milliseconds("first_until"),
                lastUntil: row.milliseconds("last_until"))
        }
    }

    /// Changes that Apple has, or may have, and that no undo can take back now. Days are in UTC.
    package struct Beyond: Sendable, Equatable {
        package var obstacle: UndoObstacle
        package var state: String
        /// The day on which Apple told the customer, or is to tell them; nil where it tells nobody.
        package var day: String?
        package var rows: Int64
    }

    package static func beyond(
        _ scope: Scope, at: Int64, on connection: isolated PostgresConnection
    ) throws -> [Beyond] {
        let states = ChangeState.allCases.filter(\.isWithApple).map(\.rawValue)
        return try connection.query(
            """
            -- name: beyondUndo
            SELECT u.obstacle, u.state, to_char(coalesce(c.consent_asked_at, c.accepted_at,
                    CASE WHEN c.forecast_notice_at IS NOT NULL THEN u.told_at END)
                AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, count(*) AS rows
            FROM \(fragment: candidates(scope, at: at)) u
            JOIN repricer.price_changes c ON c.original_transaction_id = u.original_transaction_id
                AND c.change_id = u.change_id
            WHERE u.obstacle IS NOT NULL AND u.state = ANY (\(states))
            GROUP BY 1, 2, 3 ORDER BY 3 NULLS LAST, 2, 1
            """
        ).map { row in
            try Beyond(
                obstacle: obstacle(row), state: row.text("state"), day: row.textOrNil("day"),
                rows: row.int64("rows"))
        }
    }

    private static func candidates(_ scope: Scope, at: Int64) -> SQL {
        """
        repricer.undo_candidates(\(uuid: scope.batchID), \(scope.subscription)::text,
            \(scope.sku)::text, \(timestamp: at))
        """
    }

    /// A change that an undo leaves as it is.
    package struct Refused: Sendable, Equatable {
        package var line: Int64
        package var originalTransactionID: String
        package var sku: String
        package var obstacle: UndoObstacle
        package var state: String
        /// When Apple tells the customer, or stops accepting decreases.
        package var toldAt: Instant?
    }

    /// The first `limit` changes of a scope, in the order of lines, that `undoID` does not take back.
    package static func refused(
        _ scope: Scope, by undoID: String?, at: Int64, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> [Refused] {
        try connection.query(
            """
            -- name: refusedByUndo
            \(fragment: leftOut(scope, by: undoID, at: at))
            SELECT line, original_transaction_id, sku, obstacle, state, told_at FROM left_out
            ORDER BY line, original_transaction_id LIMIT \(limit)
            """
        ).map { row in
            try Refused(
                line: row.int64("line"), originalTransactionID: row.text("original_transaction_id"),
                sku: row.text("sku"), obstacle: obstacle(row), state: row.text("state"),
                toldAt: row.instant("told_at"))
        }
    }

    /// The same changes, counted. `undoID` is nil where nothing was taken back.
    package static func refusedCounts(
        _ scope: Scope, by undoID: String?, at: Int64, on connection: isolated PostgresConnection
    ) throws -> [UndoObstacle: Int64] {
        let rows = try connection.query(
            """
            -- name: refusedByUndoCounts
            \(fragment: leftOut(scope, by: undoID, at: at))
            SELECT obstacle, count(*) AS rows FROM left_out GROUP BY obstacle
            """)
        var counts: [UndoObstacle: Int64] = [:]
        for row in rows { counts[try obstacle(row)] = try row.int64("rows") }
        return counts
    }

    private static func leftOut(_ scope: Scope, by undoID: String?, at: Int64) -> SQL {
        """
        WITH left_out AS (
            SELECT u.* FROM \(fragment: candidates(scope, at: at)) u
            WHERE u.obstacle IS NOT NULL AND (u.original_transaction_id, u.change_id) NOT IN (
                SELECT n.original_transaction_id, n.undoes_change_id FROM repricer.price_changes n
                WHERE n.batch_id = \(uuid: undoID) AND n.undoes_change_id IS NOT NULL)
        )
        """
    }

    private static func obstacle(_ row: Row) throws -> UndoObstacle {
        guard let obstacle = UndoObstacle(rawValue: try row.text("obstacle")) else {
            throw FactsError.unreadable("undo_candidates.obstacle")
        }
        return obstacle
    }
}
