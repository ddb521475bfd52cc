import CLibPQ

extension PostgresConnection {
    /// Chunks of this size cost least by measurement.
    private static let chunkBytes = 64 * 1024

    /// Runs `COPY … FROM STDIN` with the text of all rows, see `COPYText`; returns the rows stored.
    ///
    /// COPY takes no bound values: `wrongCall`.
    package func copyIn(_ sql: SQL, _ text: [UInt8]) throws(PostgresError) -> Int {
        guard sql.bindings.isEmpty else {
            throw PostgresError(.wrongCall, "COPY takes no bound values")
        }
        if let body, !body.isSent { _ = try converse([]) }
        let handle = try openForTrip()
        guard let started = PQexec(handle.pointer, sql.text) else {
            throw PostgresError(connectionLostWith: handle.message)
        }
        guard PQresultStatus(started) == PGRES_COPY_IN else {
            _ = try check(started, handle, statement: sql.name)
            throw PostgresError(.wrongCall, "the statement is not the expected COPY")
        }
        PQclear(started)
        text.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let chunk = UnsafeRawBufferPointer(rebasing: rest.prefix(Self.chunkBytes))
                let start = chunk.baseAddress?.assumingMemoryBound(to: CChar.self)
                // A failed put shows its reason in the result, as a failed end does.
                guard PQputCopyData(handle.pointer, start, Int32(chunk.count)) == 1 else { return }
                rest = rest.dropFirst(chunk.count)
            }
        }
        PQputCopyEnd(handle.pointer, nil)
        let result = PQgetResult(handle.pointer)
        defer { drain(handle) }
        return Rows(try check(result, handle, statement: sql.name)).affected
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
}
