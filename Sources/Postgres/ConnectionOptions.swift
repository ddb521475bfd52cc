/// What a session is set to at connect.
package struct ConnectionOptions: Sendable {
    /// The server ends a statement that takes longer; nil leaves the server's setting.
    package var statementTimeout: Duration?
    /// The server ends a statement that waits longer for a lock.
    package var lockTimeout: Duration?
    /// The server ends a session that holds a transaction open and does nothing.
    package var idleInTransactionTimeout: Duration?
    /// Refuses every write: for reports.
    package var isReadOnly: Bool
    /// How long a connection attempt may take, in whole seconds, unless the connection string or
    /// `PGCONNECT_TIMEOUT` says otherwise.
    package var connectTimeout: Duration

    package init(
        statementTimeout: Duration? = nil, lockTimeout: Duration? = nil,
        idleInTransactionTimeout: Duration? = nil, isReadOnly: Bool = false,
        connectTimeout: Duration = .seconds(10)
    ) {
        self.statementTimeout = statementTimeout
        self.lockTimeout = lockTimeout
        self.idleInTransactionTimeout = idleInTransactionTimeout
        self.isReadOnly = isReadOnly
        self.connectTimeout = connectTimeout
    }

    /// The session's settings. UTC and ISO are what the decoding of instants relies on.
    var script: String {
        var lines = [
            "SET TimeZone = 'UTC'", "SET DateStyle = 'ISO, YMD'", "SET bytea_output = 'hex'",
            "SET IntervalStyle = 'iso_8601'", "SET extra_float_digits = 1",
        ]
        let timeouts = [
            ("statement_timeout", statementTimeout), ("lock_timeout", lockTimeout),
            ("idle_in_transaction_session_timeout", idleInTransactionTimeout),
        ]
        for (name, duration) in timeouts {
            if let duration { lines.append("SET \(name) = \(duration.wholeMilliseconds)") }
        }
        if isReadOnly { lines.append("SET default_transaction_read_only = on") }
        return lines.joined(separator: "; ")
    }
}

extension Duration {
    /// Rounded down, at least 1, at most what PostgreSQL accepts.
    var wholeMilliseconds: Int32 {
        let (seconds, attoseconds) = components
        let milliseconds = Double(seconds) * 1000 + Double(attoseconds) / 1e15
        return milliseconds >= Double(Int32.max) ? Int32.max : max(1, Int32(milliseconds))
    }
}
