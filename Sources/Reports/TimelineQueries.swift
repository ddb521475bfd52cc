import Facts
package import Postgres
import Pricing

/// Everything that happened to one subscription, for people who need to know why.
package enum TimelineQueries {
    package struct Line: Sendable, Equatable {
        /// UTC milliseconds.
        package var at: Int64
        /// `notification`, `response`, `status`, `submission`, `approval`, `request`, …
        package var kind: String
        package var what: String
        package var sku: String?
        package var detail: String?
        package var evidenceID: String
        /// Whether a status said nothing new.
        package var isIdle = false
        /// How many consecutive status reads without news this line combines, and when the last of them was, in UTC
        /// milliseconds.
        package private(set) var reads = 1
        package private(set) var until: Int64?

        fileprivate var mayBeIdle: Bool { kind == "status" && what == "answer" && detail == nil }

        /// The line of several reads.
        fileprivate func folded(with others: ArraySlice<Line>) -> Line {
            var line = self
            line.reads = 1 + others.count
            line.until = others.last?.at
            return line
        }

        /// What happened, for a person. Types of notifications stand as Apple writes them.
        package var words: String {
            switch what {
            case "answer" where reads > 1: "status read \(counted(reads)) times, nothing new"
            case "answer" where isIdle: "status read, nothing new"
            case "answer" where kind == "status": "status read"
            case "answer": "the App Store answered"
            default:
                what.hasPrefix("change is ") || what.hasPrefix("dependent ") ? spaced(what) : what
            }
        }

        package var detailWords: String {
            let parts = (detail ?? "").split(separator: ";", omittingEmptySubsequences: false)
            return parts.map { part -> String in
                // A code of ours is one lower-case word with underscores; SKUs have capitals.
                guard part.allSatisfy({ $0.isLowercase || $0 == "_" || $0 == " " }) else {
                    return String(part)
                }
                let code = part.drop { $0 == " " }
                return String(part.prefix(part.count - code.count)) + reasonWords(String(code))
            }.joined(separator: ";")
        }
    }

    /// The lines, the oldest first: what Apple said, what we did, and the outcome of each change and dependent.
    package static func lines(
        of id: String, on connection: isolated PostgresConnection
    ) throws -> [Line] {
        // Each part names the bucket, so that one partition, or one node, answers the whole.
        let bucket: SQL = "\(Bucket.of(id))::smallint"
        let lines = try stored(of: id, bucket, on: connection)
        // This query takes longer to plan than to run, so it is skipped where it is not needed.
        guard lines.contains(where: \.mayBeIdle) else { return lines }
        let idle = try idleReads(of: id, bucket, on: connection)
        return lines.map { line in
            var line = line
            line.isIdle = line.mayBeIdle && idle.contains(line.evidenceID)
            return line
        }
    }

    private static func stored(
        of id: String, _ bucket: SQL, on connection: isolated PostgresConnection
    ) throws -> [Line] {
        try connection.query(
            """
            -- name: timeline
            SELECT signed_at AS at, 0 AS place, source AS kind,
                coalesce(type, 'answer') || coalesce('/' || subtype, '') AS what, NULL AS sku,
                (SELECT 'missing, or left out as meaningless: ' || string_agg(field, ', ')
                    FROM jsonb_array_elements_text(statement -> 'ignored') field) AS detail, evidence_id
            FROM repricer.subscription_events WHERE original_transaction_id = \(id) AND bucket = \(fragment: bucket)
            UNION ALL
            SELECT b.submitted_at, 1, 'submission', 'change is awaiting_approval', c.sku,
                \(fragment: move("c.current_price_milliunits", "c.new_price_milliunits", "c.currency"))
                    || coalesce('; takes back change ' || c.undoes_change_id, ''), b.batch_id::text
            FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
            WHERE c.original_transaction_id = \(id) AND c.bucket = \(fragment: bucket)
            UNION ALL
            SELECT h.occurred_at, 1, h.evidence_kind, 'change is ' || h.state, c.sku,
                concat_ws('; ', \(fragment: move("c.current_price_milliunits", "c.new_price_milliunits", "c.currency")),
                    h.reason), h.evidence_id
            FROM repricer.price_change_history h
            JOIN repricer.price_changes c ON c.original_transaction_id = h.original_transaction_id
                AND c.change_id = h.change_id AND c.bucket = \(fragment: bucket)
            WHERE h.original_transaction_id = \(id) AND h.bucket = \(fragment: bucket)
            UNION ALL
            SELECT requested_at, 2, 'dependent', 'dependent cancellation requested', dependent_sku,
                'parent ' || parent_sku || ', ' || cause, requested_by_evidence
            FROM repricer.dependent_cancellations
            WHERE original_transaction_id = \(id) AND bucket = \(fragment: bucket)
            UNION ALL
            SELECT settled_at, 3, 'dependent', 'dependent cancellation ' || state, dependent_sku,
                detail, coalesce(settled_by_evidence, '')
            FROM repricer.dependent_cancellations
            WHERE original_transaction_id = \(id) AND bucket = \(fragment: bucket) AND settled_at IS NOT NULL
            UNION ALL
            SELECT prepared_at, 2, 'request', 'Cancel a Subscription is called', NULL,
                'for dependents of ' || array_to_string(parents, ', '), call_id::text
            FROM repricer.store_calls
            WHERE subject = \(id) AND bucket = \(fragment: bucket) AND kind = 'cancel'
            UNION ALL
            SELECT settled_at, 3, 'request', 'Cancel a Subscription is ' || state, NULL,
                concat_ws(' ', http_status, error_code, error_message), call_id::text
            FROM repricer.store_calls
            WHERE subject = \(id) AND bucket = \(fragment: bucket) AND kind = 'cancel' AND settled_at IS NOT NULL
            UNION ALL
            SELECT occurred_at, 4, 'charge',
                CASE kind WHEN 'charge' THEN 'charged' WHEN 'refund' THEN 'refunded' ELSE 'refund taken back' END, sku,
                \(fragment: amount("abs(sum(amount_milliunits))", "currency")) || ' ' || currency
                    || '; transaction ' || transaction_id, min(evidence_id)
            FROM repricer.money_entries WHERE original_transaction_id = \(id) AND bucket = \(fragment: bucket)
            GROUP BY occurred_at, kind, sku, currency, transaction_id, number
            HAVING sum(amount_milliunits) <> 0 OR max(correction) = 0
            UNION ALL
            \(fragment: increasesOfOthers(id, bucket))
            UNION ALL
            \(fragment: importedIncreases(id, bucket))
            UNION ALL
            \(fragment: extensions(id, bucket))
            ORDER BY 1, 2, evidence_id, what
            """
        ).map { row in
            try Line(
                at: row.milliseconds("at"), kind: row.text("kind"), what: row.text("what"),
                sku: row.textOrNil("sku"), detail: row.textOrNil("detail"),
                evidenceID: row.text("evidence_id"))
        }
    }

    /// The statuses that say the same as the statement before them.
    private static func idleReads(
        of id: String, _ bucket: SQL, on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        Set(
            try connection.query(
                """
                -- name: timelineIdleReads
                SELECT t.evidence_id FROM (
                    SELECT e.evidence_id, e.source, s.told, lag(s.told) OVER (ORDER BY e.signed_at, e.evidence_id) AS before
                    FROM repricer.subscription_events e
                    CROSS JOIN LATERAL (SELECT jsonb_build_array(e.statement -> 'status', e.statement -> 'transaction',
                        e.statement -> 'renewal') AS told) s
                    WHERE e.original_transaction_id = \(id) AND e.bucket = \(fragment: bucket) AND e.source <> 'legacy') t
                WHERE t.source = 'status' AND t.told = t.before
                """
            ).map { try $0.text("evidence_id") })
    }

    /// An amount as people write it, in the decimals of Apple's prices: `119.03`, `1,290`. It has three decimals where
    /// Apple's decimals do not suffice.
    private static func amount(_ milliunits: String, _ currency: String) -> SQL {
        let whole = Currency.apple.filter { $0.decimals == 0 }.map(\.code)
        return """
            CASE WHEN \(unsafe: currency) = ANY (\(texts: whole)) AND \(unsafe: milliunits) % 1000 = 0
                THEN to_char(\(unsafe: milliunits) / 1000, 'FM9,999,999,999,999,990')
                WHEN \(unsafe: milliunits) % 10 = 0 THEN to_char(\(unsafe: milliunits) / 1000.0, 'FM9,999,999,999,999,990.00')
                ELSE to_char(\(unsafe: milliunits) / 1000.0, 'FM9,999,999,999,999,990.000') END
            """
    }

    /// `119.03 → 258.54 EUR`
    private static func move(_ old: String, _ new: String, _ currency: String) -> SQL {
        "\(fragment: amount(old, currency)) || ' → ' || \(fragment: amount(new, currency)) || ' ' || \(unsafe: currency)"
    }

    /// Increases that no change of ours explains. A fold stores the instants of the statements that showed them; these
    /// statements are the evidence, and for a charge the statement of that charge.
    private static func increasesOfOthers(_ id: String, _ bucket: SQL) -> SQL {
        """
        SELECT told.at, 5, 'increase',
            CASE i.origin WHEN 'offer_conversion' THEN 'offer turns into the standard price: '
                ELSE 'increase from elsewhere: ' END || told.step,
            i.sku, concat_ws(' ', \(fragment: amount("i.price", "s.currency")), s.currency),
            coalesce(CASE told.step WHEN 'charged' THEN (
                SELECT min(m.evidence_id) FROM repricer.money_entries m
                WHERE m.original_transaction_id = \(id) AND m.bucket = \(fragment: bucket)
                    AND m.occurred_at = told.at AND m.kind = 'charge')
            ELSE (
                SELECT min(e.evidence_id) FROM repricer.subscription_events e
                WHERE e.original_transaction_id = \(id) AND e.bucket = \(fragment: bucket)
                    AND e.signed_at = told.at
                    AND e.source <> 'legacy') END, '')
        FROM repricer.subscriptions s,
            jsonb_to_recordset(s.increases) AS i (sku text, price bigint, origin text,
                "consentAskedAt" bigint, "acceptedAt" bigint, "refusedAt" bigint,
                "effectiveAt" bigint),
            LATERAL (
                SELECT v.step, timestamptz 'epoch' + v.ms * interval '1 millisecond' AS at
                FROM (VALUES ('customer asked', i."consentAskedAt"), ('accepted', i."acceptedAt"),
                    ('refused', i."refusedAt"), ('charged', i."effectiveAt")) AS v (step, ms)
            ) told
        WHERE s.original_transaction_id = \(id) AND s.bucket = \(fragment: bucket) AND i.origin IS NOT NULL AND told.at IS NOT NULL
        """
    }

    /// Increases that a person imported, at their days, with who imported them and in which import.
    private static func importedIncreases(_ id: String, _ bucket: SQL) -> SQL {
        """
        SELECT i.increased_on::timestamp AT TIME ZONE 'UTC', 5, 'increase', 'increase imported', i.sku,
            \(fragment: move("i.old_price_milliunits", "i.new_price_milliunits", "i.currency"))
                || '; by ' || h.imported_by, 'history:' || i.number
        FROM repricer.imported_increases i JOIN repricer.history_imports h USING (number)
        WHERE i.original_transaction_id = \(id) AND i.bucket = \(fragment: bucket)
        """
    }

    /// The extensions in statements of the App Store, and the requested ones.
    private static func extensions(_ id: String, _ bucket: SQL) -> SQL {
        """
        SELECT told_at, 5, 'extension', CASE outcome WHEN 'failed' THEN 'extension failed'
                WHEN 'seen' THEN 'renewal seen to be extended' ELSE 'renewal extended' END, NULL,
            concat_ws('; ', CASE WHEN outcome <> 'failed' THEN
                coalesce(to_char(renewal_before AT TIME ZONE 'UTC', 'YYYY-MM-DD'), '?') || ' → '
                    || coalesce(to_char(renewal_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), '?') END,
                'request ' || extension_id), evidence_id
        FROM \(fragment: AttributedExtensionQueries.inBucket(bucket)) a WHERE original_transaction_id = \(id)
        UNION ALL
        SELECT requested_at, 6, 'extension', 'extension by ' || extend_by_days || ' days requested',
            NULL, 'by ' || requested_by, extension_id::text
        FROM repricer.extension_requests WHERE original_transaction_id = \(id) AND bucket = \(fragment: bucket)
        UNION ALL
        SELECT settled_at, 7, 'extension', 'extension ' || state, NULL,
            concat_ws('; ', 'by ' || settled_by, code, detail), extension_id::text
        FROM repricer.extension_requests
        WHERE original_transaction_id = \(id) AND bucket = \(fragment: bucket) AND settled_at IS NOT NULL
        """
    }
}

extension [TimelineQueries.Line] {
    /// The lines, with each run of status reads without news as one line. A status may be read every day, so the other
    /// lines would be lost among them.
    package var withIdleReadsFolded: [TimelineQueries.Line] {
        let uses = reduce(into: [String: Int]()) { $0[$1.evidenceID, default: 0] += 1 }
        var lines: [TimelineQueries.Line] = []
        var rest = self[...]
        while let first = rest.first {
            // A read that is also the evidence of another line did say something new.
            let run = rest.prefix { $0.isIdle && uses[$0.evidenceID] == 1 }
            rest = rest.dropFirst(Swift.max(1, run.count))
            lines.append(run.count > 1 ? first.folded(with: run.dropFirst()) : first)
        }
        return lines
    }
}
