import CLibPQ

/// The isolation level of a transaction.
package enum Isolation: String, Sendable {
    case readCommitted = "READ COMMITTED"
    case repeatableRead = "REPEATABLE READ"
    case serializable = "SERIALIZABLE"
}

/// What a transaction still has to send while its body runs.
struct TransactionBody {
    /// The opening steps, until they are sent with the first statement.
    var opening: [PipelineStep]
    /// Statements of `sendLater`, in their order.
    var unread: [PipelineStep] = []
    /// The error of a refused `BEGIN`. Nothing may be sent then, because it would run outside a transaction.
    var failure: PostgresError?

    /// Whether the next statement can be sent alone, because nothing is left to send before it.
    var isSent: Bool { opening.isEmpty && unread.isEmpty && failure == nil }
}

extension PostgresConnection {
    /// Runs `body` in a transaction: committed when it returns, rolled back when it throws.
    ///
    /// `BEGIN` is sent with the body's first statement, and the statements of `sendLater` with `COMMIT`. A body without
    /// statements costs no round trip. Errors of `BEGIN` and `COMMIT` are `PostgresError`s with their `phase`, also
    /// where the body swallows the first; a connection that breaks at `COMMIT` is `commitOutcomeUnknown`. The body's
    /// error is thrown on as it is; when the rollback fails as well and the connection was not lost already, the
    /// rollback's error is thrown with the body's as `underlying`, and the connection is closed. A body that swallows a
    /// failed statement gets `transactionAborted`. Transactions do not nest: `transactionMisused`.
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

    /// Queues statements of this transaction whose rows nobody reads. They cost no round trip of their own: they are
    /// sent with `COMMIT` or before the body's next statement, whichever comes first, so that none overtakes another.
    ///
    /// The call that sends them throws their first error: the next statement, or `transaction` after its body. The
    /// error names its statement and has no `phase`, and nothing of the transaction is stored. When the body throws
    /// they are dropped. A value that can't be sent is refused at once; at most `pipelineStatementsMax` wait at a time.
    /// Outside a transaction: `transactionMisused`.
    package func sendLater(_ statements: [SQL]) throws(PostgresError) {
        guard !statements.isEmpty else { return }
        guard var body else {
            throw PostgresError(.transactionMisused, "statements for later need a transaction")
        }
        if let failure = body.failure { throw failure }
        try Self.checkCount(body.unread.count + statements.count)
        let steps = try statements.map { sql throws(PostgresError) in
            try PipelineStep(sql, .unread)
        }
        body.unread += steps
        self.body = body
    }

    private func begin(_ isolation: Isolation) throws(PostgresError) {
        guard body == nil, !isInTransaction else {
            throw PostgresError(.transactionMisused, "a transaction is open already")
        }
        try freeEvicted(open())
        let settings = isPooled ? options.localStatements : []
        let opening = ["BEGIN ISOLATION LEVEL \(isolation.rawValue)"] + settings
        body = TransactionBody(
            opening: try opening.map { text throws(PostgresError) in
                try PipelineStep(SQL(unsafe: text), .opening)
            })
    }

    /// Takes the steps that must be sent before any other.
    func takeUnsent() -> [PipelineStep] {
        guard let body else { return [] }
        self.body = TransactionBody(opening: [], failure: body.failure)
        return body.opening + body.unread
    }

    /// The error to throw. A refused `BEGIN` is remembered until the end of the body.
    func noted(_ failure: PipelineFailure) -> PostgresError {
        switch failure.role {
        case .opening:
            let error = failure.error.at(.begin)
            body?.failure = error
            return error
        case .unread, .asked: return failure.error
        case .commit: return failure.error.at(.commit)
        }
    }

    private func rollBack(because cause: any Error) throws(PostgresError) {
        body = nil
        guard isInTransaction else { return }
        do throws(PostgresError) {
            try command("ROLLBACK")
        } catch {
            close()
            if let cause = cause as? PostgresError, cause.isConnectionLoss { return }
            var error = error.at(.rollback)
            error.underlying = String(reflecting: cause)
            throw error
        }
    }

    private func commit() throws(PostgresError) {
        let ended = body
        body = nil
        if let failure = ended?.failure {
            try rollBack(because: failure)
            throw failure
        }
        let handle = try open()
        let (opening, unread) = (ended?.opening ?? [], ended?.unread ?? [])
        guard opening.isEmpty || !unread.isEmpty else { return }
        let status = PQtransactionStatus(handle.pointer)
        if status == PQTRANS_INERROR {
            // COMMIT would answer ROLLBACK without an error, and the work would be lost silently.
            try rollBack(because: PostgresError.aborted)
            throw PostgresError.aborted
        }
        guard status == (opening.isEmpty ? PQTRANS_INTRANS : PQTRANS_IDLE) else {
            guard handle.isUp else {
                throw PostgresError(connectionLostWith: handle.message).at(.commit)
            }
            throw PostgresError.endedByItself
        }
        guard unread.isEmpty else { return try commit(opening + unread, handle) }
        do throws(PostgresError) {
            try command("COMMIT")
        } catch {
            throw outcome(ofCommit: error)
        }
    }

    /// Sends the unsent steps and `COMMIT` together. After an error the server skips `COMMIT`.
    private func commit(
        _ unsent: [PipelineStep], _ handle: ConnectionHandle
    ) throws(PostgresError) {
        let end = try PipelineStep("COMMIT", .commit)
        do throws(PipelineFailure) {
            _ = try exchange(unsent + [end], handle)
        } catch {
            // Whichever answer is missing, the server may have committed before the connection broke.
            guard !error.error.isConnectionLoss else { throw outcome(ofCommit: error.error) }
            let cause = noted(error)
            try rollBack(because: cause)
            throw cause
        }
    }

    /// The error of a failed `COMMIT`. A refusal by the server is certain, but a broken connection may hide a
    /// success.
    private func outcome(ofCommit error: PostgresError) -> PostgresError {
        guard error.isConnectionLoss else { return error.at(.commit) }
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

    static let endedByItself = PostgresError(
        .transactionMisused, "the body ended the transaction by itself")
    static let aborted = PostgresError(
        .transactionAborted, "a statement failed inside the transaction; nothing was stored")
}
