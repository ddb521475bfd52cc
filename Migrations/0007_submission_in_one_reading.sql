-- A submission stores its rows while it still judges the rest of the file, and knows the number of rows and the
-- plan hash of its batch only at the end. So a transaction may ask that a row's batch be looked for at its
-- commit; every other one checks at once, as before.
-- Locks: price_changes, batch_rejects and batches for an instant.
-- breaking: no

ALTER TABLE repricer.price_changes
    ALTER CONSTRAINT price_changes_batch_id_fkey DEFERRABLE INITIALLY IMMEDIATE;
ALTER TABLE repricer.batch_rejects
    ALTER CONSTRAINT batch_rejects_batch_id_fkey DEFERRABLE INITIALLY IMMEDIATE;
