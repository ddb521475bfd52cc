package import Postgres
package import Pricing

/// The earliest release of waves that are not released yet.
package enum WaveReleaseQueries {
    /// A wave of a batch.
    package struct Place: Hashable, Sendable {
        package var batchID: String
        /// From 1 on.
        package var wave: Int

        package init(batchID: String, wave: Int) {
            self.batchID = batchID
            self.wave = wave
        }
    }

    /// The earliest releases of the waves of these batches that are not released yet. A batch that awaits approval
    /// counts as approved now, and a wave that a person releases counts as released with the one before it.
    package static func releases(
        of batchIDs: some Sequence<String>, now: Instant, on connection: isolated PostgresConnection
    ) throws -> [Place: Instant] {
        let ids = Set(batchIDs).sorted()
        guard !ids.isEmpty else { return [:] }
        let rows = try connection.query(
            """
            -- name: earliestReleases
            SELECT b.batch_id, w.number, w.wave ->> 'release' AS release,
                (w.wave ->> 'at')::timestamptz AS planned_at, (w.wave ->> 'after_ms')::bigint AS after_ms,
                CASE WHEN w.number > 1 THEN (b.waves -> (w.number - 2)::integer ->> 'at')::timestamptz END AS planned_before,
                CASE WHEN w.number = b.released_wave + 1 THEN b.next_release_at END AS next_release_at
            FROM repricer.batches b
            CROSS JOIN LATERAL jsonb_array_elements(b.waves) WITH ORDINALITY AS w (wave, number)
            WHERE b.batch_id = ANY (\(uuids: ids)) AND w.number > b.released_wave
            ORDER BY b.batch_id, w.number
            """)
        var releases: [Place: Instant] = [:]
        for row in rows {
            let place = Place(batchID: try row.text("batch_id"), wave: try row.int("number"))
            let before = releases[Place(batchID: place.batchID, wave: place.wave - 1)] ?? now
            if let next = try row.instant("next_release_at") {
                releases[place] = max(next, now)
            } else {
                let earliest = try release(row).earliest(after: before)
                releases[place] = try max(earliest, spaced(row, after: before))
            }
        }
        return releases
    }

    /// Instants keep their distance where the wave before is late, as `repricer.wave_release_at` does.
    private static func spaced(_ row: Row, after before: Instant) throws -> Instant {
        guard let at = try row.instant("planned_at"), let former = try row.instant("planned_before")
        else { return before }
        return before.advanced(by: at.milliseconds - former.milliseconds)
    }

    private static func release(_ row: Row) throws -> WavePlan.Release {
        if let at = try row.instant("planned_at") { return .at(at) }
        if let length = try row.int64OrNil("after_ms") { return .after(length) }
        return try row.text("release") == "approval" ? .approval : .hand
    }
}
