-- What folding learned to tell: an item that Change Subscription Metadata or Migrate renamed (the submitted names stay
-- as they were approved), a renewal that an offer or an extension moved, a refund that was reversed. The inbox gets an
-- index in the order of signing, so that a subscription with thousands of waiting notifications is folded in pieces.
-- Locks: price_changes and inbox while an index of each is built.
-- breaking: no

ALTER TABLE repricer.price_changes
    ADD COLUMN current_sku text,
    ADD COLUMN current_dependent_skus text[],
    ADD COLUMN planned_effective_at timestamptz,
    ADD CONSTRAINT price_changes_current_sku_size CHECK (length(current_sku) BETWEEN 1 AND 128);
COMMENT ON COLUMN repricer.price_changes.current_sku IS
    'The item''s name today, where it was renamed after submission; sku stays the submitted one.';
COMMENT ON COLUMN repricer.price_changes.current_dependent_skus IS
    'The dependents'' names today, where one was renamed after submission.';
COMMENT ON COLUMN repricer.price_changes.planned_effective_at IS
    'The renewal that was due at the call, where an offer or an extension has moved due_effective_at since.';
GRANT UPDATE (current_sku, current_dependent_skus, planned_effective_at)
    ON repricer.price_changes TO repricer_service;

-- One open change an item, whatever its name today.
DROP INDEX repricer.price_changes_one_open;
CREATE UNIQUE INDEX price_changes_one_open
    ON repricer.price_changes (original_transaction_id, (coalesce(current_sku, sku)))
    WHERE state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled', 'pending_consent',
        'accepted');

-- Renewals under the old and the new name count alike.
CREATE OR REPLACE VIEW repricer.charged_renewals AS
SELECT c.batch_id, c.original_transaction_id, c.change_id, h.transaction_id, h.purchased_at,
    c.current_price_milliunits AS old_price_milliunits, h.price_milliunits
FROM repricer.price_changes c
JOIN repricer.charges h
    ON h.original_transaction_id = c.original_transaction_id AND h.sku IN (c.sku, c.current_sku)
    AND h.purchased_at >= c.effective_at AND h.price_milliunits = c.new_price_milliunits
    AND h.currency = c.currency AND h.revoked_at IS NULL
WHERE c.state = 'effective'
    AND NOT EXISTS (
        SELECT FROM repricer.price_changes n
        WHERE n.original_transaction_id = c.original_transaction_id
            AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
            AND n.state = 'effective' AND n.effective_at <= h.purchased_at
            AND (n.effective_at, n.change_id) > (c.effective_at, c.change_id));

CREATE INDEX inbox_of_subscription ON repricer.inbox (original_transaction_id, signed_at)
    WHERE error IS NULL;
