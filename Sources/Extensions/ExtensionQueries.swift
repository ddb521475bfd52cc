import Facts
package import Postgres
package import Pricing

/// Renewal-date extensions as people request, decide and read them.
package enum ExtensionQueries {
    /// A request to extend the renewal dates of all active subscribers of a product.
    package struct Mass: Sendable, Equatable {
        package var extensionID: String
        package var productID: String
        /// The storefronts; nil for all.
        package var storefronts: [String]?
        package var days: Int
        package var reason: Int
        package var state: String
        /// Whether a database that was lost may have called it.
        package var isDoubtful: Bool

        init(_ row: Row) throws {
            isDoubtful = try row.instant("doubtful_since") != nil
            extensionID = try row.text("extension_id")
            productID = try row.text("product_id")
            storefronts = try row.textsOrNil("storefronts")
            days = try row.int("extend_by_days")
            reason = try row.int("reason_code")
            state = try row.text("state")
        }
    }

    /// Stores a request. Returns false where the same request was made before. `ineligible` is JSON that gives the
    /// number of subscriptions for each obstacle.
    package static func requestMass(
        _ extensionID: String, productID: String, storefronts: [String]?, _ terms: ExtensionTerms,
        note: String?, eligible: Int64, ineligible: String, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.decide(
            "requestMassExtension",
            """
            repricer.request_mass_extension(\(uuid: extensionID)::uuid, \(productID)::text,
                string_to_array(\(storefronts?.joined(separator: ","))::text, ','),
                \(terms.days)::integer, \(terms.reason.rawValue)::integer, \(note)::text,
                \(eligible)::bigint, \(json: ineligible)::jsonb, \(timestamp: at))
            """
        ).bool("answer")
    }

    /// Stores a request. Returns false where the same request was made before.
    package static func request(
        _ id: String, extensionID: String, _ terms: ExtensionTerms, note: String?, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.decide(
            "requestExtension",
            """
            repricer.request_extension(\(id)::text, \(uuid: extensionID)::uuid,
                \(terms.days)::integer, \(terms.reason.rawValue)::integer, \(note)::text,
                \(timestamp: at))
            """
        ).bool("answer")
    }

    /// The subscriptions for which a mass extension failed and that nothing has extended since, in the order of their
    /// ids.
    package static func failed(
        _ extensionID: String, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: failedExtensions
            SELECT f.id FROM repricer.failed_extensions(\(uuid: extensionID)::uuid) AS f (id) ORDER BY f.id
            """
        ).map { try $0.text("id") }
    }

    /// Requests the extension of each of them again, and returns how many requests are new.
    package static func retry(
        _ extensionID: String, _ ids: [String], requestIDs: [String], at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Int64 {
        try connection.decide(
            "requestRetries",
            """
            repricer.request_retries(\(uuid: extensionID)::uuid, \(ids)::text[],
                \(uuids: requestIDs)::uuid[], \(timestamp: at))
            """
        ).int64("answer")
    }

    /// Approves. Returns nil where the extension is approved; otherwise the approval was recorded as the first of
    /// two, and the list says which limits the request exceeds.
    package static func approve(
        _ extensionID: String, at: Int64, on connection: isolated PostgresConnection
    ) throws -> [String]? {
        try connection.decide(
            "approveExtension",
            "repricer.approve_extension(\(uuid: extensionID)::uuid, \(timestamp: at))"
        ).textsOrNil("answer")
    }

    package static func reject(
        _ extensionID: String, reason: String?, at: Int64,
        on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.decide(
            "rejectExtension",
            """
            repricer.reject_extension(\(uuid: extensionID)::uuid, \(reason)::text,
                \(timestamp: at))
            """, onlyHoldsBack: true)
    }

    /// Abandons a running mass extension that the App Store does not know.
    package static func abandon(
        _ extensionID: String, reason: String, at: Int64,
        on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.decide(
            "abandonExtension",
            """
            repricer.give_up_extension(\(uuid: extensionID)::uuid, \(reason)::text,
                \(timestamp: at))
            """)
    }

    package static func mass(
        _ extensionID: String, on connection: isolated PostgresConnection
    ) throws -> Mass? {
        try connection.query(
            """
            -- name: findMassExtension
            SELECT * FROM repricer.mass_extensions WHERE extension_id = \(uuid: extensionID)::uuid
            """
        ).oneOrNil().map(Mass.init)
    }

    /// At most `limit` ids of extensions from `first` to `last`, in their order; with `isMass` of mass extensions alone.
    package static func ids(
        from first: String, to last: String, isMass: Bool, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> [String] {
        let masses = try connection.query(
            """
            -- name: massExtensionsBetween
            SELECT extension_id FROM repricer.mass_extensions
            WHERE extension_id BETWEEN \(uuid: first)::uuid AND \(uuid: last)::uuid ORDER BY 1 LIMIT \(limit)
            """
        ).map { try $0.text("extension_id") }
        guard !isMass else { return masses }
        let singles = try connection.query(
            """
            -- name: singleExtensionsBetween
            SELECT extension_id FROM repricer.extension_requests
            WHERE extension_id BETWEEN \(uuid: first)::uuid AND \(uuid: last)::uuid ORDER BY 1 LIMIT \(limit)
            """
        ).map { try $0.text("extension_id") }
        return Array(Set(masses + singles).sorted().prefix(limit))
    }

    /// Whether the identifier is that of one subscription's extension.
    package static func isSingle(
        _ extensionID: String, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try !connection.query(
            """
            -- name: findSingleExtension
            SELECT 1 FROM repricer.extension_requests WHERE extension_id = \(uuid: extensionID)::uuid LIMIT 1
            """
        ).isEmpty
    }
}

/// The facts by which eligibility is judged.
extension ExtensionQueries {
    /// For each subscription, when any subscription of its customer was extended within a year before `now`, by
    /// whatever program. An extension in two statements counts once. A subscription without `appAccountToken` is its
    /// own customer.
    package static func extendedAt(
        _ ids: [String], now: Int64, on connection: isolated PostgresConnection
    ) throws -> [String: [Instant]] {
        let since = now - 366 * Instant.millisecondsPerDay
        let rows = try connection.query(
            """
            -- name: extendedAt
            WITH \(fragment: ofTheirCustomers(ids)), theirs AS MATERIALIZED (
                SELECT asked AS original_transaction_id, id FROM others
                UNION ALL
                SELECT t.id, t.id FROM unnest(\(ids)::text[]) AS t (id)
                WHERE NOT EXISTS (SELECT 1 FROM asked WHERE asked.id = t.id)
            )
            SELECT theirs.original_transaction_id, min(e.told_at) AS told_at
            FROM theirs JOIN repricer.renewal_extensions e ON e.original_transaction_id = theirs.id
            WHERE e.outcome <> 'failed' AND e.told_at > \(timestamp: since)
            GROUP BY theirs.original_transaction_id, theirs.id, e.renewal_at
            UNION ALL
            SELECT theirs.original_transaction_id, c.settled_at
            FROM theirs JOIN repricer.extension_requests c ON c.original_transaction_id = theirs.id
            WHERE c.state = 'extended' AND c.settled_at > \(timestamp: since) AND NOT EXISTS (
                    SELECT 1 FROM repricer.renewal_extensions e
                    WHERE e.original_transaction_id = c.original_transaction_id AND e.bucket = c.bucket
                        -- An answer may leave out the instant. Its notification then tells it.
                        AND CASE WHEN c.effective_at IS NULL
                            THEN e.outcome <> 'failed' AND e.told_at >= c.called_at - interval '5 minutes'
                                AND e.told_at <= c.settled_at + interval '1 day'
                            ELSE e.renewal_at = c.effective_at END)
            """)
        var instants: [String: [Instant]] = [:]
        for row in rows {
            instants[try row.text("original_transaction_id"), default: []].append(
                Instant(milliseconds: try row.milliseconds("told_at")))
        }
        return instants
    }

    /// Common table expressions: `others` has, for each of these subscriptions that names its customer, all
    /// subscriptions of that customer, itself included.
    private static func ofTheirCustomers(_ ids: [String]) -> SQL {
        """
        -- The subscriptions of one customer stand in several buckets, so each step is read by itself.
        asked AS MATERIALIZED (
            SELECT original_transaction_id AS id, app_account_token FROM repricer.subscriptions
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND app_account_token IS NOT NULL
        ), others AS MATERIALIZED (
            SELECT asked.id AS asked, o.original_transaction_id AS id
            FROM asked JOIN repricer.subscriptions o ON o.app_account_token = asked.app_account_token
        )
        """
    }

    /// How many requests of ours may still extend other subscriptions of the same customer. A subscription without
    /// `appAccountToken` is its own customer.
    package static func openElsewhere(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: Int] {
        let rows = try connection.query(
            """
            -- name: extensionsOpenElsewhere
            WITH \(fragment: ofTheirCustomers(ids))
            SELECT others.asked AS id, count(*) AS open
            FROM others JOIN repricer.extension_requests c ON c.original_transaction_id = others.id
            WHERE others.id <> others.asked AND c.state IN ('queued', 'sending', 'unknown') AND NOT EXISTS (
                -- What was told already is among those that the customer had.
                SELECT 1 FROM repricer.renewal_extensions e
                WHERE e.original_transaction_id = c.original_transaction_id AND e.bucket = c.bucket
                    AND e.outcome <> 'failed' AND e.told_at >= c.called_at - interval '5 minutes')
            GROUP BY others.asked
            """)
        var open: [String: Int] = [:]
        for row in rows { open[try row.text("id")] = try row.int("open") }
        return open
    }

    /// The subscriptions that a request of ours may still extend: their own request, or a mass extension that has not
    /// reached them.
    package static func underway(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        if try DatabaseLayout.read(on: connection) == .spread {
            return try underwayInEach(ids, on: connection)
        }
        let rows = try connection.query(
            """
            -- name: extensionsUnderway
            SELECT original_transaction_id FROM repricer.extension_requests
            WHERE original_transaction_id = ANY (\(ids)::text[])
                AND state IN ('queued', 'sending', 'unknown')
            UNION
            SELECT s.original_transaction_id FROM repricer.subscriptions s
            JOIN repricer.mass_extensions m ON m.product_id = s.product_id
                AND m.state IN ('queued', 'sending', 'unknown', 'running')
                AND (m.storefronts IS NULL OR s.storefront = ANY (m.storefronts))
            WHERE s.original_transaction_id = ANY (\(ids)::text[]) AND NOT EXISTS (
                SELECT 1 FROM repricer.attributed_extensions e
                WHERE e.original_transaction_id = s.original_transaction_id
                    AND e.extension_id = m.extension_id)
            """)
        return try Set(rows.map { try $0.text("original_transaction_id") })
    }

    /// The same as `underway`, with one query for each bucket. In a spread database only a query of one bucket can tell
    /// who caused an extension.
    private static func underwayInEach(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        var found: Set<String> = []
        for ids in Bucket.groups(ids, of: \.self) {
            let bucket = Bucket.any(of: ids)
            let rows = try connection.query(
                """
                -- name: extensionsUnderwayOfBucket
                SELECT s.original_transaction_id FROM repricer.subscriptions s
                WHERE s.original_transaction_id = ANY (\(ids)::text[]) AND s.bucket = \(fragment: bucket) AND (
                    EXISTS (
                        SELECT FROM repricer.extension_requests c
                        WHERE c.original_transaction_id = s.original_transaction_id
                            AND c.bucket = \(fragment: bucket) AND c.state IN ('queued', 'sending', 'unknown'))
                    OR EXISTS (
                        SELECT FROM repricer.mass_extensions m
                        WHERE m.product_id = s.product_id AND m.state IN ('queued', 'sending', 'unknown', 'running')
                            AND (m.storefronts IS NULL OR s.storefront = ANY (m.storefronts))
                            AND NOT EXISTS (
                                SELECT FROM \(fragment: AttributedExtensionQueries.inBucket(bucket)) e
                                WHERE e.original_transaction_id = s.original_transaction_id
                                    AND e.extension_id = m.extension_id)))
                """)
            found.formUnion(try rows.map { try $0.text("original_transaction_id") })
        }
        return found
    }

    /// The next page of subscriptions of a product, after `id`.
    package static func subscribers(
        productID: String, storefronts: [String]?, after id: String, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: subscribersOfProduct
            SELECT original_transaction_id FROM repricer.subscriptions
            WHERE product_id = \(productID) AND original_transaction_id > \(id)
                AND (\(storefronts == nil) OR storefront = ANY (\(storefronts ?? [])::text[]))
            ORDER BY original_transaction_id LIMIT \(limit)
            """
        ).map { try $0.text("original_transaction_id") }
    }
}

/// One line of report `renewal_extension`.
extension ExtensionQueries {
    package struct Line: Sendable, Equatable {
        package var kind: String
        package var extensionID: String
        package var productID: String?
        package var storefronts: [String]?
        package var originalTransactionID: String?
        package var days: Int64?
        package var reason: Int64?
        package var state: String
        package var requestedBy: String?
        package var requestedAt: Int64?
        package var approvedBy: String?
        package var rejectedBy: String?
        package var calledAt: Int64?
        package var completedAt: Int64?
        package var eligibleForecast: Int64?
        package var extended: Int64?
        package var failed: Int64?
        package var appleExtended: Int64?
        package var appleFailed: Int64?
        package var retried: Int64?
        package var retriedExtended: Int64?
        package var renewalBefore: Int64?
        package var renewalAt: Int64?
        package var code: String?
        package var check: String
        package var detail: String?
    }

    /// The most lines that `lines` returns.
    package static let linesMax = 1000

    /// The newest lines first, of one request, or of all but the retries. It returns one more than `linesMax` where
    /// there are more.
    package static func lines(
        of extensionID: String?, on connection: isolated PostgresConnection
    ) throws -> [Line] {
        try connection.query(
            """
            -- name: extensionLines
            SELECT * FROM report.renewal_extension
            WHERE CASE WHEN \(extensionID)::text IS NULL THEN kind <> 'retry'
                ELSE extension_id = \(extensionID)::text END
            ORDER BY coalesce(requested_at, completed_at) DESC NULLS LAST, extension_id,
                original_transaction_id
            LIMIT \(linesMax + 1)
            """
        ).map { row in
            try Line(
                kind: row.text("kind"), extensionID: row.text("extension_id"),
                productID: row.textOrNil("product_id"), storefronts: row.textsOrNil("storefronts"),
                originalTransactionID: row.textOrNil("original_transaction_id"),
                days: row.int64OrNil("extend_by_days"), reason: row.int64OrNil("reason_code"),
                state: row.text("state"), requestedBy: row.textOrNil("requested_by"),
                requestedAt: row.millisecondsOrNil("requested_at"),
                approvedBy: row.textOrNil("approved_by"), rejectedBy: row.textOrNil("rejected_by"),
                calledAt: row.millisecondsOrNil("called_at"),
                completedAt: row.millisecondsOrNil("completed_at"),
                eligibleForecast: row.int64OrNil("eligible_forecast"),
                extended: row.int64OrNil("extended"), failed: row.int64OrNil("failed"),
                appleExtended: row.int64OrNil("apple_extended"),
                appleFailed: row.int64OrNil("apple_failed"), retried: row.int64OrNil("retried"),
                retriedExtended: row.int64OrNil("retried_extended"),
                renewalBefore: row.millisecondsOrNil("renewal_before_at"),
                renewalAt: row.millisecondsOrNil("renewal_at"), code: row.textOrNil("code"),
                check: row.text("check_result"), detail: row.textOrNil("detail"))
        }
    }
}
