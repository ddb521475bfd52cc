import CLibPQ

extension PostgresConnection {
    /// Runs `COPY … FROM STDIN` with the chunks that `next` gives until nil; returns the rows
    /// stored.
    ///
    /// Chunks may end anywhere. When `next` throws, nothing is stored and its error is thrown on.
    /// COPY takes no bound values: `wrongCall`. `COPYText` formats rows.
    package func copyIn(_ sql: SQL, _ next: () throws -> [UInt8]?) throws -> Int {
        let handle = try startCopy(sql, expecting: PGRES_COPY_IN)
        do {
            while let chunk = try next() {
                let sent = chunk.withUnsafeBytes { bytes in
                    PQputCopyData(
                        handle.pointer, bytes.baseAddress?.assumingMemoryBound(to: CChar.self),
                        Int32(clamping: bytes.count))
                }
                guard sent == 1 else { break }
            }
        } catch {
            PQputCopyEnd(handle.pointer, "the sender gave up")
            drain(handle)
            throw error
        }
        // A failed put shows its reason in the result, as a failed end does.
        PQputCopyEnd(handle.pointer, nil)
        return try finishCopy(handle, statement: sql.name)
    }

    /// Runs `COPY … TO STDOUT`; `chunk` gets one row at a time in the statement's format.
    ///
    /// When `chunk` throws, the server is told to stop and the error is thrown on. Returns the rows.
    @discardableResult
    package func copyOut(_ sql: SQL, _ chunk: ([UInt8]) throws -> Void) throws -> Int {
        let handle = try startCopy(sql, expecting: PGRES_COPY_OUT)
        while true {
            var buffer: UnsafeMutablePointer<CChar>?
            let length = PQgetCopyData(handle.pointer, &buffer, 0)
            defer { PQfreemem(buffer) }
            guard length > 0, let buffer else { break }
            do {
                let raw = UnsafeRawBufferPointer(start: buffer, count: Int(length))
                try chunk(Array(raw))
            } catch {
                cancelRunning(handle)
                abandonCopy(handle, PGRES_COPY_OUT)
                throw error
            }
        }
        return try finishCopy(handle, statement: sql.name)
    }

    private func startCopy(
        _ sql: SQL, expecting status: ExecStatusType
    ) throws(PostgresError) -> ConnectionHandle {
        guard sql.bindings.isEmpty else {
            throw PostgresError(.wrongCall, "COPY takes no bound values")
        }
        if let body, !body.isSent { _ = try converse([]) }
        let handle = try openForTrip()
        guard let result = PQexec(handle.pointer, sql.text) else {
            throw PostgresError(connectionLostWith: handle.message)
        }
        guard PQresultStatus(result) == status else {
            _ = try check(result, handle, statement: sql.name)
            throw PostgresError(.wrongCall, "the statement is not the expected COPY")
        }
        PQclear(result)
        return handle
    }

    private func finishCopy(
        _ handle: ConnectionHandle, statement: String
    ) throws(PostgresError) -> Int {
        let result = PQgetResult(handle.pointer)
        defer { drain(handle) }
        return Rows(try check(result, handle, statement: statement)).affected
    }

    /// Leaves a COPY that nobody wants, so that the connection stays usable.
    func abandonCopy(_ handle: ConnectionHandle, _ status: ExecStatusType) {
        if status == PGRES_COPY_OUT {
            var buffer: UnsafeMutablePointer<CChar>?
            while PQgetCopyData(handle.pointer, &buffer, 0) > 0 {
                PQfreemem(buffer)
                buffer = nil
            }
        } else {
            PQputCopyEnd(handle.pointer, "unexpected COPY")
        }
        drain(handle)
    }

    private func drain(_ handle: ConnectionHandle) {
        while let result = PQgetResult(handle.pointer) { PQclear(result) }
    }

    private func cancelRunning(_ handle: ConnectionHandle) {
        guard let cancel = PQgetCancel(handle.pointer) else { return }
        defer { PQfreeCancel(cancel) }
        // When the request fails the rows are read to their end and thrown away instead.
        var reason = [CChar](repeating: 0, count: 256)
        _ = PQcancel(cancel, &reason, Int32(reason.count))
    }
}
