package import Postgres

/// Which of our roles the database user of a connection has.
package enum MembershipQueries {
    package static func isMember(
        of role: String, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: isMember
            SELECT pg_has_role(current_user, \(role)::name, 'USAGE') AS is_member
            """
        ).one().bool("is_member")
    }
}
