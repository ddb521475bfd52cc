import CLibPQ

/// How much a transaction sees of others.
package enum Isolation: String, Sendable {
    case readCommitted = "READ COMMITTED"
    case repeatableRead = "REPEATABLE READ"
    case serializable = "SERIALIZABLE"
}

extension PostgresConnection {
    /// Runs `body` in a transaction: committed when it returns, rolled back when it throws.
    ///
    /// Errors of `BEGIN` and `COMMIT` are `PostgresError`s with their `phase`; a connection that
    /// breaks at `COMMIT` is `commitOutcomeUnknown`. The body's error is thrown on as it is; when the
    /// rollback fails as well and the connection was not lost already, the rollback's error is
    /// thrown with the body's as `underlying`, and the connection is closed. A body that swallows
    /// a failed statement gets `transactionAborted`. Transactions do not nest: `transactionMisused`.
    package func transaction<T: Sendable>(
        _ isolation: Isolation = .readCommitted,
        _ body: @Sendable (isolated PostgresConnection) async throws -> T
    ) async throws -> T {
        try begin(isolation)
        let value: T
        do {
            value = try await body(self)
        } catch {
            try rollBack(because: error)
            throw error
        }
        try commit()
        return value
    }

    private func begin(_ isolation: Isolation) throws(PostgresError) {
        guard !isInTransactionBody, !isInTransaction else {
            throw PostgresError(.transactionMisused, "a transaction is open already")
        }
        try freeEvicted(open())
        do throws(PostgresError) {
            let begin = "BEGIN ISOLATION LEVEL \(isolation.rawValue)"
            try script(isPooled ? "\(begin); \(options.localScript)" : begin)
        } catch {
            throw error.at(.begin)
        }
        isInTransactionBody = true
    }

    private func rollBack(because cause: any Error) throws(PostgresError) {
        isInTransactionBody = false
        guard isInTransaction else { return }
        do throws(PostgresError) {
            try script("ROLLBACK")
        } catch {
            close()
            if let cause = cause as? PostgresError, cause.isConnectionLoss { return }
            var error = error.at(.rollback)
            error.underlying = String(reflecting: cause)
            throw error
        }
    }

    private func commit() throws(PostgresError) {
        isInTransactionBody = false
        let handle = try open()
        let status = PQtransactionStatus(handle.pointer)
        if status == PQTRANS_INERROR {
            // COMMIT would answer ROLLBACK without an error, and the work would be lost silently.
            try rollBackSwallowed()
            throw PostgresError(
                .transactionAborted, "a statement failed inside the transaction; nothing was stored"
            )
        }
        guard status == PQTRANS_INTRANS else {
            guard handle.isUp else {
                throw PostgresError(connectionLostWith: handle.message).at(.commit)
            }
            throw PostgresError(.transactionMisused, "the body ended the transaction by itself")
        }
        do throws(PostgresError) {
            try script("COMMIT")
        } catch {
            throw outcome(ofCommit: error)
        }
    }

    private func rollBackSwallowed() throws(PostgresError) {
        do throws(PostgresError) {
            try script("ROLLBACK")
        } catch {
            close()
            throw error.at(.rollback)
        }
    }

    /// A refusal by the server is certain; a broken connection may hide a success.
    private func outcome(ofCommit error: PostgresError) -> PostgresError {
        guard error.code == .connectionLost else { return error.at(.commit) }
        var unknown = PostgresError(
            .commitOutcomeUnknown, "the connection broke while committing; the outcome is unknown")
        unknown.message = error.message
        return unknown.at(.commit)
    }
}

extension PostgresError {
    func at(_ phase: Phase) -> PostgresError {
        var error = self
        error.phase = phase
        return error
    }
}
