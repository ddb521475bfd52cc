-- An item that a change of another subscription names as its dependent stays claimed under its new name, when it is
-- renamed where it lives: the service that folds the rename adds it. And what is lost with a dependent says by which
-- period it was paid: one on another subscription has its own.
-- Locks: none but the view's.
-- breaking: no

GRANT INSERT ON repricer.dependent_claims TO repricer_service;

CREATE OR REPLACE VIEW report.dependent_cancellation AS
SELECT d.batch_id, b.name AS batch_name, d.original_transaction_id, d.change_id, d.parent_sku, d.dependent_sku,
    d.cause, d.state, d.currency, d.price_milliunits, d.requested_at, d.requested_by_evidence, d.settled_at,
    d.settled_by_evidence, d.detail, d.state = 'confirmed' AS is_proved, d.is_elsewhere,
    d.target_transaction_id AS dependent_transaction_id, d.cancel_reference_id,
    CASE WHEN d.is_elsewhere THEN t.period ELSE c.period END AS period
FROM repricer.dependent_cancellations d
JOIN repricer.batches b ON b.batch_id = d.batch_id
LEFT JOIN repricer.price_changes c
    ON c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
LEFT JOIN repricer.subscriptions t ON t.original_transaction_id = d.target_transaction_id;
COMMENT ON COLUMN report.dependent_cancellation.price_milliunits IS
    'What is lost each period: the dependent''s price, in thousandths of the currency; null: not known.';
COMMENT ON COLUMN report.dependent_cancellation.period IS
    'The period that it is paid by, as P1M; on another subscription that one''s. Null: not known.';
