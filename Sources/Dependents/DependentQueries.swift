import Facts
package import Postgres
import Pricing

/// Dependents whose end is not proved yet.
package enum DependentQueries {
    /// A dependent that is due for a status check of the subscription that carries it.
    package struct Open: Sendable, Hashable {
        /// The subscription of its parent.
        package var originalTransactionID: String
        package var changeID: String
        package var batchID: String
        /// The dependent as the change names it (`DependentReference`).
        package var dependentSKU: String
        /// The item that was declined.
        package var parentSKU: String
        package var checks: Int
        package var isCrossSubscription: Bool
        /// UTC milliseconds.
        package var requestedAt: Int64

        init(_ row: Row) throws {
            originalTransactionID = try row.text("original_transaction_id")
            changeID = try row.text("change_id")
            batchID = try row.text("batch_id")
            dependentSKU = try row.text("dependent_sku")
            parentSKU = try row.text("parent_sku")
            checks = try row.int("checks")
            isCrossSubscription = try row.bool("is_cross_subscription")
            requestedAt = try row.milliseconds("requested_at")
        }
    }

    /// The buckets with due dependents. The bucket that has waited longest comes first or, with `isProbing`, the one
    /// that was checked the longest ago.
    package static func dueBuckets(
        realNow: Int64, isProbing: Bool, held: Held,
        on connection: isolated PostgresConnection
    ) throws -> [Int] {
        try connection.query(
            """
            -- name: dependentBuckets
            SELECT b.bucket FROM repricer.bucket_turns b, LATERAL (
                SELECT \(fragment: order(isProbing)) AS waits_since FROM repricer.dependent_cancellations d
                WHERE d.bucket = b.bucket AND \(fragment: isDue(realNow: realNow, held))
                ORDER BY \(fragment: order(isProbing)) LIMIT 1) first
            ORDER BY first.waits_since
            """
        ).map { try $0.int("bucket") }
    }

    /// The order of due dependents. A dependent that was never checked has no next check.
    private static func order(_ isProbing: Bool) -> SQL {
        isProbing ? "coalesce(d.next_check_at, '-infinity')" : "d.requested_at"
    }

    private static func isDue(realNow: Int64, _ held: Held) -> SQL {
        """
        d.state = 'requested' AND d.requested_at > '-infinity'
            AND (d.next_check_at IS NULL OR d.next_check_at <= \(timestamp: realNow))
            AND NOT (d.is_cross_subscription AND d.target_transaction_id IS NOT NULL
                AND (\(held.isAll)::boolean OR d.batch_id = ANY (\(uuids: held.batchIDs))))
        """
    }

    /// What holds back the cancellations of cross-subscription dependents. Held dependents that are placed are skipped,
    /// so that one that waits for a person does not delay others. Those that are not placed are placed even then,
    /// because dependents that are cancelled with them must know.
    package struct Held: Sendable {
        var isAll = false
        var batchIDs: [String] = []

        package init() {}
    }

    package static func held(on connection: isolated PostgresConnection) throws -> Held {
        let row = try connection.query(
            """
            -- name: heldDependents
            SELECT \(fragment: ServiceControlQueries.isHeld) AS is_all, coalesce((
                SELECT array_agg(b.batch_id::text) FROM repricer.batches b
                WHERE \(fragment: SubjectWork.holdsCancellations("b"))), '{}') AS batches
            """
        ).one()
        var held = Held()
        held.isAll = try row.bool("is_all")
        held.batchIDs = try row.texts("batches")
        return held
    }

    /// Takes the due dependents of a bucket and moves their next check, so that no two replicas check at once.
    package static func takeDue(
        bucket: Int, realNow: Int64, nextCheckAt: Int64, limit: Int, isProbing: Bool,
        held: Held, on connection: isolated PostgresConnection
    ) throws -> [Open] {
        try connection.query(
            """
            -- name: takeDueDependents
            WITH due AS (
                SELECT d.original_transaction_id, d.change_id, d.dependent_sku
                FROM repricer.dependent_cancellations d
                WHERE d.bucket = \(bucket)::smallint AND \(fragment: isDue(realNow: realNow, held))
                ORDER BY \(fragment: order(isProbing)) LIMIT \(limit) FOR UPDATE SKIP LOCKED
            )
            UPDATE repricer.dependent_cancellations d
            SET checks = d.checks + 1, next_check_at = \(timestamp: nextCheckAt)
            FROM due
            WHERE d.original_transaction_id = due.original_transaction_id
                AND d.change_id = due.change_id AND d.dependent_sku = due.dependent_sku
                AND d.bucket = \(bucket)::smallint
            RETURNING \(fragment: columns)
            """
        ).map(Open.init)
    }

    /// Hands a dependent to a person, because its end cannot be proved.
    package static func abandon(_ open: Open, detail: String, at: Int64) -> SQL {
        """
        -- name: abandonDependent
        WITH \(fragment: former(open)), moved AS (
            UPDATE repricer.dependent_cancellations d
            SET recorded_at = \(fragment: VersionQueries.now), state = 'discrepancy', detail = \(detail), settled_at = \(timestamp: at)
            WHERE \(fragment: isRequested(open))
            RETURNING *
        )
        \(fragment: OutboxQueries.tellDependents(of: [open.originalTransactionID]))
        """
    }

    private static func isRequested(_ open: Open) -> SQL {
        """
        d.original_transaction_id = \(open.originalTransactionID)
            AND \(fragment: Bucket.isThat(of: open.originalTransactionID, "d.bucket"))
            AND d.change_id = \(uuid: open.changeID) AND d.dependent_sku = \(open.dependentSKU)
            AND d.state = 'requested'
        """
    }

    private static func former(_ open: Open) -> SQL {
        VersionQueries.ofDependents(
            "repricer.dependent_cancellations d WHERE \(fragment: isRequested(open))")
    }

    // MARK: On another subscription

    /// The subscriptions that may carry the dependent: the one in its name, else those of the same customer that ever
    /// had an item with that SKU.
    package static func places(
        of open: Open, customer: String?, on connection: isolated PostgresConnection
    ) throws -> [String] {
        let reference = DependentReference(open.dependentSKU)
        if let id = reference.originalTransactionID {
            return try connection.query(
                """
                -- name: placeOfDependent
                SELECT 1 FROM repricer.subscriptions
                WHERE original_transaction_id = \(id) AND \(fragment: Bucket.isThat(of: id))
                """
            ).isEmpty ? [] : [id]
        }
        guard let customer else { return [] }
        return try connection.query(
            """
            -- name: placesOfDependent
            SELECT original_transaction_id FROM repricer.subscriptions
            WHERE app_account_token = \(customer)
                AND original_transaction_id <> \(open.originalTransactionID)
                AND \(reference.sku) = ANY (seen_skus)
            ORDER BY original_transaction_id LIMIT 20
            """
        ).map { try $0.text("original_transaction_id") }
    }

    /// Stores on which subscription the dependent was found, and its price and period there.
    package static func place(
        _ open: Open, on target: String, period: String?, price: Int64?, currency: String?
    ) -> SQL {
        let isOnAnotherSubscription: SQL = """
            (d.target_transaction_id, d.target_period, d.price_milliunits, d.currency) IS DISTINCT FROM (
                \(target)::text, coalesce(\(period)::text, d.target_period),
                coalesce(\(price)::bigint, d.price_milliunits), coalesce(\(currency)::text, d.currency))
            """
        return """
            -- name: placeDependent
            WITH \(fragment: VersionQueries.ofDependents("""
            repricer.dependent_cancellations d WHERE \(fragment: isRequested(open)) AND \(fragment: isOnAnotherSubscription)
            """))
            UPDATE repricer.dependent_cancellations d
            SET target_transaction_id = \(target)::text, target_period = coalesce(\(period)::text, d.target_period),
                price_milliunits = coalesce(\(price)::bigint, d.price_milliunits),
                currency = coalesce(\(currency)::text, d.currency), recorded_at = \(fragment: VersionQueries.now)
            WHERE \(fragment: isRequested(open)) AND \(fragment: isOnAnotherSubscription)
            """
    }

    private static let columns: SQL = """
        d.original_transaction_id, d.change_id, d.batch_id, d.dependent_sku, d.parent_sku, d.checks,
            d.is_cross_subscription, d.requested_at
        """

    /// The dependents to cancel that are placed on `target`.
    package static func falling(
        on target: String, on connection: isolated PostgresConnection
    ) throws -> [Open] {
        try connection.query(
            """
            -- name: fallingDependents
            SELECT \(fragment: columns)
            FROM repricer.dependent_cancellations d
            WHERE d.target_transaction_id = \(target) AND d.state = 'requested' AND d.is_cross_subscription
            ORDER BY d.original_transaction_id, d.change_id, d.dependent_sku
            """
        ).map(Open.init)
    }

    /// The dependents to cancel that may turn out to be on `target`: those named with it, and those of parents of the
    /// same customer that are named by their SKU alone and are placed there or nowhere yet.
    package static func mayFall(
        on target: String, customer: String?, on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        let references = try connection.query(
            """
            -- name: dependentsThatMayFall
            SELECT d.dependent_sku FROM repricer.dependent_cancellations d
            JOIN repricer.subscriptions s USING (original_transaction_id, bucket)
            WHERE d.state = 'requested' AND d.is_cross_subscription
                AND coalesce(d.target_transaction_id, \(target)) = \(target)
                AND (s.app_account_token = \(customer)::text
                    OR starts_with(d.dependent_sku, \(target + "/")))
            """
        ).map { DependentReference(try $0.text("dependent_sku")) }
        return Set(
            references.filter { ($0.originalTransactionID ?? target) == target }.map(\.sku))
    }

    /// Whether everything is held, or the batch of any of the parents, because one call cancels all of them.
    package static func areHeld(
        _ dependents: [Open], on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: areDependentsHeld
            SELECT \(fragment: ServiceControlQueries.isHeld) OR EXISTS (
                SELECT FROM repricer.batches b
                WHERE b.batch_id = ANY (\(uuids: dependents.map(\.batchID)))
                    AND \(fragment: SubjectWork.holdsCancellations("b"))) AS are_held
            """
        ).one().bool("are_held")
    }

    /// Whether a notification about one of these subscriptions is not folded yet. It may show that the customer has
    /// bought the parent again.
    package static func areUnread(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> Bool {
        try !connection.query(
            """
            -- name: areDependentsUnread
            SELECT 1 FROM repricer.inbox i
            WHERE i.original_transaction_id = ANY (\(ids)::text[])
                AND \(fragment: Bucket.isThat(of: ids, "i.bucket")) AND i.error IS NULL LIMIT 1
            """
        ).isEmpty
    }

    /// Whether the dependent is still to be cancelled. The caller holds the lock of the subscription.
    package static func isStillRequested(
        _ open: Open, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try !connection.query(
            """
            -- name: isStillRequested
            SELECT 1 FROM repricer.dependent_cancellations d WHERE \(fragment: isRequested(open))
            """
        ).isEmpty
    }

    /// Whether a call that changes the subscription is open: it was sent, or its outcome is not known. The caller holds
    /// the lock of the subscription.
    package static func hasCallInFlight(
        _ id: String, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try !connection.query(
            """
            -- name: hasCallInFlight
            SELECT 1 WHERE \(fragment: StoreCallQueries.isInFlight(
                "\(id)", bucket: "\(Bucket.of(id))::smallint"))
            """
        ).isEmpty
    }

    /// The dependents of the open changes of an item, which would be cancelled if its increase were declined.
    package static func ownDependents(
        of sku: String, _ id: String, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: ownDependents
            SELECT DISTINCT u.sku FROM repricer.price_changes c
            CROSS JOIN LATERAL unnest(coalesce(c.current_dependent_skus, c.dependent_skus)) u (sku)
            WHERE c.original_transaction_id = \(id) AND coalesce(c.current_sku, c.sku) = \(sku)
                AND \(fragment: Bucket.isThat(of: id, "c.bucket"))
                AND c.state IN ('sending', 'unknown', 'scheduled', 'pending_consent')
            ORDER BY u.sku
            """
        ).map { try $0.text("sku") }
    }

    /// Sets when the dependent is checked again. A check that was not made does not count.
    package static func checkAgain(_ open: Open, at: Int64) -> SQL {
        """
        -- name: checkDependentAgain
        UPDATE repricer.dependent_cancellations d
        SET next_check_at = \(timestamp: at), checks = greatest(checks - 1, 0)
        WHERE \(fragment: isRequested(open))
        """
    }

    /// Confirms a dependent that is gone by itself, as a statement on its subscription proves.
    package static func confirm(
        _ open: Open, detail: String, evidenceID: String, at: Int64
    ) -> SQL {
        """
        -- name: confirmDependent
        WITH \(fragment: former(open)), moved AS (
            UPDATE repricer.dependent_cancellations d
            SET recorded_at = \(fragment: VersionQueries.now), state = 'confirmed', detail = \(detail), settled_at = \(timestamp: at),
                settled_by_evidence = \(evidenceID)
            WHERE \(fragment: isRequested(open))
            RETURNING *
        )
        \(fragment: OutboxQueries.tellDependents(of: [open.originalTransactionID]))
        """
    }
}
