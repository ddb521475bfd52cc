package import Postgres

/// The logins that may read reports and nothing else. Settings of a role do not reach its members, so each login
/// needs its own.
package enum FinanceLoginQueries {
    package struct Login: Sendable, Hashable {
        package var name: String
        package var hasTimeout: Bool
        package var hasConnectionLimit: Bool
    }

    /// Finance logins of every database of the server, since roles belong to all of them. The owner of the schema and
    /// members of another role are left out.
    package static func logins(
        on connection: isolated PostgresConnection
    ) throws -> [Login] {
        try connection.query(
            """
            -- name: financeLogins
            SELECT r.rolname::text AS name, r.rolconnlimit >= 0 AS has_limit, EXISTS (
                SELECT FROM pg_db_role_setting s
                WHERE s.setrole IN (r.oid, 0)
                    AND s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
                    AND EXISTS (
                        SELECT FROM unnest(s.setconfig) AS c (setting)
                        WHERE c.setting ~ '^statement_timeout=' AND c.setting !~ '=0+[a-z]*$')) AS has_timeout
            FROM pg_roles r
            WHERE r.rolcanlogin AND NOT r.rolsuper AND pg_has_role(r.oid, 'repricer_finance', 'MEMBER')
                AND NOT pg_has_role(r.oid, 'repricer_service', 'MEMBER')
                AND NOT pg_has_role(r.oid, 'repricer_pricing', 'MEMBER')
                AND NOT pg_has_role(r.oid, (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'report'), 'MEMBER')
            ORDER BY r.rolname
            """
        ).map { row in
            try Login(
                name: row.text("name"), hasTimeout: row.bool("has_timeout"),
                hasConnectionLimit: row.bool("has_limit"))
        }
    }
}
