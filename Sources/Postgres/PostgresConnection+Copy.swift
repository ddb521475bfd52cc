import CLibPQ

extension PostgresConnection {
    /// Ends a COPY that the caller did not expect, so that the connection stays usable.
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
