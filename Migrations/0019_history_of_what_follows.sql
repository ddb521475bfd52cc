-- A change's history begins with its approval. That it was submitted, when and by whom, its batch says once for all of
-- its rows; a line for each was a fifth of what a submission wrote. So whoever submits needs no way into the history.
-- Locks: price_change_history, for a moment.
-- breaking: yes

REVOKE INSERT (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
    ON repricer.price_change_history FROM repricer_pricing;
