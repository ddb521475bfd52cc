-- Spreads a migrated, still empty database over the workers of a Citus cluster, by `bucket`. Run it as the owner of the
-- cluster, once, after `repricer migrate`; Deploy/citus/cluster does. The psql variable `shards` says over how many (32): each
-- month of history is a table in each shard, and a search over all buckets asks each shard.
--
-- Three kinds of tables:
-- * with a bucket: spread, in one group of colocation, so that a statement that names one bucket runs whole on one shard;
-- * what such statements join or ask for: reference tables, the same on every node;
-- * the rest (people's decisions, the audit trail, evidence, leases, rate): local to the coordinator.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
\if :{?shards} \else \set shards 32 \endif
SET citus.shard_count = :shards;
-- A decision moves the rows of a batch in every bucket and then the batch, which is a reference table with keys that point
-- to it. In one transaction Citus takes that over one connection to each node only.
SELECT format('ALTER DATABASE %I SET citus.multi_shard_modify_mode = ''sequential''', current_database()) \gexec
-- One connection to each worker in a session. With two, a transaction could hold the lock of a subscription over one and write its
-- money over the other. These commit one after the other, and a session that waited for the lock might not see the money yet.
SELECT format('ALTER DATABASE %I SET citus.max_adaptive_executor_pool_size = 1', current_database()) \gexec

-- Citus runs no deferred trigger on a reference table. Only functions write batches, so nobody can get past
-- begin_submission and finish_submission; but a transaction of the owner could leave a batch unfinished.
DROP TRIGGER IF EXISTS batches_are_finished ON repricer.batches;
-- Citus does not spread a table with triggers either. So whoever changes charges by hand there must also mark the subscription
-- (`stale_figures`).
DROP TRIGGER IF EXISTS charges_inserted ON repricer.charges;
DROP TRIGGER IF EXISTS charges_updated ON repricer.charges;
DROP TRIGGER IF EXISTS charges_deleted ON repricer.charges;
-- A key from a spread table to a local one.
ALTER TABLE repricer.imported_increases DROP CONSTRAINT IF EXISTS imported_increases_import;

CREATE TEMPORARY TABLE to_spread AS
SELECT c.oid::regclass AS name, 'bucket' AS kind FROM pg_class c
WHERE c.relnamespace = 'repricer'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    -- The migrator's own, whose steps have buckets.
    AND c.relname <> 'migration_steps'
    AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'bucket')
UNION ALL
SELECT t::regclass, 'reference' FROM unnest(ARRAY[
    'repricer.service_controls', 'repricer.batches', 'repricer.batch_versions', 'repricer.batch_rule_answers',
    'repricer.batch_rejects', 'repricer.first_approvals', 'repricer.mass_extensions',
    'repricer.mass_extension_approvals', 'repricer.retention_floors', 'repricer.extension_summaries']) AS t;
DELETE FROM to_spread WHERE name IN (SELECT logicalrelid FROM pg_dist_partition);

-- Foreign keys between these are made again at the end: both tables must be spread first.
CREATE TEMPORARY TABLE keys AS
SELECT c.conrelid::regclass AS on_table, c.conname, pg_get_constraintdef(c.oid) AS definition
FROM pg_constraint c
WHERE c.contype = 'f' AND c.conparentid = 0 AND c.conrelid IN (SELECT name FROM to_spread);
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', on_table, conname) FROM keys \gexec
\o /dev/null
SELECT format('SELECT create_reference_table(%L)', name) FROM to_spread WHERE kind = 'reference' \gexec
SELECT create_distributed_table('repricer.subscriptions', 'bucket', colocate_with => 'none')
FROM to_spread WHERE name = 'repricer.subscriptions'::regclass;
SELECT format('SELECT create_distributed_table(%L, %L, colocate_with => %L)', name, 'bucket', 'repricer.subscriptions')
FROM to_spread WHERE kind = 'bucket' AND name <> 'repricer.subscriptions'::regclass ORDER BY name \gexec
SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', on_table, conname, definition) FROM keys \gexec
\o
-- Every second, and before each search, a query asks whether this is still the same database. A worker is another database, so it
-- answers with the identity of the coordinator.
\o /dev/null
SELECT 1 / min(success::integer) FROM run_command_on_workers($cmd$
    SET citus.enable_ddl_propagation TO off;
    CREATE OR REPLACE FUNCTION repricer.database_identity() RETURNS text
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp
        AS 'SELECT database_identity FROM repricer.service_controls'
$cmd$);
\o
SELECT kind, count(*) FROM to_spread GROUP BY kind ORDER BY kind;
-- Reports.
\ir gather.sql
