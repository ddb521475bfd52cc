/// Why no connection could be made, in words that are safe to log.
///
/// libpq's message names hosts, users and databases, and may quote parts of the connection string. A log line and
/// `/readyz` say only which of the known causes it is.
enum ConnectFailure {
    private static let causes = [
        "Connection refused", "timeout expired", "could not translate host name",
        "No route to host", "Network is unreachable", "No such file or directory",
        "server closed the connection unexpectedly",
        "too many clients already", "remaining connection slots are reserved",
        "too many connections for role", "too many connections for database",
        "the database system is starting up", "the database system is shutting down",
        "the database system is in recovery mode", "not yet accepting connections",
        "is not currently accepting connections", "password authentication failed",
        "Peer authentication failed", "no password supplied", "no pg_hba.conf entry",
        "permission denied for database", "is not permitted to log in", "does not exist",
        "session is read-only", "server does not support SSL", "certificate verify failed",
        "out of memory",
    ]

    /// The causes that libpq tells, one for each host that it tried; empty where none is known.
    static func text(_ message: String?) -> String {
        guard let message else { return "cannot connect to the database" }
        let found = causes.filter { message.contains($0) }
        return "cannot connect to the database" + (found.isEmpty ? "" : ": ")
            + found.joined(separator: ", ")
    }
}
