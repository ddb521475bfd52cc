import Facts
package import Postgres
package import Pricing

extension BatchQueries {
    /// One difference between a stored batch and the given terms: the option, and the stored value.
    package struct Difference: Sendable, Equatable {
        package var option: String
        package var stored: String
    }

    /// The terms in which a stored batch differs from these, as people write them; empty where they are equal. Without
    /// a plan hash, none is compared.
    ///
    /// - Parameter takesRefused: Whether a batch may be stored although rows of its file were refused.
    package static func differences(
        of batchID: String, name: String, terms: BatchTerms, planHash: String?,
        takesRefused: Bool, on connection: isolated PostgresConnection
    ) throws -> [Difference] {
        let row = try connection.query(
            """
            -- name: batchTermsDiffer
            SELECT name, name <> \(name)::text AS has_other_name,
                grouping, grouping <> \(terms.grouping.rawValue)::text AS has_other_grouping,
                w.labels, w.waves <> \(json: terms.waves?.json ?? "[]")::jsonb AS has_other_waves,
                guards <> \(json: terms.guards.json)::jsonb AS has_other_guards,
                holdout_basis_points, holdout_basis_points <> \(terms.holdout)::integer AS has_other_holdout,
                rejected_row_count, rejected_row_count > 0 AND NOT \(takesRefused) AS has_refused_rows,
                plan_hash, coalesce(plan_hash <> \(planHash)::text, false) AS has_other_plan_hash
            FROM repricer.batches, LATERAL (
                SELECT coalesce(jsonb_agg(wave - 'released_at' ORDER BY number), '[]') AS waves,
                    coalesce(string_agg(wave ->> 'label', ',' ORDER BY number), 'none') AS labels
                FROM jsonb_array_elements(waves) WITH ORDINALITY AS e (wave, number)) w
            WHERE batch_id = \(uuid: batchID)
            """
        ).one()
        let rails = try GuardQueries.rails(of: batchID, on: connection).rails.map(\.text)
        let guards = rails.isEmpty ? "none" : rails.joined(separator: ",")
        let holdout = try row.int("holdout_basis_points")
        return try [
            ("has_other_name", "--name", row.text("name")),
            ("has_other_grouping", "--grouping", row.text("grouping")),
            ("has_other_waves", "--waves", row.text("labels")),
            ("has_other_guards", "--halt-if", guards),
            ("has_other_holdout", "--holdout", holdout == 0 ? "none" : WavePlan.percent(holdout)),
            (
                "has_refused_rows", "--accept-valid",
                "rows refused: \(row.int("rejected_row_count"))"
            ),
            ("has_other_plan_hash", "--plan-hash", row.text("plan_hash")),
        ].compactMap { column, option, stored in
            try row.bool(column) ? Difference(option: option, stored: stored) : nil
        }
    }
}
