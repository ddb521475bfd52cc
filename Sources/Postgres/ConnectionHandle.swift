import CLibPQ
import Glibc
import ServiceKit

/// Owns libpq's connection and the thread that runs its blocking calls.
///
/// It is confined to its actor, and so not Sendable on purpose.
final class ConnectionHandle {
    let pointer: OpaquePointer
    private let executor: ThreadExecutor

    init(_ pointer: OpaquePointer, executor: ThreadExecutor) {
        self.pointer = pointer
        self.executor = executor
    }

    deinit {
        PQfinish(pointer)
        executor.shutdown()
    }

    var isUp: Bool { PQstatus(pointer) == CONNECTION_OK }

    var message: String { Self.trimmed(PQerrorMessage(pointer)) }

    static func trimmed(_ text: UnsafePointer<CChar>?) -> String {
        guard let text else { return "" }
        let parts = String(cString: text).split(whereSeparator: \.isNewline)
        return parts.map { $0.drop { $0.isWhitespace } }.joined(separator: "; ")
    }

    /// Waits until the socket is ready. Returns false where it is not ready within `timeout`.
    ///
    /// - Parameter timeout: The limit in milliseconds. With -1 only the server's timeouts end the wait.
    func wait(for events: Int32, timeout: Int32 = -1) -> Bool {
        let socket = PQsocket(pointer)
        guard socket >= 0 else { return true }
        var descriptor = pollfd(fd: socket, events: Int16(truncatingIfNeeded: events), revents: 0)
        while true {
            let ready = poll(&descriptor, 1, timeout)
            if ready < 0, errno == EINTR { continue }
            return ready != 0
        }
    }
}

extension PostgresError {
    /// The error of a failed result, with the fields that the server sent.
    init(result: OpaquePointer, connection: ConnectionHandle, statement: String?) {
        // Swift does not import the PG_DIAG_ macros, which are these letters of the protocol.
        func field(_ letter: Unicode.Scalar) -> String? {
            PQresultErrorField(result, Int32(letter.value)).map { String(cString: $0) }
        }
        guard let state = field("C") else {
            // Without an SQLSTATE libpq made this result itself, and the server did not answer.
            self.init(connectionLostWith: ConnectionHandle.trimmed(PQresultErrorMessage(result)))
            self.statement = statement
            return
        }
        if let severity = field("V"), severity == "FATAL" || severity == "PANIC" {
            // The session ended with these words.
            self.init(connectionLostWith: field("M") ?? "")
            self.statement = statement
            return
        }
        self.init(.server, "the database refused")
        sqlState = SQLState(state)
        message = field("M")
        detail = field("D")
        hint = field("H")
        constraint = field("n")
        table = field("t")
        column = field("c")
        self.statement = statement
    }

    /// Whether the prepared statement cannot be used any more: its table changed, or it was discarded.
    var isStalePlan: Bool {
        sqlState == .invalidStatementName
            || (sqlState == .featureNotSupported && message?.contains("cached plan") == true)
    }

    init(connectionLostWith message: String) {
        self.init(.connectionLost, "the connection to the database broke")
        self.message = message
    }
}
