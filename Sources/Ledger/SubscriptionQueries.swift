package import Postgres
package import Pricing

/// Facts of subscriptions. Every writer of a subscription, its changes or its requests locks its row first:
/// one lock a subscription, taken in the order of ids, so that no two transactions wait for each other.
package enum SubscriptionQueries {
    /// A subscription as the last fold left it.
    package struct Stored: Sendable {
        package var facts: SubscriptionFacts
        package var increases: [RecordedIncrease]
        package var seenSKUs: [String]
        package var foldedThrough: SubscriptionEvent.Key?
    }

    /// Creates the rows of subscriptions never seen before, in the order of locking: two that create the same
    /// ones wait for each other, never in a circle.
    package static func create(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.execute(
            """
            -- name: createSubscriptions
            INSERT INTO repricer.subscriptions (original_transaction_id)
            SELECT unnest(\(ids.sorted())::text[])
            ON CONFLICT DO NOTHING
            """)
    }

    /// Locks those that nobody else holds, and returns their ids.
    package static func lockFree(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: lockFreeSubscriptions
            SELECT original_transaction_id FROM repricer.subscriptions
            WHERE original_transaction_id = ANY (\(ids)::text[])
            ORDER BY original_transaction_id
            FOR UPDATE SKIP LOCKED
            """
        ).map { try $0.text("original_transaction_id") }
    }

    /// Locks them all, waiting for whoever holds them.
    package static func lock(_ ids: [String], on connection: isolated PostgresConnection) throws {
        _ = try connection.query(
            """
            -- name: lockSubscriptions
            SELECT 1 FROM repricer.subscriptions
            WHERE original_transaction_id = ANY (\(ids)::text[])
            ORDER BY original_transaction_id
            FOR UPDATE
            """)
    }

    package static func load(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: Stored] {
        let rows = try connection.query(
            """
            -- name: loadSubscriptions
            SELECT * FROM repricer.subscriptions
            WHERE original_transaction_id = ANY (\(ids)::text[])
            """)
        var stored: [String: Stored] = [:]
        stored.reserveCapacity(rows.count)
        for row in rows {
            let subscription = try read(row)
            stored[subscription.facts.originalTransactionID] = subscription
        }
        return stored
    }

    /// The SKUs set to renew on any subscription of the same customers, by customer token.
    package static func renewingSKUs(
        ofCustomers tokens: [String], on connection: isolated PostgresConnection
    ) throws -> [String: Set<String>] {
        let rows = try connection.query(
            """
            -- name: renewingSKUsOfCustomers
            SELECT s.app_account_token, item ->> 'sku' AS sku
            FROM repricer.subscriptions s, jsonb_array_elements(s.items) item
            WHERE s.app_account_token = ANY (\(tokens)::text[]) AND (item ->> 'renews')::boolean
            """)
        var skus: [String: Set<String>] = [:]
        for row in rows {
            skus[try row.text("app_account_token"), default: []].insert(try row.text("sku"))
        }
        return skus
    }

    private static func read(_ row: Row) throws -> Stored {
        var facts = SubscriptionFacts(
            originalTransactionID: try row.text("original_transaction_id"))
        facts.status = try row.intOrNil("status")
        facts.autoRenews = try row.boolOrNil("auto_renews")
        facts.isInBillingRetry = try row.bool("in_billing_retry")
        facts.gracePeriodExpiresAt = try row.instant("grace_period_expires_at")
        facts.expirationIntent = try row.intOrNil("expiration_intent")
        facts.storefront = try row.textOrNil("storefront")
        facts.currency = try row.textOrNil("currency")
        facts.period = try row.textOrNil("period")
        facts.productID = try row.textOrNil("product_id")
        facts.appAccountToken = try row.textOrNil("app_account_token")
        facts.latestTransactionID = try row.textOrNil("latest_transaction_id")
        facts.originalPurchaseAt = try row.instant("original_purchase_at")
        facts.recentSubscriptionStartAt = try row.instant("recent_subscription_start_at")
        facts.purchasedAt = try row.instant("purchased_at")
        facts.expiresAt = try row.instant("expires_at")
        facts.renewalAt = try row.instant("renewal_at")
        facts.consistencyToken = try row.textOrNil("consistency_token")
        facts.items = try row.storedItems()
        facts.signedAt = try row.instant("signed_at")
        var foldedThrough: SubscriptionEvent.Key?
        if let at = try row.instant("folded_signed_at"),
            let id = try row.textOrNil("folded_evidence_id")
        {
            foldedThrough = SubscriptionEvent.Key(signedAt: at, evidenceID: id)
        }
        return Stored(
            facts: facts,
            increases: try row.storedIncreases(),
            seenSKUs: try row.texts("seen_skus"), foldedThrough: foldedThrough)
    }

    /// Writes back what a fold made of a subscription.
    package static func save(_ state: SubscriptionState) throws -> SQL {
        let facts = state.facts
        return """
            -- name: saveSubscription
            UPDATE repricer.subscriptions SET
                status = \(facts.status), auto_renews = \(facts.autoRenews),
                in_billing_retry = \(facts.isInBillingRetry),
                grace_period_expires_at = \(timestamp: facts.gracePeriodExpiresAt?.milliseconds),
                expiration_intent = \(facts.expirationIntent), storefront = \(facts.storefront),
                currency = \(facts.currency), period = \(facts.period),
                product_id = \(facts.productID), app_account_token = \(facts.appAccountToken),
                latest_transaction_id = \(facts.latestTransactionID),
                original_purchase_at = \(timestamp: facts.originalPurchaseAt?.milliseconds),
                recent_subscription_start_at =
                    \(timestamp: facts.recentSubscriptionStartAt?.milliseconds),
                purchased_at = \(timestamp: facts.purchasedAt?.milliseconds),
                expires_at = \(timestamp: facts.expiresAt?.milliseconds),
                renewal_at = \(timestamp: facts.renewalAt?.milliseconds),
                consistency_token = \(facts.consistencyToken),
                items = \(json: try JSONText.encode(facts.items)),
                increases = \(json: try JSONText.encode(state.increases)),
                seen_skus = \(state.seenSKUs),
                signed_at = \(timestamp: facts.signedAt?.milliseconds),
                folded_signed_at = \(timestamp: state.foldedThrough?.signedAt.milliseconds),
                folded_evidence_id = \(state.foldedThrough?.evidenceID)
            WHERE original_transaction_id = \(facts.originalTransactionID)
            """
    }
}

extension Row {
    func instant(_ column: String) throws -> Instant? {
        try millisecondsOrNil(column).map { Instant(milliseconds: $0) }
    }
}
