import CLibPQ
import Glibc

extension PostgresConnection {
    /// Sends all statements, then reads all results: one round trip and one sync for the batch.
    ///
    /// Outside a transaction the batch is a transaction of its own: all or none. The first error is thrown and the rest
    /// of the batch is not executed. At most `pipelineStatementsMax` statements; a value that cannot be sent is refused
    /// before anything is sent.
    package func pipeline(_ statements: [SQL]) throws(PostgresError) -> [Rows] {
        guard !statements.isEmpty else { return [] }
        try Self.checkCount(statements.count)
        let steps = try statements.map { sql throws(PostgresError) in
            try PipelineStep(sql, .asked)
        }
        guard isPooled, options.hasLimits, !isInTransaction, body == nil else {
            return try converse(steps)
        }
        return try pipelineWithLimits(steps)
    }

    /// Starts a pipeline in a task, which ends with its result. A caller may call this while another pipeline runs: the
    /// actor runs the call once that one has ended, so that the server gets the next statements at once, however busy
    /// the caller's threads are.
    package func start(_ statements: [SQL]) -> Task<Void, any Error> {
        Task { _ = try pipeline(statements) }
    }

    /// Through a pooler, limits can only be set for a transaction, so the batch gets one of its own in the same round
    /// trip.
    private func pipelineWithLimits(_ steps: [PipelineStep]) throws(PostgresError) -> [Rows] {
        let opening = try (["BEGIN"] + options.localStatements).map {
            text throws(PostgresError) in try PipelineStep(SQL(unsafe: text), .opening)
        }
        let end = try PipelineStep("COMMIT", .commit)
        let handle = try open()
        do throws(PipelineFailure) {
            return try exchange(opening + steps + [end], handle)
        } catch {
            // The caller gets the first error, and not that of a rollback on a broken connection.
            do throws(PostgresError) {
                if isInTransaction { try command("ROLLBACK") }
            } catch {
                close()
            }
            throw error.error
        }
    }

    static func checkCount(_ count: Int) throws(PostgresError) {
        guard count <= pipelineStatementsMax else {
            throw PostgresError(
                .tooLarge, "\(count) statements in a pipeline, at most \(pipelineStatementsMax)")
        }
    }

    /// Sends the transaction's unsent statements and then the steps, with one sync. Returns the rows of the steps with
    /// the role `asked`.
    func converse(_ steps: [PipelineStep]) throws(PostgresError) -> [Rows] {
        if let failure = body?.failure { throw failure }
        let handle = try open()
        let unsent = takeUnsent()
        guard !unsent.isEmpty || !steps.isEmpty else { return [] }
        do throws(PipelineFailure) {
            return try exchange(unsent + steps, handle)
        } catch {
            throw noted(error)
        }
    }

    /// Sends the steps with one sync, and returns the rows of those with the role `asked`. Closes a connection that can
    /// no longer be used.
    func exchange(
        _ steps: [PipelineStep], _ handle: ConnectionHandle
    ) throws(PipelineFailure) -> [Rows] {
        let first = steps.first?.role ?? .asked
        guard PQsetnonblocking(handle.pointer, 1) == 0, PQenterPipelineMode(handle.pointer) == 1
        else {
            throw PipelineFailure(
                error: PostgresError(connectionLostWith: handle.message), role: first)
        }
        defer {
            // Both fail only on a broken connection, which the caller learns from the error.
            _ = PQexitPipelineMode(handle.pointer)
            _ = PQsetnonblocking(handle.pointer, 0)
            freeEvicted(handle)
        }
        tripCount += 1
        let expected: [Expected]
        do throws(PostgresError) {
            expected = try send(steps, handle)
        } catch {
            // The server has half a batch, and the rest cannot follow.
            close()
            throw PipelineFailure(error: error, role: first)
        }
        return try receive(expected, handle)
    }

    /// The expected results, in order.
    private struct Expected {
        let step: PipelineStep
        /// nil where the statement was sent unnamed.
        let entry: StatementCache.Entry?
        /// Whether it is the answer to the preparation, which has no columns.
        var isPreparing = false
    }

    /// How many bytes libpq may buffer before they are flushed.
    private static let unflushedMax = 32_768

    private func send(
        _ steps: [PipelineStep], _ handle: ConnectionHandle
    ) throws(PostgresError) -> [Expected] {
        let connection = handle.pointer
        var expected: [Expected] = []
        expected.reserveCapacity(steps.count)
        var fresh: [StatementCache.Key: StatementCache.Entry] = [:]
        var unflushed = 0
        for step in steps {
            if isPooled || !step.isPrepared {
                unflushed += try sendUnnamed(step, handle)
                expected.append(Expected(step: step, entry: nil))
            } else {
                let entry: StatementCache.Entry
                if let known = cache.entry(for: step.key) ?? fresh[step.key] {
                    entry = known
                } else {
                    entry = cache.makeEntry()
                    fresh[step.key] = entry
                    unflushed += try sendPreparing(step, entry.name, handle)
                    expected.append(Expected(step: step, entry: entry, isPreparing: true))
                }
                let sent = step.parameters.withPointers { count, values, lengths, formats in
                    PQsendQueryPrepared(
                        connection, entry.name, count, values, lengths, formats, 0)
                }
                guard sent == 1 else { throw PostgresError(connectionLostWith: handle.message) }
                expected.append(Expected(step: step, entry: entry))
            }
            unflushed += step.parameters.byteCount
            if unflushed > Self.unflushedMax {
                try flush(handle)
                unflushed = 0
            }
        }
        guard PQpipelineSync(connection) == 1 else {
            throw PostgresError(connectionLostWith: handle.message)
        }
        try flush(handle)
        return expected
    }

    /// Returns the length of the text.
    private func sendPreparing(
        _ step: PipelineStep, _ name: String, _ handle: ConnectionHandle
    ) throws(PostgresError) -> Int {
        let text = step.key.text
        let types = step.key.types.map(\.rawValue)
        guard PQsendPrepare(handle.pointer, name, text, Int32(types.count), types) == 1 else {
            throw PostgresError(connectionLostWith: handle.message)
        }
        return text.utf8.count
    }

    /// Returns the length of the text.
    private func sendUnnamed(
        _ step: PipelineStep, _ handle: ConnectionHandle
    ) throws(PostgresError) -> Int {
        let text = step.key.text
        let types = step.key.types.map(\.rawValue)
        let sent = step.parameters.withPointers { count, values, lengths, formats in
            PQsendQueryParams(handle.pointer, text, count, types, values, lengths, formats, 0)
        }
        guard sent == 1 else { throw PostgresError(connectionLostWith: handle.message) }
        return text.utf8.count
    }

    /// Flushes libpq's buffer. While the socket is full it also reads: a server whose results nobody reads stops
    /// reading too, and both sides would wait for ever.
    private func flush(_ handle: ConnectionHandle) throws(PostgresError) {
        while true {
            let left = PQflush(handle.pointer)
            if left == 0 { return }
            guard left == 1, handle.wait(for: POLLIN | POLLOUT),
                PQconsumeInput(handle.pointer) == 1
            else { throw PostgresError(connectionLostWith: handle.message) }
        }
    }

    private func receive(
        _ expected: [Expected], _ handle: ConnectionHandle
    ) throws(PipelineFailure) -> [Rows] {
        var results: [Rows] = []
        var failure: PipelineFailure?
        var last = PipelineStep.Role.asked
        for item in expected {
            let step = item.step
            last = step.role
            guard let result = PQgetResult(handle.pointer) else {
                throw failure ?? lost(handle, step.role)
            }
            if PQresultStatus(result) == PGRES_PIPELINE_ABORTED {
                PQclear(result)
            } else {
                do throws(PostgresError) {
                    let columns = item.isPreparing ? nil : item.entry
                    let owned = try answer(result, to: step, of: columns, handle)
                    if item.isPreparing, let entry = item.entry {
                        cache.insert(step.key, entry)
                    } else if step.role == .asked {
                        results.append(Rows(owned))
                    }
                } catch {
                    if !item.isPreparing { cache.forget(step.key, ifStaleBy: error) }
                    failure = failure ?? PipelineFailure(error: error, role: step.role)
                    if isClosed, let failure { throw failure }
                }
            }
            // A nil follows the results of each statement, but not those of the sync.
            guard handle.isUp else { throw failure ?? lost(handle, step.role) }
            while let extra = PQgetResult(handle.pointer) { PQclear(extra) }
        }
        try receiveSync(after: last, failure, handle)
        return results
    }

    /// Reads the answer to the sync, at which the server commits statements outside a transaction. Before that nothing
    /// is stored.
    private func receiveSync(
        after last: PipelineStep.Role, _ failure: PipelineFailure?, _ handle: ConnectionHandle
    ) throws(PipelineFailure) {
        guard let sync = PQgetResult(handle.pointer) else { throw failure ?? lost(handle, last) }
        guard PQresultStatus(sync) == PGRES_PIPELINE_SYNC else {
            var failure = failure
            do throws(PostgresError) {
                _ = try check(sync, handle, statement: "sync")
            } catch {
                failure = failure ?? PipelineFailure(error: error, role: last)
            }
            // Any other answer leaves the connection out of step, so it is closed.
            close()
            throw failure ?? lost(handle, last)
        }
        PQclear(sync)
        if let failure { throw failure }
    }

    private func lost(_ handle: ConnectionHandle, _ role: PipelineStep.Role) -> PipelineFailure {
        PipelineFailure(error: PostgresError(connectionLostWith: handle.message), role: role)
    }

    /// The result, if the step succeeded as it should. Throws otherwise.
    private func answer(
        _ result: OpaquePointer, to step: PipelineStep, of entry: StatementCache.Entry?,
        _ handle: ConnectionHandle
    ) throws(PostgresError) -> ResultHandle {
        let status = PQresultStatus(result)
        guard status != PGRES_COPY_IN && status != PGRES_COPY_OUT && status != PGRES_COPY_BOTH
        else {
            // libpq cannot leave a COPY within a pipeline.
            PQclear(result)
            close()
            throw PostgresError(.wrongCall, "COPY is no statement of this connection")
        }
        let owned = try check(result, handle, statement: step.key.name, of: entry)
        switch step.role {
        case .opening, .asked: break
        case .unread:
            // The body ended its transaction, and later statements would be committed one by one.
            guard !["COMMIT", "ROLLBACK"].contains(owned.tag) else { throw .endedByItself }
        case .commit:
            // To the COMMIT of an aborted transaction the server answers ROLLBACK, without an error.
            guard owned.tag == "COMMIT" else { throw .aborted }
        }
        return owned
    }
}
