import ServiceKit

/// The settings of a session.
package struct ConnectionOptions: Sendable {
    /// The server ends a statement that takes longer; nil leaves the server's setting.
    package var statementTimeout: Duration?
    /// The server ends a statement that waits longer for a lock.
    package var lockTimeout: Duration?
    /// The server ends a session that holds a transaction open and does nothing.
    package var idleInTransactionTimeout: Duration?
    /// Whether every write is refused, as reports want it.
    package var isReadOnly: Bool
    /// How long an attempt to connect may take for each host, in whole seconds, unless the connection string or
    /// `PGCONNECT_TIMEOUT` says otherwise.
    package var connectTimeout: Duration

    package init(
        statementTimeout: Duration? = nil, lockTimeout: Duration? = nil,
        idleInTransactionTimeout: Duration? = nil, isReadOnly: Bool = false,
        connectTimeout: Duration = .seconds(4)
    ) {
        self.statementTimeout = statementTimeout
        self.lockTimeout = lockTimeout
        self.idleInTransactionTimeout = idleInTransactionTimeout
        self.isReadOnly = isReadOnly
        self.connectTimeout = connectTimeout
    }

    /// Our statements touch few rows each. Where the planner expects many, because a table that hardly changes has no
    /// statistics, compiling a statement takes about a hundred times as long as running it.
    private static let jitOff = "SET jit = off"

    /// The statements that set the session. The decoding of instants relies on UTC and ISO.
    var script: String {
        var lines = [
            "SET TimeZone = 'UTC'", "SET DateStyle = 'ISO, YMD'", "SET bytea_output = 'hex'",
            "SET IntervalStyle = 'iso_8601'", "SET extra_float_digits = 1", Self.jitOff,
        ]
        lines += limits.map { "SET \($0)" }
        return lines.joined(separator: "; ")
    }

    /// The two settings that PgBouncer keeps for a client across server sessions.
    static let pooledScript = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'"

    /// The settings for one transaction, for use through a pooler, where none can be set for longer.
    var localScript: String { localStatements.joined(separator: "; ") }

    /// The same settings, one by one.
    var localStatements: [String] {
        let lines = [
            "SET LOCAL TimeZone = 'UTC'", "SET LOCAL DateStyle = 'ISO, YMD'",
            "SET LOCAL bytea_output = 'hex'", "SET LOCAL extra_float_digits = 1",
            "SET LOCAL jit = off",
        ]
        // A default of read-only would hold only from the next transaction on.
        let readOnly = isReadOnly ? ["SET LOCAL transaction_read_only = on"] : []
        return lines + timeouts.map { "SET LOCAL \($0)" } + readOnly
    }

    /// Whether any limit is set that also affects a single statement.
    var hasLimits: Bool { isReadOnly || statementTimeout != nil || lockTimeout != nil }

    private var limits: [String] {
        timeouts + (isReadOnly ? ["default_transaction_read_only = on"] : [])
    }

    private var timeouts: [String] {
        // 0 would mean no limit, and PostgreSQL accepts 32 bits.
        [
            ("statement_timeout", statementTimeout), ("lock_timeout", lockTimeout),
            ("idle_in_transaction_session_timeout", idleInTransactionTimeout),
        ].compactMap { name, duration in
            duration.map { "\(name) = \(Int32(clamping: max(1, $0.milliseconds)))" }
        }
    }
}
