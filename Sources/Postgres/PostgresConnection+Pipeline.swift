import CLibPQ
import Glibc

extension PostgresConnection {
    /// Sends all statements, then reads all results: one round trip and one sync for the batch.
    ///
    /// Outside a transaction the batch is one by itself: all or none. The first error is thrown and
    /// the rest of the batch is not executed. At most `pipelineStatementsMax` statements; a value
    /// that cannot be sent is refused before anything is sent.
    package func pipeline(_ statements: [SQL]) throws(PostgresError) -> [Rows] {
        guard !statements.isEmpty else { return [] }
        guard statements.count <= Self.pipelineStatementsMax else {
            throw PostgresError(
                .tooLarge, "\(statements.count) statements in a pipeline, at most 100000")
        }
        guard !isPooled || !options.hasLimits || isInTransaction else {
            throw PostgresError(.wrongCall, "through a pooler, limits need a transaction")
        }
        let handle = try open()
        var batch: [PipelineStep] = []
        batch.reserveCapacity(statements.count)
        for sql in statements {
            batch.append(
                PipelineStep(
                    key: .init(text: sql.text, types: sql.bindings.map(\.type)),
                    parameters: try Parameters(sql.bindings, statement: sql.name), name: sql.name))
        }
        guard PQsetnonblocking(handle.pointer, 1) == 0, PQenterPipelineMode(handle.pointer) == 1
        else {
            throw PostgresError(connectionLostWith: handle.message)
        }
        defer {
            // Both fail only on a broken connection, which the caller learns from the error.
            _ = PQexitPipelineMode(handle.pointer)
            _ = PQsetnonblocking(handle.pointer, 0)
            freeEvicted(handle)
        }
        let expected = try send(batch, handle)
        return try receive(expected, handle)
    }

    /// What comes back, in order.
    private enum Expected {
        case prepared(StatementCache.Key, name: String, statement: String)
        case rows(StatementCache.Key, statement: String)
    }

    private func send(
        _ batch: [PipelineStep], _ handle: ConnectionHandle
    ) throws(PostgresError) -> [Expected] {
        let connection = handle.pointer
        var expected: [Expected] = []
        var fresh: [StatementCache.Key: String] = [:]
        for step in batch {
            if isPooled {
                try sendUnnamed(step, handle)
                expected.append(.rows(step.key, statement: step.name))
                continue
            }
            let name: String
            if let known = cache.name(for: step.key) ?? fresh[step.key] {
                name = known
            } else {
                name = cache.makeName()
                fresh[step.key] = name
                let types = step.key.types.map(\.rawValue)
                let sent = PQsendPrepare(
                    connection, name, step.key.text, Int32(types.count), types)
                guard sent == 1 else { throw PostgresError(connectionLostWith: handle.message) }
                expected.append(.prepared(step.key, name: name, statement: step.name))
            }
            let sent = step.parameters.withPointers { count, values, lengths, formats in
                PQsendQueryPrepared(connection, name, count, values, lengths, formats, 0)
            }
            guard sent == 1 else { throw PostgresError(connectionLostWith: handle.message) }
            expected.append(.rows(step.key, statement: step.name))
            try flush(handle)
        }
        guard PQpipelineSync(connection) == 1 else {
            throw PostgresError(connectionLostWith: handle.message)
        }
        try flush(handle)
        return expected
    }

    private func sendUnnamed(
        _ step: PipelineStep, _ handle: ConnectionHandle
    ) throws(PostgresError) {
        let types = step.key.types.map(\.rawValue)
        let sent = step.parameters.withPointers { count, values, lengths, formats in
            PQsendQueryParams(
                handle.pointer, step.key.text, count, types, values, lengths, formats, 0)
        }
        guard sent == 1 else { throw PostgresError(connectionLostWith: handle.message) }
        try flush(handle)
    }

    /// Writes what libpq holds back. While the socket is full it also reads: the server stops
    /// reading us when nobody reads its results, and both sides would wait for ever.
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
    ) throws(PostgresError) -> [Rows] {
        var results: [Rows] = []
        var failure: PostgresError?
        for item in expected {
            let statement: String
            switch item {
            case .prepared(_, _, let name), .rows(_, let name): statement = name
            }
            guard let result = PQgetResult(handle.pointer) else {
                throw failure ?? PostgresError(connectionLostWith: handle.message)
            }
            if PQresultStatus(result) == PGRES_PIPELINE_ABORTED {
                PQclear(result)
            } else {
                do throws(PostgresError) {
                    let owned = try check(result, handle, statement: statement)
                    switch item {
                    case .prepared(let key, let name, _): cache.insert(key, name: name)
                    case .rows: results.append(Rows(owned))
                    }
                } catch {
                    if case .rows(let key, _) = item { cache.forget(key, ifStaleBy: error) }
                    failure = failure ?? error
                }
            }
            // Each statement's results end with a nil, the sync's does not.
            guard handle.isUp else {
                throw failure ?? PostgresError(connectionLostWith: handle.message)
            }
            while let extra = PQgetResult(handle.pointer) { PQclear(extra) }
        }
        // The server commits what stands outside a transaction at the sync: without its word nothing is stored yet.
        guard let sync = PQgetResult(handle.pointer) else {
            throw failure ?? PostgresError(connectionLostWith: handle.message)
        }
        guard PQresultStatus(sync) == PGRES_PIPELINE_SYNC else {
            do throws(PostgresError) {
                _ = try check(sync, handle, statement: "sync")
            } catch {
                failure = failure ?? error
            }
            // What else it has to say is of no use.
            close()
            throw failure ?? PostgresError(connectionLostWith: handle.message)
        }
        PQclear(sync)
        if let failure { throw failure }
        return results
    }
}

/// One statement of a pipeline, ready to be sent.
private struct PipelineStep {
    let key: StatementCache.Key
    let parameters: Parameters
    let name: String
}
