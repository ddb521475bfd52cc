-- Leases get an index of their own: the planner read the one of all that is in flight from end to end for one subscription.
-- A line's own index goes: price_changes_one_open refuses a second row of it, approve_batch a batch with more rows than lines.
-- Locks: price_change_requests while an index is built; price_changes for a moment.
-- breaking: no

DROP INDEX repricer.price_change_requests_open;
CREATE INDEX price_change_requests_open ON repricer.price_change_requests (lease_until) WHERE settled_at IS NULL;

ALTER TABLE repricer.price_changes DROP CONSTRAINT price_changes_line;
