import ServiceKit

/// An error of the database or of the connection to it.
///
/// `description` is safe to log and to show: it never holds a statement's values or a connection
/// string. `debugDescription` adds the server's detail and hint, which may quote row values.
package struct PostgresError: Error, Sendable, Equatable {
    package enum Code: String, Sendable {
        /// The connection string cannot be parsed.
        case badConnectionString
        /// No connection could be made; nothing was executed.
        case cannotConnect
        /// The connection broke; a statement outside a transaction may or may not have taken effect.
        case connectionLost
        /// The connection broke while committing: the transaction may or may not be durable.
        case commitOutcomeUnknown
        /// The server answered with an error; see `sqlState`.
        case server
        /// `close()` was called before.
        case closed
        /// A transaction was begun inside another one, or the body ended it by itself.
        case transactionMisused
        /// A statement failed inside the body, which then returned as if nothing had happened.
        case transactionAborted
        /// PostgreSQL text cannot hold U+0000; nothing was sent.
        case nulInText
        /// A bound value cannot be represented (time out of range, malformed UUID); nothing was sent.
        case unrepresentableValue
        /// More parameters, statements or bytes than the protocol or our limits allow.
        case tooLarge
        /// The statement kind does not fit the call, such as COPY by `query`.
        case wrongCall
        /// The result has no such column.
        case missingColumn
        /// The column is NULL where a value was required.
        case unexpectedNull
        /// The column's text is not of the requested type.
        case undecodableColumn
        /// `one()` on a result with no row or several.
        case unexpectedRowCount
        /// No connection became free in time.
        case poolTimedOut
        /// The pool was closed.
        case poolClosed
    }

    /// The step of a transaction that failed, when it was not the body.
    package enum Phase: String, Sendable {
        case begin, rollback, commit
    }

    package let code: Code
    /// Safe text: what failed, without values.
    package let summary: String
    package var sqlState: SQLState?
    /// The server's primary message. It may quote values when `sqlState` is a data exception.
    package var message: String?
    package var detail: String?
    package var hint: String?
    package var constraint: String?
    package var table: String?
    package var column: String?
    /// The `-- name:` of the statement, or its first words.
    package var statement: String?
    package var phase: Phase?
    /// The complete text of the error that caused the rollback, when the rollback failed too.
    package var underlying: String?
    /// Whether the pool has already logged this outage of the database.
    package var isTold = false

    package init(_ code: Code, _ summary: String) {
        self.code = code
        self.summary = summary
    }

    /// Whether the connection is unusable. The work may be retried on a new one.
    package var isConnectionLoss: Bool {
        switch code {
        case .cannotConnect, .connectionLost, .commitOutcomeUnknown:
            true
        case .server:
            sqlState?.isConnectionException ?? false
        case .badConnectionString, .closed, .transactionMisused, .transactionAborted, .nulInText,
            .unrepresentableValue, .tooLarge, .wrongCall, .missingColumn, .unexpectedNull,
            .undecodableColumn, .unexpectedRowCount, .poolTimedOut, .poolClosed:
            false
        }
    }
}

extension PostgresError: ToldError {
    /// Whether the database cannot be reached, or no connection became free in time.
    var isOutage: Bool { isConnectionLoss || code == .poolTimedOut }
}

extension PostgresError: CustomStringConvertible, CustomDebugStringConvertible {
    package var description: String {
        var text = "postgres.\(code.rawValue): \(summary)"
        if let sqlState {
            text += " [\(sqlState)]"
            // Data exceptions quote the offending value in the primary message.
            if let message, !sqlState.isDataException { text += " \(message)" }
        }
        if let constraint { text += " (constraint \(constraint))" }
        if let phase { text += " (at \(phase.rawValue))" }
        if let statement { text += " in \(statement)" }
        return text
    }

    package var debugDescription: String {
        var text = description
        let extras = [
            ("message", message), ("detail", detail), ("hint", hint), ("table", table),
            ("column", column), ("underlying", underlying),
        ]
        for (name, value) in extras {
            if let value { text += "; \(name): \(value)" }
        }
        return text
    }
}
