-- A slot that was missed or given back was lost for good, and with it a fiftieth of a second of the rate: a machine whose
-- CPU was taken now and then used 85 % of it. The row now remembers the slots of the last window, so that what was
-- not used makes room for others, and still no window holds more calls than it may.
-- Locks: rate_limits, for a moment.
-- breaking: yes

ALTER TABLE repricer.rate_limits ADD COLUMN taken_micros bigint[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN repricer.rate_limits.taken_micros IS
    'The slots of the last window and those to come, ascending; empty where none is ever missed. Microseconds since 1970.';
COMMENT ON COLUMN repricer.rate_limits.next_slot_micros IS
    'No slot before it is free, for nobody has one behind it; microseconds since 1970.';

-- Reserves up to p_wanted slots within p_horizon, none in the past, p_gap apart at least, and never more than p_most in
-- p_window; p_most is 0 where the gap alone keeps the rate. p_missed are slots that the asker had and did not use.
-- p_now is a rehearsal's clock, NULL the database's. All in microseconds. No row: the endpoint has none yet.
--
-- A clock that was set back would keep slots in a far future: nobody reserves that far, so they count for none, and the
-- next ones start a window behind where the last honest lease must have ended.
CREATE FUNCTION repricer.lease_slots(
    p_endpoint text, p_wanted bigint, p_now bigint, p_horizon bigint, p_gap bigint, p_window bigint, p_most bigint,
    p_missed bigint[]
) RETURNS TABLE (now_micros bigint, slots bigint[], next_micros bigint, blocked_until timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint;
    v_floor bigint;
    v_next bigint;
    v_taken bigint[];
    v_blocked timestamptz;
    v_slots bigint[] := '{}';
BEGIN
    SELECT r.next_slot_micros, r.taken_micros, r.blocked_until INTO v_floor, v_taken, v_blocked
    FROM repricer.rate_limits r WHERE r.endpoint = p_endpoint FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    -- After the lock: waiting for it must not make slots start in the past.
    v_now := coalesce(p_now, repricer.rate_clock());
    IF extract(epoch FROM v_blocked) * 1000000 <= v_now THEN v_blocked := NULL; END IF;
    IF v_floor > v_now + 2 * (p_horizon + p_gap) THEN
        v_floor := v_now + p_horizon + p_window;
        v_taken := '{}';
    ELSE
        v_floor := greatest(v_floor, v_now);
        v_taken := ARRAY(
            SELECT t FROM unnest(v_taken) AS t WHERE t > v_now - p_window AND t <> ALL (p_missed) ORDER BY t);
    END IF;
    IF p_most > 0 AND v_taken = '{}' THEN
        -- As if the last window had been used, so that a window's calls don't leave in the first half of each.
        v_taken := ARRAY(SELECT v_floor - p_window + i * p_window / p_most FROM generate_series(0, p_most - 1) AS i);
    END IF;
    LOOP
        -- The slot p_most before it, if there are so many, lies a window behind.
        v_next := greatest(v_floor, v_taken[cardinality(v_taken) - p_most + 1] + p_window);
        EXIT WHEN v_blocked IS NOT NULL OR cardinality(v_slots) >= p_wanted OR v_next >= v_now + p_horizon;
        v_slots := v_slots || v_next;
        IF p_most > 0 THEN v_taken := v_taken || v_next; END IF;
        v_floor := v_next + p_gap;
    END LOOP;
    UPDATE repricer.rate_limits r SET next_slot_micros = v_floor, taken_micros = v_taken
    WHERE r.endpoint = p_endpoint
        AND (cardinality(v_slots) > 0 OR cardinality(p_missed) > 0 OR r.next_slot_micros > v_floor);
    RETURN QUERY SELECT v_now, v_slots, v_next, v_blocked;
END
$$;
REVOKE ALL ON FUNCTION repricer.lease_slots(text, bigint, bigint, bigint, bigint, bigint, bigint, bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.lease_slots(text, bigint, bigint, bigint, bigint, bigint, bigint, bigint[])
    TO repricer_service;
