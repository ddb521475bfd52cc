import Postgres

extension CommandFailure {
    /// The beginnings of libpq's messages for a login that pg_hba.conf or a password refuses.
    private static let loginFaults = [
        "Peer authentication failed", "Ident authentication failed",
        "password authentication failed", "no password supplied",
    ]

    static let writableRemedy =
        "it is a standby, no primary any more, or set to default_transaction_read_only; name the primary in "
        + "REPRICER_DATABASE_URL, or several hosts and target_session_attrs=read-write"

    /// What a database error means to the person at the terminal.
    init(database error: PostgresError) {
        switch error.code {
        case .server: self.init(server: error)
        case .cannotConnect where error.saidByLibpq.contains("permission denied for database"):
            self.init(
                .approvalNeededOrRefused,
                "\(error.saidByLibpq); the database user needs GRANT repricer_pricing, repricer_service or "
                    + "repricer_finance, and these CONNECT on the database, which a restored dump has lost; "
                    + "`migrate` is for the database's owner")
        case .cannotConnect where error.saidByLibpq.hasPrefix("invalid "):
            self.init(
                .failed,
                "REPRICER_DATABASE_URL, or a PG* variable, cannot be used: \(error.saidByLibpq)")
        case .cannotConnect where error.saidByLibpq.hasSuffix(" does not exist"):
            self.init(
                .unavailable,
                "the database cannot be reached: \(error.saidByLibpq); correct REPRICER_DATABASE_URL, or make it: "
                    + "`repricer init DIR` writes the SQL")
        case .cannotConnect where Self.loginFaults.contains(where: error.saidByLibpq.contains):
            self.init(
                .unavailable,
                "the database does not let this user in: \(error.saidByLibpq); over a socket `peer` asks for a system account of "
                    + "the user's name: write USER:PASSWORD@HOST in REPRICER_DATABASE_URL, as `repricer init` does, and set "
                    + "the password with `\\password USER` in psql")
        case .cannotConnect:
            self.init(
                .unavailable,
                "the database cannot be reached: \(error.saidByLibpq); check REPRICER_DATABASE_URL "
                    + "and that PostgreSQL runs")
        case .connectionLost, .poolTimedOut, .poolClosed, .closed:
            self.init(
                .unavailable, "the connection to the database was lost; run the command again")
        case .commitOutcomeUnknown:
            self.init(
                .unavailable,
                "the connection broke during the commit: it may be done or not; the same command "
                    + "again is safe")
        case .badConnectionString:
            self.init(
                .failed, "REPRICER_DATABASE_URL is no connection string: \(error.saidByLibpq)")
        case .nulInText, .unrepresentableValue, .tooLarge:
            self.init(.inputRejected, "the database cannot hold a value: \(error.summary)")
        case .transactionMisused, .transactionAborted, .wrongCall, .missingColumn,
            .unexpectedNull, .undecodableColumn, .unexpectedRowCount:
            self.init(.failed, "\(error)")
        }
    }

    private init(server error: PostgresError) {
        let said = error.saidByServer
        let state = error.sqlState ?? SQLState("XX000")
        if error.isConnectionLoss || state.isInsufficientResources {
            self.init(.unavailable, "the database is away: \(said); try again")
        } else if state == .readOnlyTransaction {
            self.init(.unavailable, "the database is read-only: \(Self.writableRemedy)")
        } else if state == .lockNotAvailable, said.contains("due to lock timeout") {
            self.init(
                .conflict,
                "\(said): another session holds what this needs, and this step was not done; it is likely the one "
                    + "with the oldest transaction in pg_stat_activity; try again once that has ended"
            )
        } else if state == .programTooOld {
            self.init(.failed, said)
        } else if state == .insufficientPrivilege
            || error.constraint == "batches_second_pair_of_eyes"
        {
            self.init(.approvalNeededOrRefused, said + Self.grantHint(said))
        } else if error.constraint == "price_changes_one_open" {
            self.init(
                .conflict,
                "somebody else submitted a change of the same item at this moment; submit again to see whose"
            )
        } else if state.isIntegrityConstraintViolation && state != .checkViolation
            || state.isTransactionRetryable || state.classCode == "55"
        {
            self.init(.conflict, said)
        } else if state == .checkViolation || state.isDataException || state.code == "P0002" {
            self.init(.inputRejected, said)
        } else if state == .undefinedTable || state == .undefinedSchema
            || state == .undefinedColumn || state.code == "42883"
        {
            self.init(.failed, "the database lacks the schema: \(said); run `repricer migrate`")
        } else {
            self.init(.failed, "the database refused: \(said)")
        }
    }

    private static func grantHint(_ said: String) -> String {
        said.hasPrefix("permission denied")
            ? "; who submits and decides needs GRANT repricer_pricing, the service repricer_service, and `migrate`, "
                + "`policy set` and `retention` are the owner's"
            : ""
    }
}

extension PostgresError {
    fileprivate var saidByServer: String {
        guard let message else { return "\(self)" }
        return Self.onOneLine(message)
    }

    fileprivate var saidByLibpq: String { Self.onOneLine(message ?? summary) }

    private static func onOneLine(_ text: String) -> String {
        text.split(whereSeparator: \.isNewline)
            .map { harmless($0.drop { $0.isWhitespace }.description) }.joined(separator: "; ")
    }
}
