package import Postgres

/// What every writer of facts does beside them: it keeps what they were, for reports of the past, and marks of which
/// subscriptions kept figures are stale. Here for facts that a test writes by hand, and to see that the product does.
package enum Keeping {
    private struct Table {
        var name: String
        var key: [String]
        /// What reports of the past read.
        var facts: String
    }

    private static let tables = [
        Table(
            name: "price_changes", key: ["original_transaction_id", "change_id"],
            facts: """
                current_sku, former_skus, former_until, current_dependent_skus, send_after, send_by, due_effective_at,
                planned_effective_at, moved_before_call, moved_since_call, request_reference_id, state, state_since, reason,
                doubtful_since, refused_at, sent_at, scheduled_at, consent_asked_at, accepted_at, acceptance, effective_at, ended_at,
                is_leaving
                """),
        Table(
            name: "charges", key: ["original_transaction_id", "transaction_id", "sku"],
            facts: """
                purchased_at, expires_at, revoked_at, price_milliunits, quantity, currency, storefront, is_offer,
                is_purchase, is_added_seat, is_relisted, period, refunded_milliunits
                """),
        Table(
            name: "subscription_events",
            key: ["original_transaction_id", "signed_at", "evidence_id"],
            facts: "source, type, subtype, statement"),
        Table(
            name: "dependent_cancellations",
            key: ["original_transaction_id", "change_id", "dependent_sku"],
            facts: """
                parent_sku, cause, is_cross_subscription, target_transaction_id, target_period, cancel_reference_id,
                state, price_milliunits, currency, requested_at, requested_by_evidence, settled_at, settled_by_evidence, detail
                """),
        Table(
            name: "batches", key: ["batch_id"],
            facts:
                "state, decided_by, decided_at, decision_reason, is_paused, paused_reason"),
    ]

    private static func list(_ row: String, _ columns: String) -> String {
        columns.split { $0 == "," || $0.isWhitespace }.map { "\(row).\($0)" }
            .joined(separator: ", ")
    }

    /// Makes the schema `test_support`: triggers that do for the owner what the product's statements do by themselves.
    static let byHand: String = {
        let changes = tables[0].facts
        let names = changes.split { $0 == "," || $0.isWhitespace }.joined(separator: ", ")
        return """
            CREATE FUNCTION test_support.keep_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
            DECLARE
                v_at timestamptz := repricer.recording_instant();
            BEGIN
                INSERT INTO repricer.price_change_versions (original_transaction_id, bucket, change_id, recorded_at,
                    recorded_until, claim_recorded_at, \(names))
                SELECT OLD.original_transaction_id, OLD.bucket, OLD.change_id, OLD.recorded_at, v_at, OLD.claim_recorded_at,
                    \(list("OLD", changes)) ON CONFLICT DO NOTHING;
                NEW.recorded_at := v_at;
                RETURN NEW;
            END $$;
            CREATE TRIGGER by_hand BEFORE UPDATE ON repricer.price_changes FOR EACH ROW
                WHEN (session_user = 'postgres'
                    AND (\(list("OLD", changes))) IS DISTINCT FROM (\(list("NEW", changes))))
                EXECUTE FUNCTION test_support.keep_change();
            CREATE FUNCTION test_support.keep_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
            DECLARE
                v_at timestamptz := repricer.recording_instant();
            BEGIN
                EXECUTE format('INSERT INTO repricer.%I SELECT ($1).*, $2 ON CONFLICT DO NOTHING', TG_ARGV[0]) USING OLD, v_at;
                IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
                NEW.recorded_at := v_at;
                RETURN NEW;
            END $$;
            CREATE TRIGGER by_hand BEFORE UPDATE OR DELETE ON repricer.charges FOR EACH ROW
                WHEN (session_user = 'postgres') EXECUTE FUNCTION test_support.keep_row('charge_versions');
            CREATE TRIGGER by_hand BEFORE UPDATE OR DELETE ON repricer.subscription_events FOR EACH ROW
                WHEN (session_user = 'postgres') EXECUTE FUNCTION test_support.keep_row('subscription_event_versions');
            CREATE TRIGGER by_hand BEFORE UPDATE OR DELETE ON repricer.dependent_cancellations FOR EACH ROW
                WHEN (session_user = 'postgres') EXECUTE FUNCTION test_support.keep_row('dependent_cancellation_versions');
            CREATE FUNCTION test_support.keep_batch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
            BEGIN
                INSERT INTO repricer.batch_versions VALUES (OLD.batch_id, repricer.recording_instant(), OLD.state,
                    OLD.decided_by, OLD.decided_at, OLD.decision_reason, OLD.is_paused, OLD.paused_reason)
                    ON CONFLICT DO NOTHING;
                RETURN NULL;
            END $$;
            CREATE TRIGGER by_hand AFTER UPDATE ON repricer.batches FOR EACH ROW
                WHEN (session_user = 'postgres' AND (\(list("OLD", tables[4].facts)))
                    IS DISTINCT FROM (\(list("NEW", tables[4].facts))))
                EXECUTE FUNCTION test_support.keep_batch();
            CREATE FUNCTION test_support.mark() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
            BEGIN
                IF TG_OP = 'DELETE' THEN NEW := OLD; END IF;
                INSERT INTO repricer.stale_figures VALUES (NEW.original_transaction_id, NEW.bucket);
                RETURN NULL;
            END $$;
            """
                + ["price_changes", "charges", "subscription_events", "subscriptions"].map {
                    """
                    CREATE TRIGGER by_hand_marked AFTER INSERT OR UPDATE OR DELETE ON repricer.\($0) FOR EACH ROW
                        WHEN (session_user = 'postgres') EXECUTE FUNCTION test_support.mark();
                    """
                }.joined()
    }()

    /// From now on each row that is written is remembered, with the instant.
    package static func watch(_ owner: PostgresConnection) async throws {
        try await owner.script(
            """
            CREATE TABLE test_support.written (at timestamptz, name text, key jsonb, facts jsonb, is_by_hand boolean);
            CREATE FUNCTION test_support.remember() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET timezone = 'UTC' AS $$
            DECLARE
                v_row jsonb := to_jsonb(CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END);
            BEGIN
                INSERT INTO test_support.written
                SELECT repricer.recording_instant(), TG_TABLE_NAME,
                    (SELECT jsonb_object_agg(k, v_row -> k) FROM unnest(TG_ARGV[0]::text[]) k),
                    CASE WHEN TG_OP <> 'DELETE'
                        THEN (SELECT jsonb_object_agg(k, v_row -> k) FROM unnest(TG_ARGV[1]::text[]) k) END,
                    session_user = 'postgres';
                RETURN NULL;
            END $$;
            """
                + tables.map { table in
                    let facts = table.facts.split { $0 == "," || $0.isWhitespace }
                    return """
                        CREATE TRIGGER watched AFTER INSERT OR UPDATE OR DELETE ON repricer.\(table.name) FOR EACH ROW
                        EXECUTE FUNCTION test_support.remember('{\(table.key.joined(separator: ","))}',
                            '{\(facts.joined(separator: ","))}');
                        """
                }.joined())
    }

    /// Each row that was written, asked for as of that instant: those that were another. What a test wrote by hand says
    /// nothing, and neither does what it is about, nor what waited for an approval that bears an instant of the test.
    package static func faults(_ owner: PostgresConnection) async throws -> [String] {
        var faults: [String] = []
        try await owner.script("SET timezone = 'UTC'")
        for table in tables {
            let key = table.key.map { "h.\($0)::text = w.key ->> '\($0)'" }
                .joined(separator: " AND ")
            let type =
                table.key.contains("signed_at")
                ? "h.original_transaction_id = w.key ->> 'original_transaction_id' AND h.evidence_id = w.key ->> 'evidence_id'"
                : key
            let facts = table.facts.split { $0 == "," || $0.isWhitespace }
            faults += try await owner.query(
                """
                SELECT concat_ws(' ', w.at, w.key, 'was', w.facts, 'and is', h.facts) AS fault
                FROM test_support.written w
                LEFT JOIN LATERAL (
                    SELECT (SELECT jsonb_object_agg(k, to_jsonb(h) -> k) FROM unnest('{\(unsafe: facts.joined(separator: ","))}'::text[]) k)
                        AS facts
                    FROM repricer.\(unsafe: table.name)_at(w.at) h WHERE \(unsafe: type)
                ) h ON true
                WHERE w.name = '\(unsafe: table.name)' AND coalesce(w.facts ->> 'state', '') NOT IN ('submitting', 'awaiting_approval')
                    AND h.facts IS DISTINCT FROM w.facts
                    AND NOT EXISTS (
                        SELECT FROM test_support.written o
                        WHERE o.is_by_hand AND o.name = w.name AND o.key = w.key)
                ORDER BY w.at LIMIT 3
                """
            ).map { "\(table.name) as of \(try $0.text("fault"))" }
        }
        return faults
    }
}
