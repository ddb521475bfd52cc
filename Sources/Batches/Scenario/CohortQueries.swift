import Facts
import JSON
package import Postgres
package import Pricing

/// Reads cohorts of subscriptions, a piece at a time.
package enum CohortQueries {
    /// Begins a snapshot, and a cursor in it over the subscriptions that may belong to a cohort, in the order in which
    /// they are stored.
    package static func begin(
        _ cohort: Cohort, on connection: isolated PostgresConnection
    ) throws {
        try connection.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        // By default the plan of a cursor favours the first rows, but here all are needed.
        try connection.script("SET LOCAL cursor_tuple_fraction = 1")
        let items = cohort.skus.map { sku in
            JSONWriter.list([sku]) { sku, list in
                list.object { item in
                    item.text("sku", sku)
                    item.flag("renews", true)
                }
            }
        }
        try connection.execute(
            """
            -- name: beginCohort
            DECLARE cohort NO SCROLL CURSOR FOR
            SELECT \(fragment: PlanQueries.factColumns)
            FROM repricer.subscriptions
            WHERE status = 1 AND auto_renews IS NOT FALSE
                AND items @> ANY (\(jsons: items)::jsonb[])
                AND (\(cohort.storefronts.isEmpty) OR storefront = ANY (\(cohort.storefronts)::text[]))
                AND (\(cohort.period)::text IS NULL OR coalesce(renewal_period, period) = \(cohort.period))
                AND (\(cohort.currency)::text IS NULL OR currency = \(cohort.currency))
                AND folded_signed_at IS NOT NULL AND folded_evidence_id IS NOT NULL
            """)
    }

    /// The next piece with the open changes of its subscriptions, and with past increases as they were imported by an
    /// instant (nil stands for now). It is empty at the end.
    package static func next(
        _ limit: Int, knownAt known: Instant?, on connection: isolated PostgresConnection
    ) throws -> PlanQueries.FactRows {
        let facts = try connection.query(SQL(unsafe: "FETCH FORWARD \(limit) FROM cohort"))
        let ids = try facts.map { try $0.text("original_transaction_id") }
        return try PlanQueries.FactRows(
            facts: facts, open: PlanQueries.openChanges(ids, on: connection),
            imported: ImportedIncreaseQueries.rows(of: ids, knownAt: known, on: connection))
    }

    package static func end(on connection: isolated PostgresConnection) throws {
        try connection.script("COMMIT")
    }

    /// How many customers did not consent in comparable cases: all ended increases of these items, of any batch, for
    /// which a customer was asked. An item that fell with another one was neither consented to nor declined.
    package static func declines(
        of skus: [String], on connection: isolated PostgresConnection
    ) throws -> (asked: Int64, declined: Int64) {
        let row = try connection.query(
            """
            -- name: declinesOfCohort
            SELECT count(*) AS asked, count(*) FILTER (WHERE \(fragment: GuardQueries.hasDeclined("c"))) AS declined
            FROM repricer.price_changes c
            WHERE coalesce(c.current_sku, c.sku) = ANY (\(skus)::text[]) AND c.direction = 'increase'
                AND \(fragment: GuardQueries.isAsked("c")) AND c.state IN ('effective', 'declined', 'cancelled')
                AND c.reason IS DISTINCT FROM 'parent_declined'
            """
        ).one()
        return try (row.int64("asked"), row.int64("declined"))
    }
}
