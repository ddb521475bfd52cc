package import Postgres

/// Mass extensions on their way, and the summaries that end them.
package enum MassExtensionQueries {
    /// One whose call or look is due, claimed.
    package struct Held: Sendable, Equatable {
        package var mass: ExtensionQueries.Mass
        package var attempts: Int
        /// An earlier attempt may have been taken though its answer was lost.
        package var mayBeRunning: Bool
    }

    /// Whether one is due.
    package static func isDue(
        realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: isMassExtensionDue
            SELECT EXISTS (
                SELECT FROM repricer.mass_extensions WHERE \(fragment: due(realNow: realNow))) AS is_due
            """
        ).one().bool("is_due")
    }

    /// A call (`queued`, `sending` of a dead process, `unknown`) or a look at its status (`running`). While everything
    /// is paused only looks are made.
    private static func due(realNow: Int64) -> SQL {
        """
        (state = 'running' OR state IN ('queued', 'sending', 'unknown')
                AND NOT (SELECT is_paused FROM repricer.service_controls))
            AND (next_attempt_at IS NULL OR next_attempt_at <= \(timestamp: realNow))
        """
    }

    /// Takes the next one that is due, if there is one. Its intent is written; the caller commits before it calls.
    package static func claim(
        owner: String, now: Int64, realNow: Int64, leaseUntil: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Held? {
        try connection.query(
            """
            -- name: claimMassExtension
            WITH due AS (
                SELECT extension_id FROM repricer.mass_extensions
                WHERE \(fragment: due(realNow: realNow))
                ORDER BY next_attempt_at NULLS FIRST LIMIT 1 FOR UPDATE SKIP LOCKED
            )
            UPDATE repricer.mass_extensions m SET
                may_be_running = may_be_running OR state = 'sending',
                attempts = CASE WHEN state = 'running' THEN attempts ELSE attempts + 1 END,
                called_at = coalesce(called_at, \(timestamp: now)),
                state = CASE WHEN state = 'running' THEN state ELSE 'sending' END,
                lease_owner = \(uuid: owner)::uuid, leased_until = \(timestamp: leaseUntil),
                next_attempt_at = \(timestamp: leaseUntil)
            FROM due WHERE m.extension_id = due.extension_id
            RETURNING m.*
            """
        ).oneOrNil().map { row in
            Held(
                mass: try ExtensionQueries.Mass(row), attempts: try row.int("attempts"),
                mayBeRunning: try row.bool("may_be_running"))
        }
    }

    /// Prolongs the lease of a call or look that is still out; one that was taken over, or whose lease is over, is
    /// left alone.
    package static func renew(_ id: String, owner: String, realNow: Int64, until: Int64) -> SQL {
        """
        -- name: renewMassExtension
        UPDATE repricer.mass_extensions
        SET leased_until = \(timestamp: until), next_attempt_at = \(timestamp: until)
        WHERE extension_id = \(uuid: id)::uuid AND lease_owner = \(uuid: owner)::uuid
            AND leased_until > \(timestamp: realNow)
        """
    }

    /// Taken by the App Store, and at work.
    package static func run(_ id: String, owner: String, lookAt: Int64) -> SQL {
        """
        -- name: runMassExtension
        UPDATE repricer.mass_extensions SET state = 'running', lease_owner = NULL, leased_until = NULL,
            next_attempt_at = \(timestamp: lookAt), code = NULL, detail = NULL
        WHERE extension_id = \(uuid: id)::uuid AND lease_owner = \(uuid: owner)::uuid
            AND state IN ('sending', 'running')
        """
    }

    package static func refuse(_ id: String, owner: String, code: String, detail: String) -> SQL {
        """
        -- name: refuseMassExtension
        UPDATE repricer.mass_extensions SET state = 'refused', lease_owner = NULL, leased_until = NULL,
            next_attempt_at = NULL, code = \(code), detail = \(detail)
        WHERE extension_id = \(uuid: id)::uuid AND lease_owner = \(uuid: owner)::uuid
            AND state = 'sending'
        """
    }

    /// A claim of which nothing has left: as if it had not been made. Due again at `nextAt`, real time.
    package static func putBack(_ id: String, owner: String, nextAt: Int64) -> SQL {
        """
        -- name: putBackMassExtension
        UPDATE repricer.mass_extensions SET
            attempts = CASE WHEN state = 'running' THEN attempts ELSE attempts - 1 END,
            called_at = CASE WHEN state = 'running' OR attempts > 1 THEN called_at END,
            state = CASE WHEN state = 'running' THEN state
                WHEN may_be_running THEN 'unknown' ELSE 'queued' END,
            lease_owner = NULL, leased_until = NULL, next_attempt_at = \(timestamp: nextAt)
        WHERE extension_id = \(uuid: id)::uuid AND lease_owner = \(uuid: owner)::uuid
        """
    }

    /// Not settled: tried again at `nextAt`, real time. One that runs goes on running. `code` is what a look was
    /// refused with; nil leaves the one before.
    package static func putOff(
        _ id: String, owner: String, mayBeRunning: Bool, nextAt: Int64, code: String? = nil,
        detail: String
    ) -> SQL {
        """
        -- name: putOffMassExtension
        UPDATE repricer.mass_extensions SET
            may_be_running = may_be_running OR \(mayBeRunning),
            state = CASE WHEN state = 'running' THEN state
                WHEN may_be_running OR \(mayBeRunning) THEN 'unknown' ELSE 'queued' END,
            lease_owner = NULL, leased_until = NULL, next_attempt_at = \(timestamp: nextAt),
            code = coalesce(\(code)::text, code), detail = \(detail)
        WHERE extension_id = \(uuid: id)::uuid AND lease_owner = \(uuid: owner)::uuid
        """
    }

    /// Complete by the status.
    package static func complete(
        _ id: String, at: Int64, succeeded: Int64?, failed: Int64?
    ) -> SQL {
        """
        -- name: completeMassExtension
        UPDATE repricer.mass_extensions SET state = 'complete',
            completed_at = CASE WHEN state = 'given_up' THEN \(timestamp: at)
                ELSE coalesce(completed_at, \(timestamp: at)) END,
            status_succeeded = \(succeeded), status_failed = \(failed), lease_owner = NULL,
            leased_until = NULL, next_attempt_at = NULL, code = NULL, detail = NULL
        WHERE extension_id = \(uuid: id)::uuid
            AND state IN ('sending', 'unknown', 'running', 'complete', 'given_up')
        """
    }

    /// A SUMMARY that waits to be read.
    package struct WaitingSummary: Sendable {
        package var notificationUUID: String
        /// UTC milliseconds.
        package var receivedAt: Int64
        package var evidence: Evidence
    }

    package static func waitingSummaries(
        limit: Int, on connection: isolated PostgresConnection
    ) throws -> [WaitingSummary] {
        let rows = try connection.query(
            """
            -- name: waitingSummaries
            WITH waiting AS (
                SELECT notification_uuid, received_at FROM repricer.extension_summaries
                WHERE folded_at IS NULL ORDER BY received_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
            )
            SELECT n.notification_uuid, n.received_at, \(unsafe: EvidenceQueries.evidenceColumns)
            FROM waiting i JOIN repricer.notifications n
                ON n.notification_uuid = i.notification_uuid AND n.received_at = i.received_at
            """)
        let evidence = try EvidenceQueries.evidence(of: rows, on: connection)
        return try zip(rows, evidence).map { row, evidence in
            WaitingSummary(
                notificationUUID: try row.text("notification_uuid"),
                receivedAt: try row.milliseconds("received_at"), evidence: evidence)
        }
    }

    /// What a SUMMARY says; each is nil where it doesn't.
    package struct Summary: Sendable {
        package var requestIdentifier: String?
        package var productID: String?
        package var storefronts: [String]?
        package var succeeded: Int64?
        package var failed: Int64?
        package var signedAt: Int64

        package init(
            requestIdentifier: String?, productID: String?, storefronts: [String]?,
            succeeded: Int64?, failed: Int64?, signedAt: Int64
        ) {
            self.requestIdentifier = requestIdentifier
            self.productID = productID
            self.storefronts = storefronts
            self.succeeded = succeeded
            self.failed = failed
            self.signedAt = signedAt
        }
    }

    /// Keeps what it says and ends the request that it names: one of ours, that was called. False where it is none
    /// of ours: it is counted and changes nothing. Of several summaries of one request the last signed counts.
    package static func fold(
        _ waiting: WaitingSummary, _ summary: Summary, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        _ = try connection.execute(
            """
            -- name: foldSummary
            UPDATE repricer.mass_extensions m SET state = 'complete',
                completed_at = CASE WHEN m.state = 'given_up' THEN \(timestamp: summary.signedAt)
                    ELSE coalesce(m.completed_at, \(timestamp: summary.signedAt)) END,
                summary_evidence = \(waiting.notificationUUID), summary_succeeded = \(summary.succeeded),
                summary_failed = \(summary.failed), lease_owner = NULL, leased_until = NULL,
                next_attempt_at = NULL, code = NULL, detail = NULL
            WHERE m.extension_id::text = lower(\(summary.requestIdentifier)::text)
                AND m.product_id = \(summary.productID)::text AND m.called_at IS NOT NULL
                AND NOT EXISTS (
                    SELECT 1 FROM repricer.extension_summaries s
                    WHERE s.notification_uuid = m.summary_evidence
                        AND s.signed_at > \(timestamp: summary.signedAt))
            """)
        return try settle(waiting, summary, at: at, on: connection)
    }

    /// The request is found again here: a summary that came after a newer one is ours and changes nothing.
    private static func settle(
        _ waiting: WaitingSummary, _ summary: Summary, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: settleSummary
            UPDATE repricer.extension_summaries SET folded_at = \(timestamp: at),
                signed_at = \(timestamp: summary.signedAt),
                request_identifier = \(summary.requestIdentifier), product_id = \(summary.productID),
                storefronts = string_to_array(\(summary.storefronts?.joined(separator: ","))::text, ','),
                succeeded = \(summary.succeeded), failed = \(summary.failed),
                extension_id = (
                    SELECT m.extension_id FROM repricer.mass_extensions m
                    WHERE m.extension_id::text = lower(\(summary.requestIdentifier)::text)
                        AND m.product_id = \(summary.productID)::text AND m.called_at IS NOT NULL)
            WHERE notification_uuid = \(waiting.notificationUUID)
            RETURNING extension_id IS NOT NULL AS is_ours
            """
        ).oneOrNil()?.bool("is_ours") ?? false
    }

    /// One whose evidence can't be read, so that it stops no other.
    package static func setAside(_ waiting: WaitingSummary, detail: String, at: Int64) -> SQL {
        """
        -- name: setAsideSummary
        UPDATE repricer.extension_summaries SET folded_at = \(timestamp: at), detail = \(detail)
        WHERE notification_uuid = \(waiting.notificationUUID)
        """
    }
}
