/// Whoever replaces what reports of the past read keeps it, and marks figures that may be other than they were: no trigger
/// does it for a statement that forgets.
enum VersionRules {
    private struct Table {
        var columns: Set<String>
        /// One of these is said by a statement or a function that keeps what it replaces.
        var keepers: [String]
    }

    private static let tables = [
        "price_changes": Table(
            columns: [
                "current_sku", "former_skus", "former_until", "current_dependent_skus",
                "send_after", "send_by",
                "due_effective_at",
                "planned_effective_at", "moved_before_call", "moved_since_call",
                "request_reference_id", "state",
                "state_since", "reason", "doubtful_since", "refused_at", "sent_at", "scheduled_at",
                "consent_asked_at", "accepted_at",
                "acceptance", "effective_at", "ended_at", "is_leaving",
            ],
            keepers: ["VersionQueries.ofChanges", "former(of: endings)", "keep_changes("]),
        "charges": Table(
            columns: [
                "purchased_at", "expires_at", "revoked_at", "price_milliunits", "quantity",
                "refunded_milliunits",
            ],
            keepers: ["charge_versions"]),
        "subscription_events": Table(
            columns: ["statement", "type"], keepers: ["subscription_event_versions"]),
        "dependent_cancellations": Table(
            columns: [
                "parent_sku", "cause", "target_transaction_id", "target_period",
                "cancel_reference_id", "state", "price_milliunits", "currency", "detail",
                "settled_at",
            ],
            keepers: [
                "VersionQueries.ofDependents", "former(of: call", "former(open)",
                "dependent_cancellation_versions",
            ]),
        "batches": Table(
            columns: ["decided_by", "decided_at", "decision_reason", "is_paused", "paused_reason"],
            keepers: ["keep_batch("]),
    ]

    /// Marked by those who send them, FoldWrites and Claimer, for those that need it. A call whose answer was lost is as open
    /// as before.
    private static let markedElsewhere: Set = [
        "saveChanges", "claimChanges", "leaveChangesUnknown",
    ]

    /// Of a file with statements (`-- name:`), or of a migration: of its functions, and of what stands before the first.
    static func unkeptWrites(_ source: String) -> [Finding] {
        let isMigration = !source.contains("-- name: ")
        let head =
            isMigration
            ? #/CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) |\nDO /# : #/-- name: /#
        var line = 1
        var findings: [Finding] = []
        for (number, part) in source.split(separator: head, omittingEmptySubsequences: false)
            .enumerated()
        {
            if number > 0 || isMigration {
                findings += faults(of: String(part)).map { Finding(line: line, what: $0) }
            }
            line += part.count { $0 == "\n" }
        }
        return findings
    }

    private static func faults(of text: String) -> [String] {
        let name = String(text.prefix { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "." })
        return tables.keys.sorted().flatMap { table -> [String] in
            guard let rule = tables[table], writes(text, table, rule.columns) else { return [] }
            var faults: [String] = []
            if !rule.keepers.contains(where: text.contains) {
                faults.append("\(name) keeps no version of \(table)")
            } else if table != "batches", table != "subscription_events",
                !text.contains("recorded_at = "), !text.contains("DELETE FROM repricer.\(table)")
            {
                faults.append("\(name) does not say since when \(table) stand so")
            }
            let isMarked = ["stale_figures", "markMoved", "keep_changes("].contains(
                where: text.contains)
            if table == "price_changes", writes(text, table, ["state"]), !isMarked,
                !markedElsewhere.contains(name)
            {
                faults.append("\(name) marks no figures")
            }
            return faults
        }
    }

    private static func writes(_ text: String, _ table: String, _ columns: Set<String>) -> Bool {
        let end = #/\n\s*(FROM|WHERE|RETURNING)\b|;/#
        for verb in ["UPDATE", "INSERT INTO", "DELETE FROM"] {
            for start in text.ranges(of: verb + " ") {
                let rest = text[start.upperBound...]
                let target = rest.hasPrefix("repricer.") ? rest.dropFirst(9) : rest
                guard target.hasPrefix(table),
                    !(target.dropFirst(table.count).first.map { $0.isLetter || $0 == "_" } ?? false)
                else { continue }
                switch verb {
                case "DELETE FROM":
                    if table == "subscription_events" || table == "charges" { return true }
                case "INSERT INTO": if target.contains("DO UPDATE") { return true }
                default:
                    let set =
                        target.firstMatch(of: end).map { target[..<$0.range.lowerBound] } ?? target
                    let assigned = set.matches(of: #/(?:^|[\s,(])([a-z_]+)\s*=/#).map {
                        String($0.1)
                    }
                    if !columns.isDisjoint(with: assigned) { return true }
                }
            }
        }
        return false
    }

    /// Triggers that do more than refuse, or than mark what somebody wrote by hand.
    static func triggers(_ source: String) -> [Finding] {
        source.split(separator: "\n", omittingEmptySubsequences: false).enumerated().compactMap {
            number, line in
            guard let found = line.firstMatch(of: #/^CREATE (?:CONSTRAINT )?TRIGGER (\w+)/#),
                ![
                    "batches_are_finished", "audit_trail_append_only", "charges_inserted",
                    "charges_updated", "charges_deleted",
                ].contains(String(found.1))
            else { return nil }
            return Finding(line: number + 1, what: "trigger \(found.1)")
        }
    }
}
