/// One statement of a pipeline, ready to be sent.
struct PipelineStep {
    /// The statement's part in a transaction, which decides what its error means.
    enum Role {
        /// Opens the transaction: `BEGIN`, and the settings that hold for it alone.
        case opening
        /// A statement of a transaction's body whose rows nobody reads.
        case unread
        /// A statement whose rows go to the caller.
        case asked
        /// The `COMMIT`.
        case commit
    }

    let role: Role
    let key: StatementCache.Key
    let parameters: Parameters

    /// Throws the error of a value that cannot be sent; nothing has been sent then.
    init(_ sql: SQL, _ role: Role) throws(PostgresError) {
        key = StatementCache.Key(sql)
        parameters = try Parameters(sql.bindings, statement: sql.name)
        self.role = role
    }

    /// Whether preparing it is worthwhile: opening and closing a transaction takes no planning.
    var isPrepared: Bool {
        switch role {
        case .unread, .asked: true
        case .opening, .commit: false
        }
    }
}

/// The first error of a pipeline, and the step that it answers. Where the connection broke, that is the first step
/// without an answer: the server may have executed it and the steps after it.
struct PipelineFailure: Error {
    let error: PostgresError
    let role: PipelineStep.Role
}
