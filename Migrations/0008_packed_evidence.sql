-- Evidence at a seventh of its size, by month. A payload is kept packed: its headers, which repeat the certificate
-- chain, once for all; the rest decoded. Payloads of an odd shape, and those of before, stay whole.
-- What is stored already becomes one partition of its own, up to the month of the newest.
-- Locks: notifications for two readings of it.
-- breaking: yes (a service of before can't read what this one stores: stop it first)

CREATE TABLE repricer.signing_headers (
    digest bytea NOT NULL,
    header bytea NOT NULL,
    CONSTRAINT signing_headers_pkey PRIMARY KEY (digest),
    CONSTRAINT signing_headers_digest_size CHECK (octet_length(digest) = 32)
);
COMMENT ON TABLE repricer.signing_headers IS
    'The header of each signing chain, as sent, under its SHA-256. Never deleted: a few kilobytes a chain, and '
    'evidence cannot be rebuilt without.';

ALTER TABLE repricer.notifications
    ALTER COLUMN signed_payload DROP NOT NULL,
    ADD COLUMN packed bytea COMPRESSION lz4,
    ADD COLUMN header_digests bytea,
    ADD CONSTRAINT notifications_whole_or_packed CHECK (
        (signed_payload IS NULL) = (packed IS NOT NULL)
        AND (packed IS NULL) = (header_digests IS NULL)
        AND octet_length(header_digests) % 32 = 0);
CREATE INDEX notifications_not_understood ON repricer.notifications (type, subtype) WHERE NOT understood;
COMMENT ON COLUMN repricer.notifications.signed_payload IS
    'The payload itself, where it does not come back to the byte from packed, and in rows of before 0008.';
COMMENT ON COLUMN repricer.notifications.packed IS
    'The payload without its headers, decoded; `repricer evidence` prints it as it was signed.';
COMMENT ON COLUMN repricer.notifications.header_digests IS
    'SHA-256 of each header of packed, 32 bytes each, in the order in which packed counts them.';

CREATE VIEW repricer.notification_partitions AS
SELECT c.relname::text AS partition,
    substring(b.bounds FROM 'FROM \(''([^'']+)''\)')::timestamptz AS starts_at,
    substring(b.bounds FROM 'TO \(''([^'']+)''\)')::timestamptz AS ends_at,
    b.bounds = 'DEFAULT' AS is_default,
    pg_total_relation_size(c.oid) AS bytes
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bounds) b
WHERE i.inhparent = 'repricer.notifications'::regclass;
COMMENT ON VIEW repricer.notification_partitions IS
    'The partitions of notifications. starts_at is null where one has no lower bound.';

CREATE VIEW repricer.evidence_size AS
SELECT n.notifications, s.bytes, s.bytes / nullif(n.notifications, 0) AS bytes_per_notification
FROM (SELECT count(*) AS notifications FROM repricer.notifications) n
CROSS JOIN (
    SELECT sum(pg_total_relation_size(t.relation))::bigint AS bytes
    FROM (
        SELECT relid AS relation FROM pg_partition_tree('repricer.notifications')
        UNION ALL SELECT 'repricer.notification_ids'::regclass
        UNION ALL SELECT 'repricer.signing_headers'::regclass
    ) t
) s;
COMMENT ON VIEW repricer.evidence_size IS
    'What the raw evidence takes on disk: every table and index of it.';

-- Makes the partition of the month of p_at and of p_ahead months after it; returns how many were missing. Rows that
-- the default partition took in the meantime move over.
CREATE FUNCTION repricer.prepare_notification_months(p_at timestamptz, p_ahead integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp
    SET timezone = 'UTC' SET lock_timeout = '2s' AS $$
DECLARE
    v_from timestamptz;
    v_to timestamptz;
    v_name text;
    v_made integer := 0;
BEGIN
    FOR v_from IN
        SELECT m FROM generate_series(date_trunc('month', p_at),
            date_trunc('month', p_at) + p_ahead * interval '1 month', interval '1 month') m
    LOOP
        v_to := v_from + interval '1 month';
        v_name := 'notifications_' || to_char(v_from, 'YYYY_MM');
        CONTINUE WHEN EXISTS (
            SELECT FROM notification_partitions
            WHERE ends_at > v_from AND (starts_at IS NULL OR starts_at <= v_from));
        -- One at a time; a second one finds the partition made. Writers go on: this lock leaves them alone.
        LOCK TABLE notifications IN SHARE UPDATE EXCLUSIVE MODE;
        CONTINUE WHEN to_regclass(format('repricer.%I', v_name)) IS NOT NULL;
        EXECUTE format(
            'CREATE TABLE %I (LIKE notifications INCLUDING ALL) WITH (toast_tuple_target = 128)', v_name);
        IF EXISTS (SELECT FROM notifications_default WHERE received_at >= v_from AND received_at < v_to) THEN
            LOCK TABLE notifications_default IN ACCESS EXCLUSIVE MODE;
            EXECUTE format(
                'WITH moved AS (DELETE FROM notifications_default WHERE received_at >= $1 AND received_at < $2 '
                'RETURNING *) INSERT INTO %I SELECT * FROM moved', v_name) USING v_from, v_to;
        END IF;
        EXECUTE format('ALTER TABLE notifications ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            v_name, v_from, v_to);
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END
$$;

-- Rows of before keep their place: their partition only gets an end, so that nothing is copied.
DO $$
DECLARE
    v_end timestamptz;
BEGIN
    SET LOCAL timezone = 'UTC';
    SELECT date_trunc('month', max(received_at)) + interval '1 month' INTO v_end FROM repricer.notifications;
    IF v_end IS NOT NULL THEN
        ALTER TABLE repricer.notifications DETACH PARTITION repricer.notifications_default;
        ALTER TABLE repricer.notifications_default RENAME TO notifications_before_0008;
        EXECUTE format(
            'ALTER TABLE repricer.notifications ATTACH PARTITION repricer.notifications_before_0008 '
            'FOR VALUES FROM (MINVALUE) TO (%L)', v_end);
        CREATE TABLE repricer.notifications_default PARTITION OF repricer.notifications DEFAULT;
    END IF;
END
$$;
-- Payloads lie apart from their rows, so that reports read 160 bytes a notification and not 2 KB.
ALTER TABLE repricer.notifications_default SET (toast_tuple_target = 128);

REVOKE ALL ON FUNCTION repricer.prepare_notification_months(timestamptz, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.prepare_notification_months(timestamptz, integer) TO repricer_service;
GRANT SELECT ON repricer.signing_headers TO repricer_pricing, repricer_service;
GRANT SELECT ON repricer.notification_partitions, repricer.evidence_size TO repricer_service;
GRANT INSERT ON repricer.signing_headers TO repricer_service;
