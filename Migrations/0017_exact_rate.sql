-- Calls take reserved instants instead of tokens: a bucket of tokens let a full second of saved calls leave beside
-- the next second's. One row an endpoint holds the instant of the first free slot.
-- Locks: rate_limits, for a moment.
-- breaking: yes

ALTER TABLE repricer.rate_limits
    DROP COLUMN micro_tokens,
    DROP COLUMN refilled_at,
    ADD COLUMN next_slot_micros bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN repricer.rate_limits.next_slot_micros IS
    'The first instant that no process has reserved for a call; microseconds since 1970.';
COMMENT ON COLUMN repricer.rate_limits.blocked_until IS
    'The App Store asked every process for silence until then.';

-- The one clock that all processes share, and the only place where a rate asks it: a rehearsal gives its own.
CREATE FUNCTION repricer.rate_clock() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
REVOKE ALL ON FUNCTION repricer.rate_clock() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.rate_clock() TO repricer_service;
