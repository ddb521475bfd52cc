-- Open calls are looked for in the order of their leases, so that a reader of days, whose snapshot keeps the entries of
-- closed calls alive, costs a look nothing.
-- Locks: price_change_requests while an index is built.
-- breaking: no

DROP INDEX repricer.price_change_requests_open;
CREATE INDEX price_change_requests_open ON repricer.price_change_requests (lease_until)
    WHERE state IN ('sending', 'unknown');
