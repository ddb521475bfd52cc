import Postgres

/// The statements of the migrator. Only its owner writes this table; everybody who may use the
/// schema may read it, since every program compares the version at start.
enum SchemaQueries {
    static let tablePresence: SQL = """
        -- name: migrationTablePresence
        SELECT to_regclass('repricer.schema_migrations') IS NOT NULL AS is_present
        """

    static let version: SQL = """
        -- name: schemaVersion
        SELECT coalesce(max(version), 0) AS version FROM repricer.schema_migrations
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
        SELECT version, name, checksum, applied_at
        FROM repricer.schema_migrations
        ORDER BY version
        """

    /// Whether finance's schema is there and open to this user.
    static let reportsAreOpen: SQL = """
        -- name: reportsAreOpen
        SELECT coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace
            WHERE nspname = 'report'), false) AS are_open
        """

    /// What `migrate` needs beside the files: each right that is missing, and the statement by which a superuser gives it.
    /// The roles are made from the first file on; what comes later needs no right to.
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
        SELECT format('ownership of the schema %I, which %I made', n.nspname, owner.rolname),
            format('GRANT %I TO %I', owner.rolname, current_user)
        FROM pg_namespace n JOIN pg_roles owner ON owner.oid = n.nspowner
        WHERE n.nspname IN ('repricer', 'report') AND NOT pg_has_role(n.nspowner, 'USAGE')
        """
    }

    /// Held until the transaction ends. The number only has to differ from other users of the
    /// database's advisory locks.
    static let lock: SQL = """
        -- name: lockMigrations
        SELECT pg_advisory_xact_lock(7265707269636572)
        """

    static let createTable = """
        CREATE SCHEMA IF NOT EXISTS repricer;
        CREATE TABLE IF NOT EXISTS repricer.schema_migrations (
            version integer NOT NULL,
            name text NOT NULL,
            checksum text NOT NULL,
            applied_at timestamptz NOT NULL,
            CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
        );
        COMMENT ON TABLE repricer.schema_migrations IS
            'Which files of Migrations/ were applied, with the SHA-256 of their text.';
        GRANT SELECT ON repricer.schema_migrations TO PUBLIC;
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
        INSERT INTO repricer.schema_migrations (version, name, checksum, applied_at)
        VALUES (\(migration.version), \(migration.name), \(checksum), \(timestamp: instant))
        """
    }
}
