/// The SQL that `init` writes for a person to run. We run none of it.
enum SetupQueries {
    /// More connections than a person and a spreadsheet need, and too few to take them from the service.
    static let readerConnections = 5
    static let readerTimeout = "5min"

    /// What a superuser runs, once.
    static func database(_ plan: SetupPlan) -> String {
        """
        -- Run once, as a superuser of the PostgreSQL cluster. A password stands here as its verifier.
        \\set ON_ERROR_STOP on
        CREATE ROLE \(plan.owner) LOGIN CREATEROLE\(password(plan.owner, plan));
        CREATE DATABASE \(plan.database.name) OWNER \(plan.owner);
        -- The owner sees what other sessions do, and may end one that holds up the service.
        GRANT pg_read_all_stats, pg_signal_backend TO \(plan.owner);

        """
    }

    /// What a superuser, or the owner, runs after `migrate`, which makes the roles that are granted here.
    static func logins(_ plan: SetupPlan) -> String {
        """
        -- Run once, after `repricer migrate`, as a superuser or as \(plan.owner), in \(plan.database.name).
        \\set ON_ERROR_STOP on
        -- The service, and nobody else.
        CREATE ROLE \(plan.service) LOGIN IN ROLE repricer_service\(password(plan.service, plan));
        -- Plans and submits; somebody else approves.
        CREATE ROLE \(plan.analyst) LOGIN IN ROLE repricer_pricing\(password(plan.analyst, plan));
        CREATE ROLE \(plan.approver) LOGIN IN ROLE repricer_pricing\(password(plan.approver, plan));
        -- Reads the reports. A query that somebody forgot must not hold up the service.
        CREATE ROLE \(plan.finance) LOGIN CONNECTION LIMIT \(readerConnections) IN ROLE repricer_finance\(password(plan.finance, plan));
        ALTER ROLE \(plan.finance) SET statement_timeout = '\(readerTimeout)';
        ALTER ROLE \(plan.finance) SET jit = off;
        ALTER ROLE \(plan.finance) SET idle_in_transaction_session_timeout = '\(readerTimeout)';

        """
    }

    private static func password(_ user: String, _ plan: SetupPlan) -> String {
        plan.passwords[user].map { "\n    PASSWORD '\($0.verifier)'" } ?? ""
    }
}
