import Facts
package import Postgres
package import Pricing

/// What a plan reads. It reads only what the judge needs of each subscription, of thousands at once.
package enum PlanQueries {
    /// The facts of subscriptions as the server sent them, to be decoded on any thread.
    package struct FactRows: Sendable {
        let facts: Rows
        let open: Rows
        let imported: Rows

        /// How many subscriptions there are.
        package var count: Int { facts.count }
    }

    /// Begins a snapshot: until `endSnapshot` all queries see the database as the first of them does.
    package static func beginSnapshot(on connection: isolated PostgresConnection) throws {
        // A submission fills price_changes while its plan still reads. A query plan from the time when the table was
        // small would keep scanning all of the growing table.
        try connection.script(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL enable_seqscan = off")
    }

    package static func endSnapshot(on connection: isolated PostgresConnection) throws {
        try connection.script("COMMIT")
    }

    /// The facts and the open changes of subscriptions. They need not exist, and a subscription without any folded
    /// statement counts as unknown. `known`: past increases count as they were imported by then; nil stands for now.
    package static func facts(
        _ ids: [String], knownAt known: Instant?, on connection: isolated PostgresConnection
    ) throws -> FactRows {
        let facts = try connection.query(
            """
            -- name: planFacts
            SELECT \(fragment: factColumns)
            FROM repricer.subscriptions
            WHERE original_transaction_id = ANY (\(ids)::text[])
                AND folded_signed_at IS NOT NULL AND folded_evidence_id IS NOT NULL
            """)
        return try FactRows(
            facts: facts, open: openChanges(ids, on: connection),
            imported: ImportedIncreaseQueries.rows(of: ids, knownAt: known, on: connection))
    }

    /// The columns of a subscription that the judge needs.
    static let factColumns: SQL = """
        original_transaction_id, status, auto_renews, in_billing_retry, storefront, currency,
            period, renewal_period, renewal_currency, app_account_token, ownership_type, quantity, original_purchase_at, recent_subscription_start_at,
            purchased_at, expires_at, renewal_at, items, increases, signed_at, known_since
        """

    static func openChanges(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> Rows {
        try connection.query(
            """
            -- name: planOpenChanges
            SELECT original_transaction_id, change_id, coalesce(current_sku, sku) AS sku,
                new_price_milliunits, coalesce(current_dependent_skus, dependent_skus) AS dependent_skus,
                state, due_effective_at, send_after,
                -- What is held out blocks its item until the approval, and never takes effect.
                new_price_milliunits > current_price_milliunits AND NOT is_held_out AS is_increase
            FROM repricer.price_changes
            WHERE original_transaction_id = ANY (\(ids)::text[])
                -- The condition names states, which no index knows. While the table is small, a query plan by stage
                -- seems as good, and a submission that fills the table would read all of it for each piece of its
                -- plan.
                AND state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled',
                    'pending_consent', 'accepted')
                -- An undo that Apple has applied does not count as open.
                AND (undoes_change_id IS NULL OR state NOT IN ('scheduled', 'pending_consent', 'accepted'))
            ORDER BY original_transaction_id, send_by, change_id
            """)
    }
}

extension PlanQueries {
    /// The open changes that name items of these subscriptions as their dependents, by `SUBSCRIPTION/SKU`.
    package static func claims(
        on ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: [DependentClaim]] {
        let rows = try connection.query(
            """
            -- name: dependentClaims
            SELECT d.original_transaction_id || '/' || d.sku AS name, d.claimed_by, d.change_id
            FROM repricer.dependent_claims d
            WHERE d.original_transaction_id = ANY (\(ids)::text[])
            ORDER BY name, d.claimed_by, d.change_id
            """)
        // The claims are in the buckets of the items, and the changes that make them in others.
        let open = try openSKUs(
            ofSubscriptions: Set(rows.map { try $0.text("claimed_by") }).sorted(), on: connection)
        var claims: [String: [DependentClaim]] = [:]
        for row in rows {
            guard let sku = open[try row.text("change_id")] else { continue }
            claims[try row.text("name"), default: []].append(
                DependentClaim(originalTransactionID: try row.text("claimed_by"), sku: sku))
        }
        return claims
    }

    /// The SKUs of the open changes of these subscriptions, by the ids of the changes.
    private static func openSKUs(
        ofSubscriptions ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: String] {
        guard !ids.isEmpty else { return [:] }
        let rows = try connection.query(
            """
            -- name: claimingChanges
            SELECT change_id, coalesce(current_sku, sku) AS sku FROM repricer.price_changes
            WHERE original_transaction_id = ANY (\(ids)::text[])
                -- By state and not by stage, for the reason given at planOpenChanges.
                AND state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled',
                    'pending_consent', 'accepted')
            """)
        return Dictionary(
            try rows.map { (try $0.text("change_id"), try $0.text("sku")) },
            uniquingKeysWith: { first, _ in first })
    }
}

extension PlanQueries.FactRows {
    /// One subscription and what the judge needs besides. It is a class, because both are costly to copy. Only the task
    /// that decoded it uses it.
    package final class Known {
        package let facts: SubscriptionFacts
        package var context: JudgeContext

        init(_ facts: SubscriptionFacts, _ context: JudgeContext) {
            self.facts = facts
            self.context = context
        }
    }

    /// Decodes the rows, by original transaction id.
    package func decoded() throws -> [String: Known] {
        var known: [String: Known] = [:]
        known.reserveCapacity(facts.count)
        var items = RecentItems()
        for row in facts {
            let facts = try Self.read(row, &items)
            let increases = try row.storedIncreases()
            var context = JudgeContext(increaseHistory: increases.past)
            context.announcedAt = increases.announcedAt
            known[facts.originalTransactionID] = Known(facts, context)
        }
        for (id, increases) in try ImportedIncreaseQueries.found(imported) {
            known[id]?.context.increaseHistory += increases
        }
        for row in open {
            guard let state = ChangeState(rawValue: try row.text("state")) else {
                throw FactsError.unreadable("price_changes.state")
            }
            known[try row.text("original_transaction_id")]?.context.openChanges.append(
                JudgeContext.OpenChange(
                    changeID: try row.text("change_id"), sku: try row.text("sku"),
                    newPrice: try row.int64("new_price_milliunits"),
                    dependentSKUs: try row.texts("dependent_skus"), state: state,
                    increasesAt: try row.bool("is_increase")
                        ? row.instant("due_effective_at") : nil,
                    sendAfter: try row.instant("send_after")))
        }
        return known
    }

    private static func read(
        _ row: Row, _ items: inout RecentItems
    ) throws -> SubscriptionFacts {
        var facts = SubscriptionFacts(
            originalTransactionID: try row.text("original_transaction_id"))
        facts.status = try row.intOrNil("status")
        facts.autoRenews = try row.boolOrNil("auto_renews")
        facts.isInBillingRetry = try row.bool("in_billing_retry")
        facts.storefront = try row.textOrNil("storefront")
        facts.currency = try row.textOrNil("currency")
        facts.period = try row.textOrNil("period")
        facts.renewalPeriod = try row.textOrNil("renewal_period")
        facts.renewalCurrency = try row.textOrNil("renewal_currency")
        facts.appAccountToken = try row.textOrNil("app_account_token")
        facts.ownershipType = try row.textOrNil("ownership_type")
        facts.quantity = try row.intOrNil("quantity")
        facts.originalPurchaseAt = try row.instant("original_purchase_at")
        facts.recentSubscriptionStartAt = try row.instant("recent_subscription_start_at")
        facts.purchasedAt = try row.instant("purchased_at")
        facts.expiresAt = try row.instant("expires_at")
        facts.renewalAt = try row.instant("renewal_at")
        facts.items = try items.items(of: row)
        facts.signedAt = try row.instant("signed_at")
        facts.knownSince = try row.instant("known_since")
        return facts
    }
}
