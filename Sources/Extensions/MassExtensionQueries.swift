package import AppStore
package import Facts
package import Postgres

/// Mass extensions that are under way, and the summaries that end them.
package enum MassExtensionQueries {
    /// The state of the call `r` for the engine. The call of an extension that is complete or abandoned is never sent
    /// again.
    package static func gate(endpoint: String, now: Int64) -> CallGate {
        CallGate(
            .massExtension, endpoint: endpoint, now: now,
            state: { _ in
                """
                SELECT bool_or(m.state NOT IN ('sending', 'unknown', 'running')) AS is_over, false AS is_held
                FROM repricer.mass_extensions m WHERE m.extension_id = ANY (r.carries)
                """
            })
    }

    /// How many due mass extensions are read at most. It is more than one, because some products may have another call
    /// in flight.
    private static let candidatesMax = 100

    /// Takes an approved mass extension that is due, with its bucket. Returns nil where there is none, and while
    /// everything is paused.
    package static func takeDue(
        realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> (mass: ExtensionQueries.Mass, bucket: Int)? {
        let due = try connection.query(
            """
            -- name: takeDueMassExtension
            SELECT m.* FROM repricer.mass_extensions m
            WHERE m.state = 'queued' AND NOT \(fragment: ServiceControlQueries.isHeld)
                AND (m.next_attempt_at IS NULL OR m.next_attempt_at <= \(timestamp: realNow))
            ORDER BY m.next_attempt_at NULLS FIRST LIMIT \(candidatesMax) FOR UPDATE OF m SKIP LOCKED
            """)
        // Whether a call of the product is in flight needs a query of the product's bucket, because a statement names
        // one bucket.
        for row in due {
            let subject = "product:" + (try row.text("product_id"))
            let bucket = Bucket.of(subject)
            let isInFlight = StoreCallQueries.isInFlight(
                "\(subject)::text", bucket: "\(bucket)::smallint")
            let isBusy = try connection.query(
                """
                -- name: isMassExtensionInFlight
                SELECT \(fragment: isInFlight) AS is_busy
                """
            ).one().bool("is_busy")
            if !isBusy { return (try ExtensionQueries.Mass(row), bucket) }
        }
        return nil
    }

    /// Notes that its call is written.
    package static func claim(_ id: String, now: Int64) -> SQL {
        """
        -- name: claimMassExtension
        UPDATE repricer.mass_extensions SET state = 'sending', next_attempt_at = NULL,
            called_at = coalesce(called_at, doubtful_since, \(timestamp: now))
        WHERE extension_id = \(uuid: id)::uuid
        """
    }

    /// Notes that the App Store has accepted it and that it runs.
    package static func run(_ id: String) -> SQL {
        move("runMassExtension", id, "'running', code = NULL, detail = NULL", from: ", 'running'")
    }

    package static func refuse(_ id: String, code: String, detail: String) -> SQL {
        move("refuseMassExtension", id, "'refused', code = \(code), detail = \(detail)")
    }

    /// Puts it back, to be called again at `nextAt` (real time), because it was not accepted.
    package static func requeue(_ id: String, detail: String, nextAt: Int64?) -> SQL {
        move(
            "requeueMassExtension", id,
            "'queued', called_at = NULL, detail = \(detail), next_attempt_at = \(timestamp: nextAt)"
        )
    }

    private static func move(
        _ name: String, _ id: String, _ state: SQL, from others: String = ""
    ) -> SQL {
        """
        -- name: \(unsafe: name)
        UPDATE repricer.mass_extensions SET state = \(fragment: state)
        WHERE extension_id = \(uuid: id)::uuid AND state IN ('sending', 'unknown'\(unsafe: others))
        """
    }

    /// Leaves its outcome unknown; an extension that runs stays `running`. `code` is the code of a refused check; nil
    /// keeps the stored one.
    package static func leaveUnknown(_ id: String, code: String?, detail: String) -> SQL {
        """
        -- name: leaveMassExtensionUnknown
        UPDATE repricer.mass_extensions SET
            state = CASE WHEN state = 'running' THEN state ELSE 'unknown' END,
            code = coalesce(\(code)::text, code), detail = \(detail)
        WHERE extension_id = \(uuid: id)::uuid AND state IN ('sending', 'unknown', 'running')
        """
    }

    /// Notes that it is complete, as its status says.
    package static func complete(
        _ id: String, at: Int64, succeeded: Int64?, failed: Int64?
    ) -> SQL {
        """
        -- name: completeMassExtension
        UPDATE repricer.mass_extensions SET state = 'complete',
            completed_at = CASE WHEN state = 'given_up' THEN \(timestamp: at)
                ELSE coalesce(completed_at, \(timestamp: at)) END,
            status_succeeded = \(succeeded), status_failed = \(failed), next_attempt_at = NULL,
            code = NULL, detail = NULL
        WHERE extension_id = \(uuid: id)::uuid
            AND state IN ('sending', 'unknown', 'running', 'complete', 'given_up')
        """
    }

    /// A SUMMARY notification that waits to be folded.
    package struct WaitingSummary: Sendable {
        package var notificationUUID: String
        /// When it arrived, in UTC milliseconds.
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
                WHERE folded_at IS NULL AND \(fragment: ServiceControlQueries.isForNewerPrograms) IS NOT TRUE
                ORDER BY received_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
            )
            SELECT n.notification_uuid, n.received_at, \(unsafe: EvidenceQueries.evidenceColumns)
            FROM waiting i JOIN repricer.notifications n
                ON n.notification_uuid = i.notification_uuid AND n.received_at = i.received_at
            """)
        let evidence = try EvidenceQueries.evidence(of: rows, on: connection)
        return try zip(rows, evidence).map { row, evidence in
            try WaitingSummary(
                notificationUUID: row.text("notification_uuid"),
                receivedAt: row.milliseconds("received_at"), evidence: evidence)
        }
    }

    /// The condition that `m` was called by this database, or may have been called by a lost one, which its summary
    /// then proves.
    private static let wasCalled: SQL = """
        (m.called_at IS NOT NULL OR m.state = 'queued' AND m.doubtful_since IS NOT NULL)
        """

    /// Keeps what a summary says, and ends the request of ours that it names, if that was called. Returns false where
    /// the request is not ours: the summary is then counted and changes nothing. Of several summaries of one request,
    /// the one that was signed last counts.
    package static func fold(
        _ waiting: WaitingSummary, _ summary: ExtensionSummary, signedAt: Int64, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        _ = try connection.execute(
            """
            -- name: foldSummary
            UPDATE repricer.mass_extensions m SET state = 'complete',
                called_at = coalesce(m.called_at, m.doubtful_since),
                completed_at = CASE WHEN m.state = 'given_up' THEN \(timestamp: signedAt)
                    ELSE coalesce(m.completed_at, \(timestamp: signedAt)) END,
                summary_evidence = \(waiting.notificationUUID), summary_succeeded = \(summary.succeeded),
                summary_failed = \(summary.failed), next_attempt_at = NULL, code = NULL, detail = NULL
            WHERE m.extension_id::text = lower(\(summary.requestIdentifier)::text)
                AND m.product_id = \(summary.productID)::text AND \(fragment: wasCalled)
                AND NOT EXISTS (
                    SELECT 1 FROM repricer.extension_summaries s
                    WHERE s.notification_uuid = m.summary_evidence
                        AND s.signed_at > \(timestamp: signedAt))
            """)
        _ = try connection.execute(
            """
            -- name: closeCompleteMassExtension
            UPDATE repricer.store_calls r SET state = 'answered', settled_at = \(timestamp: at)
            FROM repricer.mass_extensions m
            WHERE m.extension_id::text = lower(\(summary.requestIdentifier)::text) AND m.state = 'complete'
                AND r.subject = 'product:' || m.product_id
                AND r.bucket = repricer.bucket_of('product:' || m.product_id)
                AND m.extension_id = ANY (r.carries) AND r.state IN ('sending', 'unknown')
            """)
        return try settle(waiting, summary, signedAt: signedAt, at: at, on: connection)
    }

    /// Marks a summary as folded. The request is searched again here, because a summary that came after a newer one
    /// is ours and changes nothing.
    private static func settle(
        _ waiting: WaitingSummary, _ summary: ExtensionSummary, signedAt: Int64, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: settleSummary
            UPDATE repricer.extension_summaries SET folded_at = \(timestamp: at),
                signed_at = \(timestamp: signedAt),
                request_identifier = \(summary.requestIdentifier), product_id = \(summary.productID),
                storefronts = string_to_array(\(summary.storefronts?.joined(separator: ","))::text, ','),
                succeeded = \(summary.succeeded), failed = \(summary.failed),
                extension_id = (
                    SELECT m.extension_id FROM repricer.mass_extensions m
                    WHERE m.extension_id::text = lower(\(summary.requestIdentifier)::text)
                        AND m.product_id = \(summary.productID)::text AND \(fragment: wasCalled))
            WHERE notification_uuid = \(waiting.notificationUUID)
            RETURNING extension_id IS NOT NULL AS is_ours
            """
        ).oneOrNil()?.bool("is_ours") ?? false
    }

    /// Quarantines a summary whose evidence cannot be read, so that it stops no other.
    package static func quarantine(_ waiting: WaitingSummary, detail: String, at: Int64) -> SQL {
        """
        -- name: quarantineSummary
        UPDATE repricer.extension_summaries SET folded_at = \(timestamp: at), detail = \(detail)
        WHERE notification_uuid = \(waiting.notificationUUID)
        """
    }
}
