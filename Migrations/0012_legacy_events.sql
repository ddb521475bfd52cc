-- V1 notifications: unsigned hints among the statements of a subscription, marked as such.
-- Locks: subscription_events for a moment; the new constraint is checked for new rows only.
-- breaking: yes (a service of before can't read what this one folds: stop it first)

ALTER TABLE repricer.subscription_events
    DROP CONSTRAINT subscription_events_source,
    ADD CONSTRAINT subscription_events_source
        CHECK (source IN ('notification', 'response', 'status', 'legacy')) NOT VALID;
ALTER TABLE repricer.subscription_events VALIDATE CONSTRAINT subscription_events_source;
