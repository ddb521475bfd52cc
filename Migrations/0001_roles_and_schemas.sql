-- The roles, the two schemas, and the bucket of a subscription. The last file of the baseline says what each role may do,
-- once everything exists.
-- Locks: none. Roles belong to the whole cluster, so they may exist already.
-- breaking: no

-- The migrator has made the schema `repricer` already, for its own table.
CREATE SCHEMA IF NOT EXISTS repricer;
CREATE SCHEMA report;
COMMENT ON SCHEMA repricer IS 'The product''s tables. Programs only; finance reads schema report.';
COMMENT ON SCHEMA report IS 'Views that finance may rely on: names and types are a contract.';

DO $roles$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['repricer_pricing', 'repricer_service', 'repricer_finance',
        'repricer_finance_lead'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;  -- Another database of the same cluster is being migrated at the same moment.
        END;
    END LOOP;
END
$roles$;

-- A subscription belongs to one bucket for ever. Every table of subscriptions has a column `bucket` with this value, as
-- part of its keys. The column is written and checked, because a table cannot be partitioned or sharded by a generated
-- column. The service computes the same value (`Bucket.of`).
CREATE FUNCTION repricer.bucket_of(original_transaction_id text) RETURNS smallint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (hashtextextended(original_transaction_id, 0) & 63)::smallint;

-- The instant at which a row that is written now counts as recorded. It is the server's clock and not the start of the
-- transaction, so that it is never earlier than the lock on the table that is written. In a rehearsal it is the virtual clock.
CREATE FUNCTION repricer.recording_instant() RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
DECLARE
    v_at timestamptz;
BEGIN
    SELECT c.clock_start + (clock_timestamp() - c.clock_origin) * c.clock_rate INTO v_at
        FROM repricer.service_controls c WHERE c.clock_rate IS NOT NULL;
    RETURN coalesce(v_at, clock_timestamp());
END
$$;

-- Every function by which a person decides calls this first. It checks session_user, the person who logged in, whatever
-- role they have set.
CREATE FUNCTION repricer.require_pricing() RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
BEGIN
    IF NOT pg_has_role(session_user, 'repricer_pricing', 'MEMBER') THEN
        RAISE EXCEPTION 'user % is no member of repricer_pricing', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- The rows of a decision stay locked until the transaction ends. If the session then idles, the server ends it, so that
    -- it holds up neither calls nor folds. The timeout holds for this transaction; a shorter one stays as it is.
    IF (SELECT setting::bigint NOT BETWEEN 1 AND 60000 FROM pg_settings
        WHERE name = 'idle_in_transaction_session_timeout')
    THEN
        PERFORM set_config('idle_in_transaction_session_timeout', '60s', true);
    END IF;
    -- A session that goes on with something else must not hold them up either. Each further statement may take ten
    -- minutes, far more than a decision about a million rows needs. The statement that runs now is not cut off.
    IF (SELECT setting::bigint NOT BETWEEN 1 AND 600000 FROM pg_settings WHERE name = 'statement_timeout') THEN
        PERFORM set_config('statement_timeout', '10min', true);
    END IF;
END
$$;
