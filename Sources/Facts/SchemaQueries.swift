import Postgres

/// The statements of the migrator. Only the owner writes its tables. Everybody who may use the schema may read them,
/// since every program compares the version at its start.
enum SchemaQueries {
    static let tablePresence: SQL = """
        -- name: migrationTablePresence
        SELECT to_regclass('repricer.schema_migrations') IS NOT NULL AS is_present
        """

    static let state: SQL = """
        -- name: schemaState
        SELECT coalesce(max(version) FILTER (WHERE finished_at IS NOT NULL), 0) AS version,
            coalesce(max(version) FILTER (WHERE is_breaking), 0) AS lowest_program
        FROM repricer.schema_migrations
        """

    static let isReadOnly: SQL = """
        -- name: isReadOnly
        SELECT current_setting('transaction_read_only')::boolean AS is_read_only
        """

    static let closedTable: SQL = """
        -- name: tableClosedToService
        SELECT name FROM unnest(ARRAY['repricer.inbox', 'repricer.store_calls']) AS name
        WHERE NOT has_table_privilege(name, 'INSERT')
        LIMIT 1
        """

    static let applied: SQL = """
        -- name: appliedMigrations
        SELECT version, name, checksum, applied_at, finished_at IS NOT NULL AS is_finished
        FROM repricer.schema_migrations
        ORDER BY version
        """

    /// Whether finance's schema is there and open to this user.
    static let reportsAreOpen: SQL = """
        -- name: reportsAreOpen
        SELECT coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace
            WHERE nspname = 'report'), false) AS are_open
        """

    /// What `migrate` needs besides the files: each missing right, and the statement by which a superuser grants it.
    /// The first file makes the roles; later files need no right for that.
    static func missingRights(makingRoles: Bool) -> SQL {
        """
        -- name: missingMigrationRights
        SELECT m.missing, m.statement
        FROM pg_roles me, pg_database d,
            LATERAL (VALUES
                (\(makingRoles) AND NOT me.rolcreaterole, 'CREATEROLE, to make the roles that people are given',
                    format('ALTER ROLE %I CREATEROLE', me.rolname)),
                (NOT pg_has_role(d.datdba, 'USAGE'),
                    format('ownership of the database %I, to say who may connect', d.datname),
                    format('ALTER DATABASE %I OWNER TO %I', d.datname, me.rolname))
            ) AS m (is_missing, missing, statement)
        WHERE me.rolname = current_user AND d.datname = current_database() AND NOT me.rolsuper AND m.is_missing
        UNION ALL
        -- A member of a superuser would be one.
        SELECT format('ownership of the schema %I, which %I made%s', n.nspname, owner.rolname,
                CASE WHEN owner.rolsuper THEN format(' (run it as %I, who is a superuser)', owner.rolname) ELSE '' END),
            CASE WHEN NOT owner.rolsuper THEN format('GRANT %I TO %I', owner.rolname, current_user) END
        FROM pg_namespace n JOIN pg_roles owner ON owner.oid = n.nspowner
        WHERE n.nspname IN ('repricer', 'report') AND NOT pg_has_role(n.nspowner, 'USAGE')
        UNION ALL
        SELECT format('a database of the encoding UTF8: %I has %s', d.datname, pg_encoding_to_char(d.encoding)),
            format('CREATE DATABASE %I TEMPLATE template0 ENCODING ''UTF8''', d.datname || '_utf8')
        FROM pg_database d
        WHERE d.datname = current_database() AND pg_encoding_to_char(d.encoding) <> 'UTF8'
        """
    }

    /// Locks the record until the transaction ends. A user who may only read the table cannot take a lock that
    /// conflicts.
    static let lock: SQL = """
        -- name: lockMigrations
        LOCK TABLE repricer.schema_migrations IN SHARE ROW EXCLUSIVE MODE
        """

    static let createTable = """
        CREATE SCHEMA IF NOT EXISTS repricer;
        CREATE TABLE IF NOT EXISTS repricer.schema_migrations (
            version integer NOT NULL,
            name text NOT NULL,
            checksum text NOT NULL,
            is_breaking boolean NOT NULL,
            applied_at timestamptz NOT NULL,
            finished_at timestamptz,
            CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
        );
        COMMENT ON TABLE repricer.schema_migrations IS
            'Which files of Migrations/ were applied, with the SHA-256 of their text.';
        COMMENT ON COLUMN repricer.schema_migrations.is_breaking IS
            'Programs of an older schema may not run from the moment that the row is there.';
        COMMENT ON COLUMN repricer.schema_migrations.finished_at IS 'Null: some steps are still to be done.';
        GRANT SELECT ON repricer.schema_migrations TO PUBLIC;
        CREATE TABLE IF NOT EXISTS repricer.migration_steps (
            version integer NOT NULL,
            step integer NOT NULL,
            bucket smallint NOT NULL,
            changed_rows bigint NOT NULL,
            is_done boolean NOT NULL,
            CONSTRAINT migration_steps_pkey PRIMARY KEY (version, step)
        );
        COMMENT ON TABLE repricer.migration_steps IS
            'How far the steps of a migration have come. bucket: the one to go on with, of a step that goes through them.';
        GRANT SELECT ON repricer.migration_steps TO PUBLIC;
        """

    static func checksum(of text: String) -> SQL {
        """
        -- name: migrationChecksum
        SELECT encode(sha256(\(Array(text.utf8))), 'hex') AS checksum
        """
    }

    static func record(_ migration: Migration, checksum: String, at instant: Int64) -> SQL {
        """
        -- name: recordMigration
        INSERT INTO repricer.schema_migrations (version, name, checksum, is_breaking, applied_at)
        VALUES (\(migration.version), \(migration.name), \(checksum), \(migration.isBreaking),
            \(timestamp: instant))
        ON CONFLICT (version) DO NOTHING
        """
    }

    static func finish(_ migration: Migration, at instant: Int64) -> SQL {
        """
        -- name: finishMigration
        UPDATE repricer.schema_migrations SET finished_at = \(timestamp: instant)
        WHERE version = \(migration.version) AND finished_at IS NULL
        """
    }

    /// Takes back the announcement of a breaking migration that has not begun.
    static func withdraw(_ migration: Migration) -> SQL {
        """
        -- name: withdrawMigration
        DELETE FROM repricer.schema_migrations m
        WHERE m.version = \(migration.version) AND m.finished_at IS NULL
            AND NOT EXISTS (SELECT FROM repricer.migration_steps s WHERE s.version = m.version)
        """
    }

    /// Copies the lowest program to the table that every claim reads, so that a claim needs no other table.
    static let noteLowestProgram: SQL = """
        -- name: noteLowestProgram
        UPDATE repricer.service_controls
        SET lowest_program = (SELECT coalesce(max(version), 0) FROM repricer.schema_migrations WHERE is_breaking)
        """

    static let controlsPresence: SQL = """
        -- name: serviceControlsPresence
        SELECT count(*) > 0 AS is_present FROM pg_attribute
        WHERE attrelid = to_regclass('repricer.service_controls') AND attname = 'lowest_program'
        """

    static func steps(of migration: Migration) -> SQL {
        """
        -- name: migrationSteps
        SELECT step, bucket, changed_rows, is_done FROM repricer.migration_steps
        WHERE version = \(migration.version)
        """
    }

    static func noteStep(
        _ migration: Migration, _ step: Int, bucket: Int, rows: Int, isDone: Bool
    ) -> SQL {
        """
        -- name: noteMigrationStep
        INSERT INTO repricer.migration_steps AS s (version, step, bucket, changed_rows, is_done)
        VALUES (\(migration.version), \(step), \(bucket)::smallint, \(rows), \(isDone))
        ON CONFLICT (version, step) DO UPDATE SET bucket = excluded.bucket, is_done = excluded.is_done,
            changed_rows = s.changed_rows + excluded.changed_rows
        """
    }

    /// Indexes that an interrupted build left behind, without those that another session is building.
    static let brokenIndexes: SQL = """
        -- name: brokenIndexes
        SELECT format('%I.%I', n.nspname, c.relname) AS name
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('repricer', 'report') AND c.relkind = 'i' AND NOT i.indisvalid
            AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.relid = i.indrelid)
        """

    /// Builds of indexes of ours that are under way.
    static let indexBuilds: SQL = """
        -- name: indexBuilds
        SELECT count(*) AS builds FROM pg_stat_progress_create_index p
        JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('repricer', 'report') AND p.datname = current_database() AND p.pid <> pg_backend_pid()
        """

    static func validIndex(_ index: Migration.Index) -> SQL {
        """
        -- name: validIndex
        SELECT EXISTS (
            SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE i.indrelid = to_regclass(\(index.table)) AND c.relname = \(index.name) AND i.indisvalid
                AND i.indisunique = \(index.isUnique)) AS is_built
        """
    }

    static func dropIndex(_ name: String) -> String { "DROP INDEX CONCURRENTLY IF EXISTS \(name)" }

    static func analyze(_ table: String) -> String { "ANALYZE \(table)" }

    /// Sessions with locks on our tables. The oldest transaction comes first, as far as this user may see the ages.
    static let lockHolders: SQL = """
        -- name: lockHolders
        SELECT a.pid, coalesce(a.usename, '') AS usename, coalesce(a.application_name, '') AS application
        FROM pg_stat_activity a
        WHERE a.pid <> pg_backend_pid() AND a.datname = current_database() AND a.pid IN (
            SELECT l.pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE l.granted AND n.nspname IN ('repricer', 'report') AND c.relkind IN ('r', 'p', 'v')
                AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
        ORDER BY a.xact_start, a.pid LIMIT 5
        """

    /// The transactions of users who may deliver, by identifiers that no later transaction has, and their sessions.
    static let programTransactions: SQL = """
        -- name: programTransactions
        SELECT l.virtualtransaction AS id, a.pid, coalesce(a.usename, '') AS usename,
            coalesce(a.application_name, '') AS application
        FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.locktype = 'virtualxid' AND a.datname = current_database() AND a.pid <> pg_backend_pid()
            AND pg_has_role(a.usesysid, 'repricer_service', 'MEMBER')
        """

    /// How many connections programs and commands of the service have, and how many calls still await their answers.
    /// They are recognised by their user, because a connection string may give a session any application name. A
    /// superuser is a member of every role, and an owner may be a member of this one, so their sessions are recognised
    /// by that name.
    static let programsAtWork: SQL = """
        -- name: programsAtWork
        SELECT (SELECT count(*) FROM pg_stat_activity a WHERE a.datname = current_database()
                AND (a.application_name IN ('repricer serve', 'repricer pages') OR a.usename <> current_user AND EXISTS (
                    SELECT FROM pg_roles r WHERE r.oid = a.usesysid AND NOT r.rolsuper
                        AND pg_has_role(r.oid, 'repricer_service', 'MEMBER')))) AS sessions,
            (SELECT count(*) FROM repricer.store_calls
                WHERE settled_at IS NULL AND state = 'sending' AND lease_until > to_timestamp(repricer.rate_clock() / 1000000.0)) AS calls
        """
}
