-- A member of repricer_pricing could insert rows into another's batch. They were never sent, but kept the batch from
-- approval and their item from other changes. Now a row carries its submitter, which the database fills in and nobody
-- may write, and refers to its batch together with it.
-- Locks: price_changes and batches, while each row that there is gets its submitter and the new keys are made.
-- breaking: no

ALTER TABLE repricer.batches ADD CONSTRAINT batches_submitter UNIQUE (batch_id, submitted_by);

ALTER TABLE repricer.price_changes ADD COLUMN submitted_by text;
UPDATE repricer.price_changes c SET submitted_by = b.submitted_by
    FROM repricer.batches b WHERE b.batch_id = c.batch_id;
ALTER TABLE repricer.price_changes ALTER COLUMN submitted_by SET NOT NULL,
    ALTER COLUMN submitted_by SET DEFAULT session_user;

-- Under its old name: a submission defers it by this name.
ALTER TABLE repricer.price_changes DROP CONSTRAINT price_changes_batch_id_fkey;
ALTER TABLE repricer.price_changes ADD CONSTRAINT price_changes_batch_id_fkey
    FOREIGN KEY (batch_id, submitted_by) REFERENCES repricer.batches (batch_id, submitted_by)
    DEFERRABLE INITIALLY IMMEDIATE;
