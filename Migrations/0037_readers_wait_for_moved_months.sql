-- Evidence that the default partition took is moved when its month is made. A reader who had looked up the partitions
-- before that, and then waited for the move, saw these rows in neither place: for a moment they seemed to be lost.
-- Now readers and writers wait for the whole table while rows are moved, which is when a month was not made ahead.
-- Locks: none.
-- breaking: no

CREATE OR REPLACE FUNCTION repricer.prepare_notification_months(p_at timestamptz, p_ahead integer) RETURNS integer
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
            -- Readers wait before they look which partitions there are: one that had looked would find these rows in
            -- none of them.
            LOCK TABLE notifications IN ACCESS EXCLUSIVE MODE;
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
