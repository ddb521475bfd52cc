import Facts
import JSON
package import Postgres
import Pricing

/// Pauses and resumes batches or all delivery, and releases waves.
package enum ControlQueries {
    /// How many approved batches are paused, how many of these were halted and not paused by a person, and how many
    /// storefronts are halted.
    package static func pausedBatches(
        on connection: isolated PostgresConnection
    ) throws -> (paused: Int, halted: Int, storefronts: Int) {
        let row = try connection.query(
            """
            -- name: pausedBatches
            SELECT count(*) FILTER (WHERE is_paused) AS paused,
                count(halted_by) FILTER (WHERE is_paused) AS halted,
                coalesce(sum((SELECT count(*) FROM jsonb_object_keys(halted_storefronts))), 0)::bigint
                    AS storefronts
            FROM repricer.batches WHERE state = 'approved' AND (is_paused OR halted_storefronts <> '{}')
            """
        ).one()
        return try (row.int("paused"), row.int("halted"), row.int("storefronts"))
    }

    /// A storefront of a batch that a code has halted.
    package struct HaltedStorefront: Sendable, Equatable {
        package var batchName: String
        package var storefront: String
        /// The App Store's code that halted it.
        package var by: String
        package var reason: String
        /// When it was halted, in UTC milliseconds.
        package var at: Int64
        /// When the next row may probe, in UTC milliseconds of real time.
        package var probeAt: Int64?
        /// The answer with which the latest probe was refused, and its subscription; or that it got no answer.
        package var probeAnswer: String?

        /// The outcome of the latest probe, for a person.
        package var latestProbe: String? {
            probeAnswer.map {
                "the latest row that asked "
                    + ($0.hasPrefix("no answer") ? "got \($0)" : "was refused with \($0)")
            }
        }
    }

    /// The halted storefronts of one batch; nil asks for those of all approved ones.
    package static func haltedStorefronts(
        of batchID: String?, on connection: isolated PostgresConnection
    ) throws -> [HaltedStorefront] {
        try connection.query(
            """
            -- name: haltedStorefronts
            SELECT b.name, h.key AS storefront, h.value ->> 'by' AS by, h.value ->> 'reason' AS reason,
                (h.value ->> 'at')::timestamptz AS at, (h.value ->> 'probe_at')::timestamptz AS probe_at,
                h.value ->> 'answer' AS answer
            FROM repricer.batches b, jsonb_each(b.halted_storefronts) h
            WHERE CASE WHEN \(uuid: batchID)::uuid IS NULL THEN b.state = 'approved'
                ELSE b.batch_id = \(uuid: batchID)::uuid END
            ORDER BY b.submitted_at, b.batch_id, h.key
            """
        ).map { row in
            try HaltedStorefront(
                batchName: row.text("name"), storefront: row.text("storefront"), by: row.text("by"),
                reason: row.text("reason"), at: row.milliseconds("at"),
                probeAt: row.millisecondsOrNil("probe_at"), probeAnswer: row.textOrNil("answer"))
        }
    }

    /// Pauses or resumes a batch, or with nil everything. The audit trail keeps the reason. Returns whether a pause
    /// changed anything: a second pause keeps the first person, time and reason, and any halt.
    @discardableResult
    package static func setPause(
        _ batchID: String?, isPaused: Bool, reason: String?, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.decide(
            "setPause",
            "repricer.set_pause(\(uuid: batchID), \(timestamp: at), \(isPaused), \(reason)::text)",
            onlyHoldsBack: isPaused
        ).bool("answer")
    }

    /// Whether resuming a batch, or everything where nil, would change anything: it is paused, a storefront of it is
    /// halted, or rows of it are parked. A batch that takes no calls any more is left to `setPause`, which reports
    /// that.
    package static func isHeldBack(
        _ batchID: String?, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: isHeldBack
            SELECT CASE WHEN \(uuid: batchID)::uuid IS NULL
                THEN (SELECT is_paused FROM repricer.service_controls)
                ELSE EXISTS (
                    SELECT 1 FROM repricer.batches b WHERE b.batch_id = \(uuid: batchID)::uuid AND (
                        b.is_paused OR b.is_parking OR b.halted_storefronts <> '{}'
                        OR b.state NOT IN ('awaiting_approval', 'approved')))
                    OR EXISTS (
                        SELECT 1 FROM repricer.price_changes c
                        WHERE c.batch_id = \(uuid: batchID)::uuid AND c.stage = 'queued'
                            AND (c.is_held OR c.parked_reason IS NOT NULL))
                END AS is_held_back
            """
        ).one().bool("is_held_back")
    }

    /// Releases the next wave of a batch, or all waves up to `wave`. Returns the last one released.
    package static func release(
        _ batchID: String, through wave: Int?, at: Int64, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.decide(
            "releaseWave",
            """
            repricer.release_wave(\(uuid: batchID), \(wave.map { Int64($0) })::integer,
                \(timestamp: at))
            """
        ).int("answer")
    }

    /// Ends a change whose item has another price in the App Store. Returns that price in milliunits, and its currency.
    package static func close(
        _ changeID: String, reason: String, at: Int64, on connection: isolated PostgresConnection
    ) throws -> (milliunits: Int64, currency: String) {
        let shown = try connection.decide(
            "closeChange",
            "repricer.close_change(\(uuid: changeID), \(timestamp: at), \(reason)::text)"
        ).int64("answer")
        let currency = try connection.query(
            """
            -- name: currencyOfChange
            SELECT currency FROM repricer.price_changes WHERE change_id = \(uuid: changeID)
            """
        ).one().text("currency")
        return (shown, currency)
    }

    package struct Released: Sendable, Equatable {
        package var batchID: String
        package var name: String
        package var wave: Int
        package var label: String
    }

    /// Releases the waves whose time has come. Waves of a paused batch wait.
    package static func releaseDue(
        at: Int64, on connection: isolated PostgresConnection
    ) throws -> [Released] {
        try connection.query(
            """
            -- name: releaseDueWaves
            SELECT * FROM repricer.release_due_waves(\(timestamp: at))
            """
        ).map { row in
            try Released(
                batchID: row.text("batch_id"), name: row.text("name"), wave: row.int("wave"),
                label: row.text("label"))
        }
    }

    /// One wave of a batch, with its rows by state.
    package struct Wave: Sendable, Equatable {
        package var number: Int
        package var label: String
        /// How it is released, as `WavePlan.Release`: `approval`, `hand`, `at` or `after`.
        package var release: String
        package var plannedAt: Int64?
        package var afterMilliseconds: Int64?
        package var releasedAt: Int64?
        package var states: [String: Int64]
    }

    /// The waves of a batch, in their order; empty for a batch without waves.
    package static func waves(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> [Wave] {
        let rows = try connection.query(
            """
            -- name: wavesOfBatch
            SELECT w.number, w.wave ->> 'label' AS label, w.wave ->> 'release' AS release,
                (w.wave ->> 'at')::timestamptz AS planned_at,
                (w.wave ->> 'after_ms')::bigint AS after_ms,
                (w.wave ->> 'released_at')::timestamptz AS released_at, c.state, c.rows
            FROM repricer.batches b
            CROSS JOIN LATERAL jsonb_array_elements(b.waves) WITH ORDINALITY AS w (wave, number)
            LEFT JOIN (
                SELECT wave, state, count(*) AS rows FROM repricer.price_changes
                -- What is held out waits for no wave. The changes of a batch without waves are not read.
                WHERE batch_id = \(uuid: batchID) AND wave > 0 AND NOT is_held_out AND EXISTS (
                    SELECT FROM repricer.batches WHERE batch_id = \(uuid: batchID) AND waves <> '[]')
                GROUP BY wave, state
            ) c ON c.wave = w.number
            WHERE b.batch_id = \(uuid: batchID)
            ORDER BY w.number, c.state
            """)
        var waves: [Wave] = []
        for row in rows {
            let number = try row.int("number")
            if waves.last?.number != number {
                waves.append(
                    try Wave(
                        number: number, label: row.text("label"), release: row.text("release"),
                        plannedAt: row.millisecondsOrNil("planned_at"),
                        afterMilliseconds: row.int64OrNil("after_ms"),
                        releasedAt: row.millisecondsOrNil("released_at"), states: [:]))
            }
            guard let state = try row.textOrNil("state") else { continue }
            waves[waves.count - 1].states[state] = try row.int64("rows")
        }
        return waves
    }
}

extension ControlQueries.Wave {
    /// How long it waits after the wave before it, in the largest unit that fits: `2 days`, `36 hours`, `90 minutes`.
    package var waitText: String {
        let minutes = (afterMilliseconds ?? 0) / 60_000
        let (count, unit) =
            switch minutes {
            case _ where minutes % 1440 == 0: (minutes / 1440, "day")
            case _ where minutes % 60 == 0: (minutes / 60, "hour")
            default: (minutes, "minute")
            }
        return "\(count) \(unit)\(count == 1 ? "" : "s")"
    }
}

extension WavePlan {
    /// The plan as `batches.waves` keeps it.
    var json: String {
        JSONWriter.list(waves) { wave, json in
            json.object { json in
                json.text("label", wave.label)
                switch wave.release {
                case .approval: json.text("release", "approval")
                case .hand: json.text("release", "hand")
                case .at(let instant):
                    json.text("release", "at")
                    json.text("at", instant.text)
                case .after(let milliseconds):
                    json.text("release", "after")
                    json.number("after_ms", milliseconds)
                }
            }
        }
    }
}
