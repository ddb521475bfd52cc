package import Facts
package import Postgres
package import Pricing

/// The open changes of a subscription as a claim reads and moves them. Business instants decide what is due. Leases
/// and retries are counted in real time, since a dead process is dead in real time.
package enum OpenChangeQueries {
    /// A change that is not final, as the scheduler judges it.
    package final class OpenChange: Sendable {
        package let originalTransactionID: String
        package let changeID: String
        package let batchID: String
        package let sku: String
        package let state: ChangeState
        package let currency: String
        package let storefront: String
        package let period: String
        package let currentPrice: Int64
        package let newPrice: Int64
        package let dependentSKUs: [String]
        package let effectiveOnOrAfter: String?
        package let forecastConsent: Consent
        /// The plan's forecast that a later call, though in time, would need consent.
        package let foreseen: ForeseenConsent?
        package let sendBy: Instant
        package let dueEffectiveAt: Instant
        package let isReady: Bool
        /// Whether it was put back, or parked, until an instant that has not come.
        package let waits: Bool
        package let goesAlone: Bool
        /// How often in a row its consistency token was refused.
        package let staleTokens: Int
        /// Whether its batch is paused, its storefront halted in it, or its wave not released yet.
        package let isHeld: Bool
        /// The wave that it waits for; nil where its wave is released, or its batch has none.
        package let waitsForWave: Int?
        package let grouping: RequestGrouping
        /// The change that this one undoes.
        package let undoes: String?
        /// Whether it was never called, and nothing has happened to it since it was queued.
        package let isFresh: Bool
        /// Whether it has waited for the status of its subscription before this call.
        package let hasAwaitedStatus: Bool

        package var isIncrease: Bool { newPrice > currentPrice }

        private static func foreseen(_ row: Row) throws -> ForeseenConsent? {
            guard let from = try row.instant("foreseen_from") else { return nil }
            let reasons = try row.texts("foreseen_reasons").compactMap(ConsentReason.init)
            return ForeseenConsent(from: from, reasons: Set(reasons))
        }

        fileprivate init(_ row: Row) throws {
            guard let state = ChangeState(rawValue: try row.text("state")),
                let consent = Consent(rawValue: try row.text("forecast_consent"))
            else { throw FactsError.unreadable("price_changes.state or forecast_consent") }
            self.state = state
            forecastConsent = consent
            foreseen = try Self.foreseen(row)
            originalTransactionID = try row.text("original_transaction_id")
            changeID = try row.text("change_id")
            batchID = try row.text("batch_id")
            sku = try row.textOrNil("current_sku") ?? row.text("sku")
            currency = try row.text("currency")
            storefront = try row.text("storefront")
            period = try row.text("period")
            currentPrice = try row.int64("current_price_milliunits")
            newPrice = try row.int64("new_price_milliunits")
            dependentSKUs =
                try row.textsOrNil("current_dependent_skus") ?? row.texts("dependent_skus")
            effectiveOnOrAfter = try row.textOrNil("not_before")
            sendBy = Instant(milliseconds: try row.milliseconds("send_by"))
            dueEffectiveAt = Instant(milliseconds: try row.milliseconds("due_effective_at"))
            isReady = try row.bool("is_ready")
            waits = try row.bool("waits")
            goesAlone = try row.bool("goes_alone")
            staleTokens = try row.int("stale_tokens")
            isHeld = try row.bool("is_held_back")
            waitsForWave = try row.int64OrNil("waits_for_wave").map(Int.init)
            grouping = RequestGrouping(rawValue: try row.text("grouping")) ?? .announced
            undoes = try row.textOrNil("undoes_change_id")
            isFresh = try row.bool("is_fresh")
            hasAwaitedStatus = try row.bool("has_awaited_status")
        }
    }

    /// What a claim reads of a subscription's changes.
    package struct Claimable: Sendable {
        package var changes: [OpenChange] = []
        /// The increases that our changes caused, by item and renewal.
        package var ours: Set<PastIncrease> = []
        /// Whether Apple has, had or may have one of its changes, open or not.
        package var wasCalled = false

        /// Whether a lost database may have called one of them, and the status that would show it is not read yet.
        package var awaitsStatus = false

        /// The changes that may be called now.
        package var due: [OpenChange] {
            changes.filter { $0.state == .queued && $0.isReady && !$0.waits && !$0.isHeld }
        }
    }

    /// The open changes of those subscriptions of one bucket that have no call in flight, of whatever kind. `probing`
    /// is as in `openChangeColumns`.
    package static func claimable(
        _ ids: [String], bucket: Int, realNow: Int64, probing: String? = nil,
        isRestored: Bool = false
    ) -> Question<[String: Claimable]> {
        let awaitsStatus: SQL =
            isRestored
            ? RestoredDatabase.isAwaited("c.original_transaction_id", bucket: "\(bucket)::smallint")
            : "false"
        return Question(
            """
            -- name: claimableChanges
            SELECT \(fragment: openChangeColumns(probing: probing)),
                coalesce(c.next_attempt_at > \(timestamp: realNow), false) AS waits,
                \(fragment: awaitsStatus) AS awaits_status
            FROM repricer.price_changes c
            JOIN repricer.batches b ON b.batch_id = c.batch_id
            WHERE c.original_transaction_id = ANY (\(ids)::text[])
                AND (\(fragment: isOpen) OR \(fragment: wasCalled))
                AND c.bucket = \(bucket)::smallint
                AND NOT \(fragment: StoreCallQueries.isInFlight(
                    "c.original_transaction_id", bucket: "\(bucket)::smallint"))
            ORDER BY c.original_transaction_id, c.send_by, c.change_id
            """, claimable)
    }

    /// The open changes of locked subscriptions, read after the lock, whether calls are in flight or not.
    package static func openChanges(_ ids: [String]) -> Question<[String: Claimable]> {
        Question(
            """
            -- name: openChanges
            SELECT \(fragment: openChangeColumns()), false AS waits, false AS awaits_status
            FROM repricer.price_changes c
            JOIN repricer.batches b ON b.batch_id = c.batch_id
            WHERE c.original_transaction_id = ANY (\(ids)::text[])
                AND (\(fragment: isOpen) OR \(fragment: wasCalled))
                AND \(fragment: Bucket.isThat(of: ids, "c.bucket"))
            ORDER BY c.original_transaction_id, c.send_by, c.change_id
            """, claimable)
    }

    private static func claimable(_ rows: Rows) throws -> [String: Claimable] {
        var found: [String: Claimable] = [:]
        found.reserveCapacity(rows.count)
        for row in rows {
            let id = try row.text("original_transaction_id")
            if try row.bool("was_called") { found[id, default: Claimable()].wasCalled = true }
            if try row.bool("awaits_status") { found[id, default: Claimable()].awaitsStatus = true }
            if let at = try row.instant("increased_at") {
                let sku = try row.textOrNil("current_sku") ?? row.text("sku")
                found[id, default: Claimable()].ours.insert(PastIncrease(sku: sku, at: at))
            }
            guard try row.bool("is_open") else { continue }
            found[id, default: Claimable()].changes.append(try OpenChange(row))
        }
        return found
    }

    private static let isOpen: SQL = """
        (c.stage IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
            AND (c.undoes_change_id IS NULL OR c.stage NOT IN ('scheduled', 'pending_consent', 'accepted')))
        """

    private static let wasCalled: SQL = """
        (c.sent_at IS NOT NULL OR c.doubtful_since IS NOT NULL)
        """

    /// The columns of what a claim reads. `probing` is a halted batch of which one call probes.
    private static func openChangeColumns(probing: String? = nil) -> SQL {
        """
        c.original_transaction_id, c.change_id, c.batch_id, c.sku, c.current_sku, c.state,
        c.currency, c.storefront, c.period, c.current_price_milliunits, c.new_price_milliunits,
        c.dependent_skus, c.current_dependent_skus, c.forecast_consent, c.send_by,
        c.due_effective_at, c.is_ready, c.goes_alone, c.undoes_change_id,
        CASE c.forecast_consent WHEN 'not_required' THEN (
            SELECT array_agg(r ->> 'rule') FROM jsonb_array_elements(c.forecast_rules) AS r
            WHERE r -> 'inputs' -> 'turns_to' = 'true') END AS foreseen_reasons,
        CASE c.forecast_consent WHEN 'not_required' THEN (
            SELECT min((r -> 'inputs' ->> 'turns_at')::timestamptz) FROM jsonb_array_elements(c.forecast_rules) AS r
            WHERE r -> 'inputs' -> 'turns_to' = 'true') END AS foreseen_from,
        to_char(c.effective_on_or_after, 'YYYY-MM-DD') AS not_before,
        c.stale_tokens,
        b.is_paused AND b.batch_id IS DISTINCT FROM \(uuid: probing) OR c.wave > b.released_wave
            OR \(fragment: StorefrontHalt.holds("c")) AS is_held_back,
        CASE WHEN c.wave > b.released_wave THEN c.wave END AS waits_for_wave, b.grouping,
        c.request_reference_id IS NULL AND c.reason IS NULL AND c.moved_since_call IS NULL
            AND c.planned_effective_at IS NULL AND c.former_skus IS NULL AS is_fresh,
        (c.reason = \(statusAwaited)) IS TRUE AS has_awaited_status,
        \(fragment: isOpen) AS is_open, \(fragment: wasCalled) AS was_called,
        CASE WHEN c.new_price_milliunits > c.current_price_milliunits THEN c.effective_at END AS increased_at
        """
    }

    /// Defers the due changes of a subscription whose facts cannot be read. `until` is real time.
    package static func deferReading(_ id: String, until: Int64) -> SQL {
        postpone(id, until: until, reason: "facts_unreadable", name: "deferUnreadable")
    }

    static let statusAwaited = "status_awaited"
    /// The start of the reason of a change that is parked because its status could not be read.
    package static let statusUnread = "its status could not be read"
    /// The condition that the queued change `c` waits until the status of its subscription was read.
    package static let waitsForStatus: SQL = """
        (c.reason = \(statusAwaited) OR starts_with(c.parked_reason, \(statusUnread))) IS TRUE
        """

    /// Defers the due changes of a subscription until its status is read, at most until an instant of real time.
    package static func awaitStatus(_ id: String, until: Int64) -> SQL {
        postpone(id, until: until, reason: statusAwaited, name: "awaitStatus")
    }

    private static func postpone(_ id: String, until: Int64, reason: String, name: SQL) -> SQL {
        """
        -- name: \(fragment: name)
        WITH \(fragment: VersionQueries.ofChanges("""
            repricer.price_changes c WHERE \(fragment: isQueued(id)) AND c.reason IS DISTINCT FROM \(reason)
            """))
        UPDATE repricer.price_changes c SET next_attempt_at = \(timestamp: until), reason = \(reason),
            recorded_at = CASE c.reason WHEN \(reason) THEN c.recorded_at ELSE \(fragment: VersionQueries.now) END
        WHERE \(fragment: isQueued(id))
        """
    }

    /// Ends the wait of these subscriptions of one bucket, because their statuses were read. It also ends the wait of
    /// changes that were parked because their status could not be read.
    package static func endStatusWait(_ ids: [String]) -> SQL {
        """
        -- name: endStatusWait
        WITH \(fragment: VersionQueries.ofChanges("repricer.price_changes c WHERE \(fragment: awaitsStatus(ids))"))
        UPDATE repricer.price_changes c SET next_attempt_at = NULL, parked_reason = NULL,
            reason = CASE WHEN c.reason = \(statusAwaited) THEN NULL ELSE c.reason END,
            recorded_at = \(fragment: VersionQueries.now)
        WHERE \(fragment: awaitsStatus(ids))
        """
    }

    /// Parks the changes of these subscriptions of one bucket until an instant of real time, with a reason that names
    /// them, because their statuses could not be read.
    package static func parkUnread(_ ids: [String], until: Int64) -> SQL {
        """
        -- name: parkUnread
        UPDATE repricer.price_changes c
        SET parked_reason = \(statusUnread), next_attempt_at = \(timestamp: until)
        WHERE c.original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids, "c.bucket"))
            AND c.state = 'queued'
        """
    }

    /// Ends the wait of these subscriptions of one bucket before a call, because their statuses were read or will not
    /// be. The reason stays, so that the next claim calls, whatever the status showed.
    package static func endUnheardWait(_ ids: [String]) -> SQL {
        """
        -- name: endUnheardWait
        UPDATE repricer.price_changes c SET next_attempt_at = NULL
        WHERE c.original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids, "c.bucket"))
            AND c.state = 'queued' AND c.reason = \(statusAwaited)
        """
    }

    private static func awaitsStatus(_ ids: [String]) -> SQL {
        """
        c.original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids, "c.bucket"))
            AND c.state = 'queued' AND \(fragment: waitsForStatus)
        """
    }

    private static func isQueued(_ id: String) -> SQL {
        """
        c.original_transaction_id = \(id) AND \(fragment: Bucket.isThat(of: id, "c.bucket")) AND c.state = 'queued'
        """
    }

    /// Ends a change before any call, with the row code of the new judgement.
    package static func end(
        _ id: String, _ changeID: String, _ state: ChangeState, reason: String, at: Int64
    ) -> SQL {
        """
        -- name: endChange
        WITH \(fragment: VersionQueries.ofChanges([(id, changeID)])), marked AS (
            INSERT INTO repricer.stale_figures (original_transaction_id, bucket)
            VALUES (\(id), \(Bucket.of(id))::smallint)
        )
        UPDATE repricer.price_changes SET state = \(state.rawValue), reason = \(reason),
            ended_at = \(timestamp: at), state_since = \(timestamp: at), recorded_at = \(fragment: VersionQueries.now)
        WHERE original_transaction_id = \(id) AND change_id = \(uuid: changeID) AND \(fragment: Bucket.isThat(of: id))
        """
    }

    /// Makes folds follow these changes by all statements since the approval, although no call of ours is known for
    /// them.
    package static func follow(
        _ id: String, _ changeIDs: [String], on connection: isolated PostgresConnection
    ) throws {
        try connection.execute(
            """
            -- name: followUncalled
            WITH \(fragment: VersionQueries.ofChanges("""
                repricer.price_changes c WHERE \(fragment: isNotFollowed(id, changeIDs))
                """)), marked AS (
                INSERT INTO repricer.stale_figures (original_transaction_id, bucket)
                VALUES (\(id), \(Bucket.of(id))::smallint)
            )
            UPDATE repricer.price_changes c SET doubtful_since = b.decided_at, recorded_at = \(fragment: VersionQueries.now)
            FROM repricer.batches b
            WHERE b.batch_id = c.batch_id AND \(fragment: isNotFollowed(id, changeIDs))
            """)
    }

    private static func isNotFollowed(_ id: String, _ changeIDs: [String]) -> SQL {
        """
        c.original_transaction_id = \(id) AND \(fragment: Bucket.isThat(of: id, "c.bucket"))
            AND c.change_id = ANY (\(uuids: changeIDs)::uuid[]) AND c.doubtful_since IS NULL
        """
    }

    /// Moves the live plan of a queued change to the renewal that it can still make.
    ///
    /// - Parameter slip: Why that renewal is later; nil where it is the same. If an extension has moved the renewal and
    ///   the change was not redated yet, the extension is the reason.
    package static func replan(
        _ id: String, _ changeID: String, sendAfter: Instant?, sendBy: Instant,
        effectiveAt: Instant, isReady: Bool, slip: Slip? = nil
    ) -> SQL {
        """
        -- name: replanChange
        WITH \(fragment: VersionQueries.ofChanges("""
            repricer.price_changes c WHERE \(fragment: isQueued(id)) AND c.change_id = \(uuid: changeID)
            """))
        UPDATE repricer.price_changes c SET recorded_at = \(fragment: VersionQueries.now),
            send_after = \(timestamp: sendAfter?.milliseconds),
            send_by = \(timestamp: sendBy.milliseconds),
            due_effective_at = \(timestamp: effectiveAt.milliseconds), is_ready = \(isReady),
            moved_before_call = coalesce(moved_before_call, moved_since_call, CASE
                WHEN \(timestamp: effectiveAt.milliseconds)::timestamptz <= due_effective_at THEN NULL
                WHEN EXISTS (
                    SELECT FROM repricer.moved_renewals m
                    WHERE m.original_transaction_id = \(id) AND \(fragment: Bucket.isThat(of: id, "m.bucket")))
                    THEN \(Slip.extension.rawValue)
                ELSE \(slip?.rawValue)::text END)
        WHERE \(fragment: isQueued(id)) AND c.change_id = \(uuid: changeID)
        """
    }

    package static func history(
        _ id: String, _ changeIDs: [String], _ state: ChangeState, at: Int64, kind: String,
        evidenceID: String, reason: String?
    ) -> SQL {
        """
        -- name: recordStep
        INSERT INTO repricer.price_change_history
            (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
        SELECT \(id)::text, \(Bucket.of(id))::smallint, change_id, \(timestamp: at), \(state.rawValue)::text, \(kind)::text,
            \(evidenceID)::text, \(reason)::text
        FROM unnest(\(uuids: changeIDs)::uuid[]) AS change_id
        ON CONFLICT DO NOTHING
        """
    }
}
