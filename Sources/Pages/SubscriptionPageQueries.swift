import Facts
import Postgres

/// The queries of a subscription's page and of the search.
enum SubscriptionPageQueries {
    /// The newest facts. Instants are UTC milliseconds.
    struct Facts: Sendable {
        var status: Int?
        var autoRenews: Bool?
        var isInBillingRetry: Bool
        var storefront: String?
        var currency: String?
        var period: String?
        var productID: String?
        var customer: String?
        var startedAt: Int64?
        var renewalAt: Int64?
        var signedAt: Int64?
        var knownSince: Int64?
    }

    static func facts(
        of id: String, on connection: isolated PostgresConnection
    ) throws -> Facts? {
        try connection.query(
            """
            -- name: subscriptionPageFacts
            SELECT status, auto_renews, in_billing_retry, storefront, currency, period, product_id, app_account_token,
                coalesce(recent_subscription_start_at, original_purchase_at) AS started_at, renewal_at, signed_at, known_since
            FROM repricer.subscriptions WHERE original_transaction_id = \(id)
            """
        ).first.map { row in
            try Facts(
                status: row.intOrNil("status"), autoRenews: row.boolOrNil("auto_renews"),
                isInBillingRetry: row.bool("in_billing_retry"),
                storefront: row.textOrNil("storefront"), currency: row.textOrNil("currency"),
                period: row.textOrNil("period"), productID: row.textOrNil("product_id"),
                customer: row.textOrNil("app_account_token"),
                startedAt: row.millisecondsOrNil("started_at"),
                renewalAt: row.millisecondsOrNil("renewal_at"),
                signedAt: row.millisecondsOrNil("signed_at"),
                knownSince: row.millisecondsOrNil("known_since"))
        }
    }

    struct Item: Sendable {
        var sku: String
        var currentPrice: Int64?
        var renewalPrice: Int64?
        var renews: Bool?
    }

    static func items(
        of id: String, on connection: isolated PostgresConnection
    ) throws -> [Item] {
        try connection.query(
            """
            -- name: subscriptionPageItems
            SELECT i.sku, i."currentPrice" AS current_price, i."renewalPrice" AS renewal_price, i.renews
            FROM repricer.subscriptions s,
                jsonb_to_recordset(s.items) AS i (sku text, "currentPrice" bigint, "renewalPrice" bigint, renews boolean)
            WHERE s.original_transaction_id = \(id) ORDER BY i.sku
            """
        ).map { row in
            try Item(
                sku: row.textOrNil("sku") ?? "?", currentPrice: row.int64OrNil("current_price"),
                renewalPrice: row.int64OrNil("renewal_price"), renews: row.boolOrNil("renews"))
        }
    }

    struct Change: Sendable {
        var batchID: String
        var batchName: String
        var sku: String
        var currentSKU: String?
        var currency: String
        var oldPrice: Int64
        var newPrice: Int64
        var state: String
        var reason: String?
        var isUndo: Bool
        var forecastConsent: String
        /// `required`, `not_required` or `none`; nil where nobody knows yet.
        var cameConsent: String?
        var forecastEffectiveAt: Int64
        var dueEffectiveAt: Int64
        var effectiveAt: Int64?
        /// The items that are cancelled if this one is declined, by their current names.
        var dependents: [String]
    }

    /// The changes, the newest first.
    static func changes(
        of id: String, on connection: isolated PostgresConnection
    ) throws -> [Change] {
        try connection.query(
            """
            -- name: subscriptionPageChanges
            SELECT c.*, b.name AS batch_name, coalesce(c.parked_reason, c.reason) AS why, CASE
                    WHEN c.consent_asked_at IS NOT NULL OR c.acceptance = 'consented' THEN 'required'
                    WHEN c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined' THEN 'required'
                    WHEN c.acceptance = 'informed' THEN 'not_required'
                    WHEN c.direction = 'decrease' AND coalesce(c.scheduled_at, c.effective_at) IS NOT NULL THEN 'none'
                END AS came_consent
            FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
            WHERE c.original_transaction_id = \(id)
            ORDER BY b.submitted_at DESC, c.line, c.change_id
            """
        ).map { row in
            try Change(
                batchID: row.text("batch_id"), batchName: row.text("batch_name"),
                sku: row.text("sku"), currentSKU: row.textOrNil("current_sku"),
                currency: row.text("currency"), oldPrice: row.int64("current_price_milliunits"),
                newPrice: row.int64("new_price_milliunits"), state: row.text("state"),
                reason: row.textOrNil("why"), isUndo: row.textOrNil("undoes_change_id") != nil,
                forecastConsent: row.text("forecast_consent"),
                cameConsent: row.textOrNil("came_consent"),
                forecastEffectiveAt: row.milliseconds("forecast_effective_at"),
                dueEffectiveAt: row.milliseconds("due_effective_at"),
                effectiveAt: row.millisecondsOrNil("effective_at"),
                dependents: row.textsOrNil("current_dependent_skus")
                    ?? row.texts("dependent_skus"))
        }
    }

    struct Entry: Sendable {
        var at: Int64
        var kind: String
        var sku: String
        var milliunits: Int64
        var currency: String
        var transactionID: String
        var explainedAs: String?
        /// The charge exception; nil where none is known.
        var exception: String?
        var isCorrection: Bool
        var evidenceID: String
    }

    /// Charges, refunds and reversals, the newest first.
    static func money(
        of id: String, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Entry] {
        let exceptions = try exceptions(of: id, on: connection)
        return try connection.query(
            """
            -- name: subscriptionPageMoney
            SELECT occurred_at, kind, sku, amount_milliunits, currency, transaction_id, explained_as, is_correction, evidence_id
            FROM report.money WHERE original_transaction_id = \(id)
            ORDER BY occurred_at DESC, recorded_at DESC, transaction_id, sku, kind LIMIT \(limit)
            """
        ).map { row in
            let (kind, sku) = try (row.text("kind"), row.text("sku"))
            let transactionID = try row.text("transaction_id")
            let wrong = exceptions[Charge(transactionID: transactionID, sku: sku)]
            return try Entry(
                at: row.milliseconds("occurred_at"), kind: kind, sku: sku,
                milliunits: row.int64("amount_milliunits"), currency: row.text("currency"),
                transactionID: transactionID, explainedAs: row.textOrNil("explained_as"),
                exception: kind == "charge" ? wrong?.joined(separator: ", ") : nil,
                isCorrection: row.boolOrNil("is_correction") ?? false,
                evidenceID: row.text("evidence_id"))
        }
    }

    private struct Charge: Hashable {
        var transactionID: String
        var sku: String
    }

    /// The charge exceptions, as far as they are in the stored figures. It is a separate query, because spread tables
    /// do not allow this as a subquery.
    private static func exceptions(
        of id: String, on connection: isolated PostgresConnection
    ) throws -> [Charge: [String]] {
        let rows = try connection.query(
            """
            -- name: subscriptionPageExceptions
            SELECT DISTINCT transaction_id, sku, exception FROM repricer.kept_exceptions
            WHERE original_transaction_id = \(id) AND \(fragment: Bucket.isThat(of: id)) AND transaction_id IS NOT NULL
            ORDER BY exception
            """)
        var exceptions: [Charge: [String]] = [:]
        for row in rows {
            let charge = try Charge(
                transactionID: row.text("transaction_id"), sku: row.text("sku"))
            exceptions[charge, default: []].append(try row.text("exception"))
        }
        return exceptions
    }

    struct Dependent: Sendable {
        var parentID: String
        var parentSKU: String
        var sku: String
        var targetID: String?
        var state: String
        var cause: String
        var detail: String?
        var requestedAt: Int64
        var settledAt: Int64?
        var evidenceID: String?
    }

    /// An item that it carries and that is cancelled if an item of another subscription is declined.
    struct Claim: Sendable {
        var sku: String
        var parentID: String
        var parentSKU: String
        var batchID: String
        var batchName: String
        var state: String
    }

    /// The items that may be cancelled with open changes of other subscriptions.
    static func claims(
        of id: String, on connection: isolated PostgresConnection
    ) throws -> [Claim] {
        // These are two queries, because a claim and the change that makes it are in different buckets.
        let claims = try connection.query(
            """
            -- name: subscriptionPageClaims
            SELECT sku, claimed_by, change_id FROM repricer.dependent_claims
            WHERE original_transaction_id = \(id) ORDER BY sku, claimed_by, change_id
            """
        ).map { row in
            try (
                sku: row.text("sku"), parentID: row.text("claimed_by"),
                changeID: row.text("change_id")
            )
        }
        guard !claims.isEmpty else { return [] }
        let rows = try connection.query(
            """
            -- name: subscriptionPageClaimants
            SELECT c.change_id, coalesce(c.current_sku, c.sku) AS parent_sku, c.batch_id, b.name AS batch_name, c.state
            FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
            WHERE c.original_transaction_id = ANY (\(claims.map(\.parentID))::text[])
                AND c.change_id = ANY (\(uuids: claims.map(\.changeID))::uuid[]) AND c.ended_at IS NULL
            """
        ).map { row in
            try (
                changeID: row.text("change_id"), sku: row.text("parent_sku"),
                batchID: row.text("batch_id"), batch: row.text("batch_name"),
                state: row.text("state")
            )
        }
        return claims.compactMap { claim in
            rows.first { $0.changeID == claim.changeID }.map { change in
                Claim(
                    sku: claim.sku, parentID: claim.parentID, parentSKU: change.sku,
                    batchID: change.batchID, batchName: change.batch, state: change.state)
            }
        }
    }

    /// The dependents' cancellations for which it carries the parent or the dependent.
    static func dependents(
        of id: String, on connection: isolated PostgresConnection
    ) throws -> [Dependent] {
        try connection.query(
            """
            -- name: subscriptionPageDependents
            SELECT * FROM repricer.dependent_cancellations WHERE original_transaction_id = \(id)
            UNION ALL
            SELECT d.* FROM repricer.dependent_cancellations d
            WHERE d.target_transaction_id = \(id) AND d.original_transaction_id <> \(id)
                AND d.original_transaction_id = ANY (ARRAY(
                    SELECT o.original_transaction_id FROM repricer.subscriptions o
                    WHERE o.app_account_token = (
                        SELECT s.app_account_token FROM repricer.subscriptions s
                        WHERE s.original_transaction_id = \(id))))
            ORDER BY requested_at, dependent_sku
            """
        ).map { row in
            try Dependent(
                parentID: row.text("original_transaction_id"), parentSKU: row.text("parent_sku"),
                sku: row.text("dependent_sku"), targetID: row.textOrNil("target_transaction_id"),
                state: row.text("state"), cause: row.text("cause"), detail: row.textOrNil("detail"),
                requestedAt: row.milliseconds("requested_at"),
                settledAt: row.millisecondsOrNil("settled_at"),
                evidenceID: row.textOrNil("settled_by_evidence"))
        }
    }

    // MARK: Search

    struct Found: Sendable {
        var id: String
        var status: Int?
        var productID: String?
        var storefront: String?
        var renewalAt: Int64?
        var skus: String
    }

    static func isKnown(_ id: String, on connection: isolated PostgresConnection) throws -> Bool {
        try connection.query(
            """
            -- name: searchSubscription
            SELECT EXISTS (SELECT 1 FROM repricer.subscriptions WHERE original_transaction_id = \(id))
                OR EXISTS (SELECT 1 FROM repricer.price_changes WHERE original_transaction_id = \(id)) AS is_known
            """
        ).one().bool("is_known")
    }

    static func batches(
        named text: String, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [(id: String, name: String)] {
        try connection.query(
            """
            -- name: searchBatches
            SELECT batch_id, name FROM repricer.batches
            WHERE (length(\(text)::text) >= 8 AND starts_with(batch_id::text, lower(\(text)::text)))
                OR strpos(lower(name), lower(\(text)::text)) > 0
            ORDER BY submitted_at DESC, batch_id LIMIT \(limit)
            """
        ).map { (try $0.text("batch_id"), try $0.text("name")) }
    }

    static func ofCustomer(
        _ token: String, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Found] {
        try found(
            """
            -- name: searchCustomer
            SELECT \(fragment: columns) FROM repricer.subscriptions s
            WHERE s.app_account_token IN (\(token), lower(\(token)::text))
            ORDER BY s.original_transaction_id LIMIT \(limit)
            """, on: connection)
    }

    /// Finds an item by a scan of the whole table, so its time is limited to what a person waits.
    static func ofItem(
        _ sku: String, limit: Int, milliseconds: Int, on connection: isolated PostgresConnection
    ) throws -> [Found] {
        _ = try connection.query(
            """
            -- name: searchTimeout
            SELECT set_config('statement_timeout', \(String(milliseconds)), true), set_config('jit', 'off', true)
            """)
        return try found(
            """
            -- name: searchItem
            SELECT \(fragment: columns) FROM repricer.subscriptions s
            WHERE s.original_transaction_id = ANY (ARRAY(
                    SELECT c.original_transaction_id FROM repricer.price_changes c
                    WHERE c.sku = \(sku) OR c.current_sku = \(sku) LIMIT \(limit)))
            UNION
            (SELECT \(fragment: columns) FROM repricer.subscriptions s
                WHERE s.items @> jsonb_build_array(jsonb_build_object('sku', \(sku)::text)) LIMIT \(limit))
            ORDER BY original_transaction_id LIMIT \(limit)
            """, on: connection)
    }

    private static let columns: SQL = """
        s.original_transaction_id, s.status, s.product_id, s.storefront, s.renewal_at,
        (SELECT string_agg(i ->> 'sku', ', ' ORDER BY i ->> 'sku') FROM jsonb_array_elements(s.items) i) AS skus
        """

    private static func found(
        _ sql: SQL, on connection: isolated PostgresConnection
    ) throws -> [Found] {
        try connection.query(sql).map { row in
            try Found(
                id: row.text("original_transaction_id"), status: row.intOrNil("status"),
                productID: row.textOrNil("product_id"), storefront: row.textOrNil("storefront"),
                renewalAt: row.millisecondsOrNil("renewal_at"), skus: row.textOrNil("skus") ?? "")
        }
    }
}
