import Facts
package import Postgres
package import Pricing

/// What was submitted, for `show`: the figures of the stored plan, counted by the database.
package enum ShowQueries {
    package struct Terms: Sendable, Equatable {
        package var planHash: String
        /// The instant of the plan, in UTC milliseconds.
        package var plannedAsOf: Int64
        /// The database users who have approved it as the first of two.
        package var firstApprovers: [String]
        /// Why the approval of one of them was not enough.
        package var firstExceeded: [String]
        package var isOwn: Bool
        /// The share of the subscriptions that is held out, in hundredths of a percent; 0 where none is.
        package var holdout: Int
        /// The rows that are stored and never sent. The figures leave them out.
        package var heldOut: Int64
    }

    /// `isOwn` says whether this database user submitted it.
    package static func terms(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> Terms {
        let row = try connection.query(
            """
            -- name: showTerms
            SELECT b.plan_hash, b.planned_as_of, b.submitted_by = session_user AS is_own,
                b.holdout_basis_points, CASE WHEN b.holdout_basis_points > 0 THEN (
                    SELECT count(*) FROM repricer.price_changes c
                    WHERE c.batch_id = \(uuid: batchID) AND c.is_held_out) ELSE 0 END AS held_out,
                ARRAY(SELECT f.approver FROM repricer.first_approvals f
                    WHERE f.batch_id = b.batch_id AND repricer.may_approve(f.approver) ORDER BY f.approved_at, f.approver) AS first_approvers,
                ARRAY(SELECT DISTINCT e.what FROM repricer.first_approvals f, unnest(f.exceeded) AS e (what)
                    WHERE f.batch_id = b.batch_id AND repricer.may_approve(f.approver) ORDER BY e.what) AS first_exceeded
            FROM repricer.batches b WHERE b.batch_id = \(uuid: batchID)
            """
        ).one()
        return try Terms(
            planHash: row.text("plan_hash"), plannedAsOf: row.milliseconds("planned_as_of"),
            firstApprovers: row.texts("first_approvers"),
            firstExceeded: row.texts("first_exceeded"), isOwn: row.bool("is_own"),
            holdout: row.int("holdout_basis_points"), heldOut: row.int64("held_out"))
    }

    /// Who approved a batch that needs a second approver, in that order, and may approve still: no other first approval
    /// counts.
    package static func firstApprovers(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: firstApprovers
            SELECT approver FROM repricer.first_approvals
            WHERE batch_id = \(uuid: batchID) AND repricer.may_approve(approver)
            ORDER BY approved_at, approver
            """
        ).map { try $0.text("approver") }
    }

    /// The figures of the stored plan, without held-out rows. Later facts do not change them, and warnings are judged
    /// at the instant of the plan. The caller must use a transaction.
    package static func figures(
        of batchID: String, asOf now: Instant, on connection: isolated PostgresConnection
    ) throws -> BatchFigures {
        var figures = BatchFigures()
        for (code, rows) in try BatchQueries.rejectCounts(batchID: batchID, on: connection) {
            if let code = RowCode(rawValue: code) { figures.codes[code] = Int(rows) }
        }
        try addMoney(to: &figures, batchID, on: connection)
        try addMoneyElsewhere(to: &figures, batchID, on: connection)
        try takeSharedMoney(from: &figures, batchID, on: connection)
        try addDates(to: &figures, batchID, on: connection)
        try addMoves(to: &figures, batchID, on: connection)
        try addWarnings(to: &figures, batchID, now, on: connection)
        return figures
    }

    private static func addMoney(
        to figures: inout BatchFigures, _ batchID: String,
        on connection: isolated PostgresConnection
    ) throws {
        let rows = try connection.query(
            """
            -- name: showMoney
            SELECT currency, storefront, period, direction, forecast_consent, forecast_reasons,
                forecast_not_known, count(*) AS rows,
                sum(current_price_milliunits::numeric * forecast_seats)::text AS now,
                sum(new_price_milliunits::numeric * forecast_seats)::text AS then,
                sum(coalesce(at_risk_milliunits, current_price_milliunits::numeric * forecast_seats))::text AS at_risk
            FROM repricer.price_changes WHERE batch_id = \(uuid: batchID) AND NOT is_held_out
            GROUP BY currency, storefront, period, direction, forecast_consent, forecast_reasons,
                forecast_not_known
            """)
        for row in rows {
            let count = try row.int("rows")
            let storefront = try row.text("storefront")
            let consent = Consent(rawValue: try row.text("forecast_consent"))
            figures.canGoCount += count
            if let direction = PlanRow.Direction(rawValue: try row.text("direction")) {
                figures.directions[direction, default: 0] += count
            }
            if let consent { figures.consents[consent, default: 0] += count }
            for reason in try row.texts("forecast_reasons").compactMap(ConsentReason.init) {
                figures.reasons[reason, default: 0] += count
            }
            for rule in try row.texts("forecast_not_known").compactMap(ConsentReason.init)
            where consent == .notKnown {
                figures.notKnown[rule, default: .init()].rows += count
                figures.notKnown[rule]?.storefronts.insert(storefront)
            }
            let key = try moneyKey(row)
            figures.money[key, default: .init()].add(
                try BatchFigures.Money(rows: count, now: sum(row, "now"), then: sum(row, "then")))
            figures.money[key]?.addAtRisk(try sum(row, "at_risk"), consent)
        }
    }

    private static func moneyKey(_ row: Row) throws -> BatchFigures.MoneyKey {
        try BatchFigures.MoneyKey(
            currency: row.text("currency"), storefront: row.text("storefront"),
            period: row.text("period"))
    }

    /// The sum is read as text, because the sum of many prices may exceed 64 bits.
    private static func sum(_ row: Row, _ column: String) throws -> MoneySum {
        guard let sum = MoneySum(try row.text(column)) else {
            throw FactsError.unreadable("the sum \(column)")
        }
        return sum
    }

    /// The same as `RowGroup.noteSharedRisk` and `SharedRisk` compute: an item with a row of its own that is also a
    /// dependent of another row counts once, on whatever subscription of the customer it is.
    private static func takeSharedMoney(
        from figures: inout BatchFigures, _ batchID: String,
        on connection: isolated PostgresConnection
    ) throws {
        // The server has no statistics for a batch that was just stored. It expects few rows, so a nested loop would
        // scan the whole batch once for each row.
        try connection.sendLater(["SET LOCAL enable_nestloop = off"])
        let rows = try connection.query(
            """
            -- name: showSharedMoney
            -- What a change names stands in other buckets, so each table is read by itself.
            WITH parents AS MATERIALIZED (
                SELECT c.original_transaction_id, c.bucket, c.change_id, c.dependent_skus, c.currency, c.storefront, c.period,
                    c.forecast_consent
                FROM repricer.price_changes c
                WHERE c.batch_id = \(uuid: batchID) AND c.dependent_skus <> '{}' AND NOT c.is_held_out
                    AND c.at_risk_milliunits IS NOT NULL AND c.forecast_consent IN ('required', 'not_known')
            ), claims AS MATERIALIZED (
                SELECT d.original_transaction_id, d.bucket, d.sku, d.change_id FROM repricer.dependent_claims d
                JOIN parents c ON d.claimed_by = c.original_transaction_id AND d.change_id = c.change_id
            ), named AS MATERIALIZED (
                SELECT c.original_transaction_id, c.bucket, name AS sku, c.change_id
                FROM parents c CROSS JOIN LATERAL unnest(c.dependent_skus) AS name
                UNION
                SELECT d.original_transaction_id, d.bucket, d.sku, d.change_id FROM claims d
            ), others AS MATERIALIZED (
                SELECT d.change_id AS named_by, o.currency, o.storefront, o.period, o.forecast_consent,
                    o.current_price_milliunits::numeric * o.forecast_seats AS milliunits
                FROM named d JOIN repricer.price_changes o ON o.original_transaction_id = d.original_transaction_id
                    AND o.bucket = d.bucket AND o.sku = d.sku AND o.change_id <> d.change_id
                WHERE o.batch_id = \(uuid: batchID) AND NOT o.is_held_out AND o.at_risk_milliunits IS NOT NULL
                    AND o.forecast_consent IN ('required', 'not_known')
            )
            SELECT k.currency, k.storefront, k.period, s.consent AS forecast_consent,
                sum(o.milliunits)::text AS shared
            FROM parents c JOIN others o ON o.named_by = c.change_id
            -- Where its own loss is less certain, its own row's sum loses it, and otherwise the one that the other counts in.
            CROSS JOIN LATERAL (
                SELECT o.forecast_consent = 'not_known' AND c.forecast_consent = 'required' AS is_own) w
            CROSS JOIN LATERAL (
                SELECT CASE WHEN w.is_own THEN o.forecast_consent ELSE c.forecast_consent END AS consent,
                    w.is_own OR (o.currency, o.period) <> (c.currency, c.period) AS is_there) s
            CROSS JOIN LATERAL (
                SELECT o.currency, o.storefront, o.period WHERE s.is_there
                UNION ALL SELECT c.currency, c.storefront, c.period WHERE NOT s.is_there) k
            GROUP BY 1, 2, 3, 4
            """)
        try connection.sendLater(["SET LOCAL enable_nestloop = on"])
        for row in rows {
            let key = try moneyKey(row)
            figures.money[key]?.addAtRisk(
                .zero - (try sum(row, "shared")),
                Consent(rawValue: try row.text("forecast_consent")))
        }
    }

    private static func addMoneyElsewhere(
        to figures: inout BatchFigures, _ batchID: String,
        on connection: isolated PostgresConnection
    ) throws {
        let rows = try connection.query(
            """
            -- name: showMoneyElsewhere
            SELECT e.charge ->> 'currency' AS currency, e.charge ->> 'storefront' AS storefront,
                e.charge ->> 'period' AS period, c.forecast_consent,
                sum((e.charge ->> 'milliunits')::bigint)::text AS at_risk
            FROM repricer.price_changes c, jsonb_array_elements(c.at_risk_elsewhere) AS e (charge)
            WHERE c.batch_id = \(uuid: batchID) AND c.at_risk_elsewhere IS NOT NULL
                AND NOT c.is_held_out
            GROUP BY 1, 2, 3, 4
            """)
        for row in rows {
            figures.money.addElsewhere(
                try moneyKey(row), try sum(row, "at_risk"),
                Consent(rawValue: try row.text("forecast_consent")))
        }
    }

    private static func addDates(
        to figures: inout BatchFigures, _ batchID: String,
        on connection: isolated PostgresConnection
    ) throws {
        let rows = try connection.query(
            """
            -- name: showDates
            SELECT to_char(forecast_effective_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, direction,
                count(*) AS rows, min(send_by) AS first_send_by,
                max(forecast_effective_at) AS last_effective_at
            FROM repricer.price_changes WHERE batch_id = \(uuid: batchID) AND NOT is_held_out
            GROUP BY 1, 2
            """)
        for row in rows {
            guard let day = CivilDate(try row.text("day")),
                let direction = PlanRow.Direction(rawValue: try row.text("direction"))
            else { continue }
            figures.count(try row.int("rows"), direction, on: day)
            if let sendBy = try row.instant("first_send_by") {
                figures.firstSendBy = min(figures.firstSendBy ?? sendBy, sendBy)
            }
            if let last = try row.instant("last_effective_at") {
                figures.lastEffectiveAt = max(figures.lastEffectiveAt ?? last, last)
            }
        }
    }

    /// The moves are ranked by a share in floating point, so a row that equals the tenth one to the last digit may
    /// take its place.
    private static func addMoves(
        to figures: inout BatchFigures, _ batchID: String,
        on connection: isolated PostgresConnection
    ) throws {
        let rows = try connection.query(
            """
            -- name: showMoves
            SELECT line, original_transaction_id, sku, direction, currency, current_price_milliunits,
                new_price_milliunits
            FROM (
                (SELECT * FROM repricer.price_changes
                    WHERE batch_id = \(uuid: batchID) AND NOT is_held_out AND direction = 'increase'
                    ORDER BY new_price_milliunits::float8 / nullif(current_price_milliunits, 0) DESC NULLS FIRST, line
                    LIMIT \(BatchFigures.examplesMax))
                UNION ALL
                (SELECT * FROM repricer.price_changes
                    WHERE batch_id = \(uuid: batchID) AND NOT is_held_out AND direction = 'decrease'
                    ORDER BY new_price_milliunits::float8 / nullif(current_price_milliunits, 0), line
                    LIMIT \(BatchFigures.examplesMax))) AS moves
            ORDER BY line
            """)
        for row in rows {
            let move = try PriceMove(
                line: row.int("line"), originalTransactionID: row.text("original_transaction_id"),
                sku: row.text("sku"), currency: row.text("currency"),
                currentPrice: row.int64("current_price_milliunits"),
                newPrice: row.int64("new_price_milliunits"))
            switch PlanRow.Direction(rawValue: try row.text("direction")) {
            case .increase: figures.increases.add(move)
            case .decrease: figures.decreases.add(move)
            case nil: break
            }
        }
    }

    private static func addWarnings(
        to figures: inout BatchFigures, _ batchID: String, _ now: Instant,
        on connection: isolated PostgresConnection
    ) throws {
        let rows = try connection.query(
            """
            -- name: showWarnings
            SELECT w.warning, count(*) AS rows, (array_agg(c.line ORDER BY c.line))[1:10] AS lines
            FROM repricer.price_changes c CROSS JOIN LATERAL unnest(ARRAY[
                CASE WHEN c.new_price_milliunits::numeric > 3 * c.current_price_milliunits::numeric
                    THEN \(BatchWarning.moreThanThreefold.rawValue)::text END,
                CASE WHEN 3 * c.new_price_milliunits::numeric < c.current_price_milliunits::numeric
                    THEN \(BatchWarning.lessThanAThird.rawValue)::text END,
                CASE WHEN c.forecast_effective_at > \(timestamp: now.milliseconds)::timestamptz
                        + make_interval(months => \(BatchWarning.farMonths)::integer)
                    THEN \(BatchWarning.farAhead.rawValue)::text END,
                CASE WHEN c.is_stale THEN \(BatchWarning.stale.rawValue)::text END,
                CASE WHEN c.forecast_seats > 1 THEN \(BatchWarning.severalSeats.rawValue)::text END,
                CASE WHEN c.forecast_rules @? '$[*].inputs.turns_at'
                    THEN \(BatchWarning.turns.rawValue)::text END]) AS w (warning)
            WHERE c.batch_id = \(uuid: batchID) AND NOT c.is_held_out AND w.warning IS NOT NULL
            GROUP BY 1
            """)
        for row in rows {
            guard let warning = BatchWarning(rawValue: try row.text("warning")) else { continue }
            figures.warnings[warning] = try .init(
                count: row.int("rows"), lines: row.int64s("lines").map(Int.init))
        }
        let ids = try connection.query(
            """
            -- name: showIDs
            SELECT count(*) AS rows, max(length(original_transaction_id))::bigint AS digits,
                min(length(original_transaction_id) - length(rtrim(original_transaction_id, '0')))::bigint
                    AS zeros
            FROM repricer.price_changes WHERE batch_id = \(uuid: batchID)
            """
        ).one()
        let count = try ids.int("rows")
        if BatchWarning.areRounded(
            count: count, zeros: try ids.intOrNil("zeros") ?? 0,
            digits: try ids.intOrNil("digits") ?? 0)
        {
            figures.warnings[.idsEndInZero] = .init(count: count)
        }
    }

    /// The unsent increases of batches submitted earlier for which a row of this batch counts as an earlier increase.
    /// Batches submitted later were planned with this one in view.
    ///
    /// - Returns: nil where there is none. It is not a figure of the plan, because those increases are sent meanwhile.
    static func overtaken(
        by batchID: String, on connection: isolated PostgresConnection
    ) throws -> BatchWarning.Rows? {
        let row = try connection.query(
            """
            -- name: showOvertaken
            WITH earlier AS (
                SELECT o.batch_id FROM repricer.batches o
                JOIN repricer.batches b ON o.submitted_at < b.submitted_at AND o.batch_id <> b.batch_id
                WHERE b.batch_id = \(uuid: batchID) AND o.state IN ('awaiting_approval', 'approved')
            ), overtaken AS (
                SELECT o.change_id, min(c.line) AS line
                FROM repricer.price_changes c
                JOIN repricer.price_changes o
                    ON o.original_transaction_id = c.original_transaction_id AND o.bucket = c.bucket
                -- Without such a batch no row is read.
                WHERE EXISTS (SELECT FROM earlier)
                    AND c.batch_id = \(uuid: batchID) AND c.direction = 'increase' AND NOT c.is_held_out
                    AND c.stage IN ('awaiting_approval', 'queued')
                    AND o.batch_id = ANY (ARRAY(SELECT batch_id FROM earlier)) AND o.direction = 'increase'
                    AND o.stage IN ('awaiting_approval', 'queued') AND NOT o.is_held_out
                    AND o.due_effective_at > c.forecast_effective_at
                    AND coalesce(o.send_after, '-infinity') AT TIME ZONE 'UTC'
                        < c.forecast_effective_at AT TIME ZONE 'UTC' + interval '12 months'
                GROUP BY o.change_id
            )
            SELECT count(*) AS rows, (array_agg(line ORDER BY line))[1:10] AS lines FROM overtaken
            """
        ).one()
        let count = try row.int("rows")
        guard count > 0 else { return nil }
        return BatchWarning.Rows(count: count, lines: try row.int64s("lines").map(Int.init))
    }
}
