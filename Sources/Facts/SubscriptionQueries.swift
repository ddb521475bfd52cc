package import Postgres
package import Pricing

/// Facts of subscriptions. Every writer of a subscription, of its changes or of its requests locks its row first.
/// That one lock is taken bucket by bucket in the order of ids, so that no two transactions wait for each other.
package enum SubscriptionQueries {
    /// A subscription as the last fold left it.
    package struct Stored: Sendable {
        package var facts: SubscriptionFacts
        package var increases: [RecordedIncrease]
        package var seenSKUs: [String]
        package var foldedThrough: SubscriptionEvent.Key?
        /// Statements signed before this instant are no longer stored; the checkpoint replaces them.
        package var checkpointAt: Instant?
    }

    /// The transaction that last wrote a row. While it stays the same, so does the row.
    package typealias Version = String

    /// Creates the rows of subscriptions that were never seen before, in the order of locking. Two transactions that
    /// create the same rows wait for each other, never in a circle.
    package static func create(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.execute(
            """
            -- name: createSubscriptions
            INSERT INTO repricer.subscriptions (original_transaction_id, bucket)
            SELECT id, repricer.bucket_of(id) FROM unnest(\(ids.sorted())::text[]) AS id
            ON CONFLICT DO NOTHING
            """)
    }

    /// Locks those subscriptions that nobody else holds, and returns their ids.
    package static func lockFree(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: lockFreeSubscriptions
            SELECT original_transaction_id FROM repricer.subscriptions
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            ORDER BY original_transaction_id
            FOR UPDATE SKIP LOCKED
            """
        ).map { try $0.text("original_transaction_id") }
    }

    /// Locks all of these subscriptions, and waits for whoever holds them. The caller is about to fold, so this throws
    /// `SQLState.programTooOld` once the database belongs to newer programs.
    package static func lock(_ ids: [String], on connection: isolated PostgresConnection) throws {
        try lock(ids, if: ServiceControlQueries.allowsThisProgram, on: connection)
    }

    /// Locks them to store the answer of a call that was already sent. A breaking migration waits for such answers, so
    /// they may be written even after its announcement.
    package static func lockToSettle(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws {
        try lock(ids, if: "true", on: connection)
    }

    private static func lock(
        _ ids: [String], if condition: SQL, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.pipeline(
            Bucket.groups(ids, of: \.self).map { ids in
                """
                -- name: lockSubscriptions
                SELECT 1 FROM repricer.subscriptions
                WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
                    AND \(fragment: condition)
                ORDER BY original_transaction_id
                FOR UPDATE
                """
            })
    }

    /// The subscriptions that can be read, and, by id, why the others cannot. One unreadable row must not stop the
    /// others.
    package typealias Readable = (stored: [String: Stored], unreadable: [String: String])

    /// Locks all of these subscriptions, waits for whoever holds them, and reads them as `loadReadable` does.
    package static func lockingAndLoading(_ ids: [String]) -> Question<Readable> {
        Question(
            """
            -- name: lockAndLoadSubscriptions
            SELECT * FROM repricer.subscriptions
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            ORDER BY original_transaction_id
            FOR UPDATE
            """, readable)
    }

    /// Locks all of them as `lockingAndLoading` does, and returns their versions, which tell whether they changed
    /// since they were read.
    package static func lockingVersions(_ ids: [String]) -> Question<[String: Version]> {
        Question(
            """
            -- name: lockVersions
            SELECT original_transaction_id, xmin::text AS version FROM repricer.subscriptions
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            ORDER BY original_transaction_id
            FOR UPDATE
            """
        ) { rows in
            var versions: [String: Version] = [:]
            versions.reserveCapacity(rows.count)
            for row in rows {
                versions[try row.text("original_transaction_id")] = try row.text("version")
            }
            return versions
        }
    }

    package static func load(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: Stored] {
        try whole(loadReadable(ids, on: connection))
    }

    /// The subscriptions; throws where one cannot be read.
    package static func whole(_ loaded: Readable) throws -> [String: Stored] {
        if let first = loaded.unreadable.first {
            throw FactsError.unreadable("subscription \(first.key): \(first.value)")
        }
        return loaded.stored
    }

    /// Reads the subscriptions and, by id, why some cannot be read. One unreadable row must not stop the others.
    package static func loadReadable(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> Readable {
        try connection.ask(loading(ids))
    }

    package static func loading(_ ids: [String]) -> Question<Readable> {
        Question(
            Bucket.groups(ids, of: \.self).map { ids in
                """
                -- name: loadSubscriptions
                SELECT * FROM repricer.subscriptions
                WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
                """
            }
        ) { answers in try readable(answers.joined()) }
    }

    private static func readable(_ rows: some Collection<Row>) throws -> Readable {
        var stored: [String: Stored] = [:]
        var unreadable: [String: String] = [:]
        stored.reserveCapacity(rows.count)
        for row in rows {
            let id = try row.text("original_transaction_id")
            do {
                stored[id] = try read(row)
            } catch  where isDataFault(error) {
                unreadable[id] = "\(error)"
            }
        }
        return (stored, unreadable)
    }

    /// The SKUs that will renew on any subscription of the same customers, by customer token, each also as
    /// `SUBSCRIPTION/SKU`. Where a subscription has ended, or its renewal is off, it still lists its items, but none
    /// of them will renew.
    package static func renewingSKUs(
        ofCustomers tokens: [String], on connection: isolated PostgresConnection
    ) throws -> [String: Set<String>] {
        try connection.ask(renewingSKUs(ofCustomers: tokens))
    }

    package static func renewingSKUs(
        ofCustomers tokens: [String]
    ) -> Question<[String: Set<String>]> {
        guard !tokens.isEmpty else { return .answered([:]) }
        return Question(
            """
            -- name: renewingSKUsOfCustomers
            SELECT s.app_account_token, s.original_transaction_id, item ->> 'sku' AS sku
            FROM repricer.subscriptions s, jsonb_array_elements(s.items) item
            WHERE s.app_account_token = ANY (\(tokens)::text[])
                AND item -> 'renews' = 'true'::jsonb AND item ->> 'sku' IS NOT NULL
                AND s.auto_renews IS NOT FALSE AND coalesce(s.status IN (1, 3, 4), true)
            """
        ) { rows in
            var skus: [String: Set<String>] = [:]
            for row in rows {
                let sku = try row.text("sku")
                let named = DependentReference(
                    originalTransactionID: try row.text("original_transaction_id"), sku: sku)
                skus[try row.text("app_account_token"), default: []].formUnion([sku, named.text])
            }
            return skus
        }
    }

    /// The customer tokens of these subscriptions. Subscriptions that are not stored are left out.
    package static func customers(
        of ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: String] {
        let rows = try connection.query(
            """
            -- name: customersOfSubscriptions
            SELECT original_transaction_id, app_account_token FROM repricer.subscriptions
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND app_account_token IS NOT NULL
                AND \(fragment: Bucket.isThat(of: ids))
            """)
        var customers: [String: String] = [:]
        for row in rows {
            customers[try row.text("original_transaction_id")] = try row.text("app_account_token")
        }
        return customers
    }

    /// One of several subscriptions of a customer.
    package struct Sibling: Sendable {
        package var originalTransactionID: String
        package var carried: Set<String>
        /// The SKUs that will renew; empty where the subscription has ended or its renewal is off.
        package var renewing: Set<String>

        /// Whether a row of this subscription that names only the SKU means one of its items.
        package func hasOwn(_ sku: String) -> Bool {
            (renewing.isEmpty ? carried : renewing).contains(sku)
        }
    }

    /// The subscriptions of customers who have several, by customer token. Other customers are left out.
    package static func siblings(
        ofCustomers tokens: [String], on connection: isolated PostgresConnection
    ) throws -> [String: [Sibling]] {
        let rows = try connection.query(
            """
            -- name: siblingsOfCustomers
            SELECT s.app_account_token, s.original_transaction_id,
                ARRAY(SELECT item ->> 'sku' FROM jsonb_array_elements(s.items) item
                    WHERE item ->> 'sku' IS NOT NULL) AS carried,
                ARRAY(SELECT item ->> 'sku' FROM jsonb_array_elements(s.items) item
                    WHERE item ->> 'sku' IS NOT NULL AND item -> 'renews' = 'true'::jsonb
                        AND s.auto_renews IS NOT FALSE AND coalesce(s.status IN (1, 3, 4), true)
                ) AS renewing
            FROM (
                SELECT app_account_token, original_transaction_id, items, auto_renews, status,
                    count(*) OVER (PARTITION BY app_account_token) AS held
                FROM repricer.subscriptions WHERE app_account_token = ANY (\(tokens)::text[])
            ) s
            WHERE s.held > 1
            ORDER BY s.app_account_token, s.original_transaction_id
            """)
        var siblings: [String: [Sibling]] = [:]
        for row in rows {
            siblings[try row.text("app_account_token"), default: []].append(
                try Sibling(
                    originalTransactionID: row.text("original_transaction_id"),
                    carried: Set(row.texts("carried")), renewing: Set(row.texts("renewing"))))
        }
        return siblings
    }

    /// The facts about another subscription whose items rows name as `SUBSCRIPTION/SKU`.
    package struct Carrier: Sendable {
        package var customer: String?
        package var renewing: Set<String>
        /// The roles of its items in open changes of that subscription.
        package var roles: [String: DependentObstacle]
        /// What was charged for its items in the running period.
        package var charges: [String: ItemCharge]
    }

    package static func carriers(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: Carrier] {
        var carriers: [String: Carrier] = [:]
        for (id, stored) in try loadReadable(ids, on: connection).stored {
            let facts = stored.facts.asChanging
            carriers[id] = Carrier(
                customer: facts.appAccountToken,
                renewing: facts.whyOver == nil && facts.holder == nil ? facts.renewingSKUs : [],
                roles: [:],
                charges: Dictionary(
                    facts.items.compactMap { facts.chargeAtRisk(of: $0.sku) }.map { ($0.sku, $0) },
                    uniquingKeysWith: { first, _ in first }))
        }
        let rows = try connection.query(
            """
            -- name: rolesOfCarriers
            SELECT r.original_transaction_id, r.sku, r.role, ARRAY(
                SELECT d.sku FROM repricer.dependency_roles d
                WHERE d.original_transaction_id = r.original_transaction_id AND d.bucket = r.bucket
                    AND d.change_id = r.change_id AND d.role = 'dependent' ORDER BY d.sku) AS dependents
            FROM repricer.dependency_roles r WHERE r.original_transaction_id = ANY (\(ids)::text[])
                AND \(fragment: Bucket.isThat(of: ids, "r.bucket"))
            """)
        for row in rows {
            carriers[try row.text("original_transaction_id")]?.roles[try row.text("sku")] =
                try row.text("role") == "parent"
                ? .parent(try row.texts("dependents")) : .dependent
        }
        return carriers
    }

    package static func read(_ row: Row) throws -> Stored {
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
        facts.renewalPeriod = try row.textOrNil("renewal_period")
        facts.productID = try row.textOrNil("product_id")
        facts.appAccountToken = try row.textOrNil("app_account_token")
        facts.ownershipType = try row.textOrNil("ownership_type")
        facts.offerDiscountType = try row.textOrNil("offer_discount_type")
        facts.offerType = try row.intOrNil("offer_type")
        facts.quantity = try row.intOrNil("quantity")
        facts.transactionReason = try row.textOrNil("transaction_reason")
        facts.appTransactionID = try row.textOrNil("app_transaction_id")
        facts.autoRenewProductID = try row.textOrNil("auto_renew_product_id")
        facts.renewalTotal = try row.int64OrNil("renewal_price_milliunits")
        facts.renewalCurrency = try row.textOrNil("renewal_currency")
        facts.renewalOfferType = try row.intOrNil("renewal_offer_type")
        try row.storedDetails(into: &facts)
        facts.latestTransactionID = try row.textOrNil("latest_transaction_id")
        facts.originalPurchaseAt = try row.instant("original_purchase_at")
        facts.recentSubscriptionStartAt = try row.instant("recent_subscription_start_at")
        facts.purchasedAt = try row.instant("purchased_at")
        facts.expiresAt = try row.instant("expires_at")
        facts.renewalAt = try row.instant("renewal_at")
        facts.consistencyToken = try row.textOrNil("consistency_token")
        facts.items = try row.storedItems()
        facts.renames = try row.storedRenames()
        facts.signedAt = try row.instant("signed_at")
        facts.knownSince = try row.instant("known_since")
        var foldedThrough: SubscriptionEvent.Key?
        if let at = try row.instant("folded_signed_at"),
            let id = try row.textOrNil("folded_evidence_id")
        {
            foldedThrough = SubscriptionEvent.Key(signedAt: at, evidenceID: id)
        }
        return try Stored(
            facts: facts, increases: row.storedIncreases(), seenSKUs: row.texts("seen_skus"),
            foldedThrough: foldedThrough, checkpointAt: row.instant("checkpoint_at"))
    }

    /// Writes what a fold made of subscriptions.
    package static func save(_ states: [SubscriptionState]) -> SQL {
        """
        -- name: saveSubscriptions
        UPDATE repricer.subscriptions s \(fragment: setting(states))
        """
    }

    /// The `SET` and `FROM` of an update of `s`, a row of `subscriptions` or of another table with the same columns.
    static func setting(_ states: [SubscriptionState]) -> SQL {
        """
        SET
            status = t.status, auto_renews = t.auto_renews, in_billing_retry = t.in_billing_retry,
            grace_period_expires_at = t.grace_period_expires_at,
            expiration_intent = t.expiration_intent, storefront = t.storefront,
            currency = t.currency, period = t.period, renewal_period = t.renewal_period, product_id = t.product_id,
            app_account_token = t.app_account_token, ownership_type = t.ownership_type,
            offer_discount_type = t.offer_discount_type, offer_type = t.offer_type, quantity = t.quantity,
            transaction_reason = t.transaction_reason, app_transaction_id = t.app_transaction_id,
            auto_renew_product_id = t.auto_renew_product_id,
            renewal_price_milliunits = t.renewal_price_milliunits, renewal_currency = t.renewal_currency,
            renewal_offer_type = t.renewal_offer_type, signed_details = t.signed_details,
            latest_transaction_id = t.latest_transaction_id,
            original_purchase_at = t.original_purchase_at,
            recent_subscription_start_at = t.recent_subscription_start_at,
            purchased_at = t.purchased_at, expires_at = t.expires_at, renewal_at = t.renewal_at,
            consistency_token = t.consistency_token, items = t.items,
            increases = coalesce(t.increases, '[]'), renames = t.renames,
            seen_skus = t.seen_skus, signed_at = t.signed_at, known_since = t.known_since,
            folded_signed_at = t.folded_signed_at, folded_evidence_id = t.folded_evidence_id
        -- An update of spread tables takes no cast from text, so it stands in a subquery, which OFFSET 0 keeps apart.
        FROM (SELECT u.*, u.seen::text[] AS seen_skus FROM unnest(
            \(states.column { $0.facts.originalTransactionID })::text[], \(ints: states.sparseColumn { $0.facts.status.map { Int64($0) } })::integer[],
            \(bools: states.sparseColumn { $0.facts.autoRenews })::boolean[],
            \(bools: states.column { $0.facts.isInBillingRetry })::boolean[],
            \(timestamps: states.sparseColumn { $0.facts.gracePeriodExpiresAt?.milliseconds })::timestamptz[],
            \(ints: states.sparseColumn { $0.facts.expirationIntent.map { Int64($0) } })::integer[],
            \(texts: states.sparseColumn { $0.facts.storefront })::text[], \(texts: states.sparseColumn { $0.facts.currency })::text[],
            \(texts: states.sparseColumn { $0.facts.period })::text[],
            \(texts: states.sparseColumn { $0.facts.renewalPeriod })::text[],
            \(texts: states.sparseColumn { $0.facts.productID })::text[],
            \(texts: states.sparseColumn { $0.facts.appAccountToken })::text[],
            \(texts: states.sparseColumn { $0.facts.ownershipType })::text[],
            \(texts: states.sparseColumn { $0.facts.offerDiscountType })::text[],
            \(ints: states.sparseColumn { $0.facts.offerType.map { Int64($0) } })::integer[],
            \(ints: states.sparseColumn { $0.facts.quantity.map { Int64($0) } })::integer[],
            \(texts: states.sparseColumn { $0.facts.transactionReason })::text[],
            \(texts: states.sparseColumn { $0.facts.appTransactionID })::text[],
            \(texts: states.sparseColumn { $0.facts.autoRenewProductID })::text[],
            \(ints: states.sparseColumn { $0.facts.renewalTotal })::bigint[],
            \(texts: states.sparseColumn { $0.facts.renewalCurrency })::text[],
            \(ints: states.sparseColumn { $0.facts.renewalOfferType.map { Int64($0) } })::integer[],
            \(jsons: states.sparseColumn { StoredDetails($0.facts).map(StoredJSON.text) })::jsonb[],
            \(texts: states.sparseColumn { $0.facts.latestTransactionID })::text[],
            \(timestamps: states.sparseColumn { $0.facts.originalPurchaseAt?.milliseconds })::timestamptz[],
            \(timestamps: states.sparseColumn { $0.facts.recentSubscriptionStartAt?.milliseconds })::timestamptz[],
            \(timestamps: states.sparseColumn { $0.facts.purchasedAt?.milliseconds })::timestamptz[],
            \(timestamps: states.sparseColumn { $0.facts.expiresAt?.milliseconds })::timestamptz[],
            \(timestamps: states.sparseColumn { $0.facts.renewalAt?.milliseconds })::timestamptz[],
            \(texts: states.sparseColumn { $0.facts.consistencyToken })::text[],
            \(jsons: states.column { StoredJSON.text($0.facts.items) })::jsonb[],
            \(jsons: states.sparseColumn { $0.increases.isEmpty ? nil : StoredJSON.text($0.increases) })::jsonb[],
            \(jsons: states.sparseColumn { $0.facts.renames.isEmpty ? nil : StoredJSON.text($0.facts.renames) })::jsonb[],
            \(states.column { arrayText($0.seenSKUs) })::text[],
            \(timestamps: states.sparseColumn { $0.facts.signedAt?.milliseconds })::timestamptz[],
            \(timestamps: states.sparseColumn { $0.facts.knownSince?.milliseconds })::timestamptz[],
            \(timestamps: states.sparseColumn { $0.foldedThrough?.signedAt.milliseconds })::timestamptz[],
            \(texts: states.sparseColumn { $0.foldedThrough?.evidenceID })::text[]
        ) AS u (id, status, auto_renews, in_billing_retry, grace_period_expires_at,
            expiration_intent, storefront, currency, period, renewal_period, product_id, app_account_token,
            ownership_type, offer_discount_type, offer_type, quantity, transaction_reason, app_transaction_id,
            auto_renew_product_id, renewal_price_milliunits, renewal_currency, renewal_offer_type, signed_details,
            latest_transaction_id, original_purchase_at, recent_subscription_start_at,
            purchased_at, expires_at, renewal_at, consistency_token, items, increases, renames,
            seen, signed_at, known_since, folded_signed_at, folded_evidence_id) OFFSET 0) AS t
        WHERE s.original_transaction_id = t.id
            AND \(fragment: Bucket.isThat(of: states.lazy.map(\.facts.originalTransactionID), "s.bucket"))
        """
    }
}

extension Row {
    package func instant(_ column: String) throws -> Instant? {
        try millisecondsOrNil(column).map { Instant(milliseconds: $0) }
    }
}
