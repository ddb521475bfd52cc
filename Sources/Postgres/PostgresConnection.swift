import CLibPQ
import Glibc
import ServiceKit

/// One connection. Its blocking calls run on its own thread, never on Swift's shared pool.
///
/// A call always runs to its end, even when the waiting task is cancelled, so that a cancelled task
/// never leaves a half-read result behind. After a connection loss every call throws; take a new
/// connection.
package actor PostgresConnection {
    /// The most statements in one pipeline.
    package static let pipelineStatementsMax = 100_000

    private let executor: ThreadExecutor
    private var handle: ConnectionHandle?
    var cache = StatementCache()
    /// The transaction whose body runs; nil outside one.
    var body: TransactionBody?
    private(set) var options = ConnectionOptions()
    /// Whether the server refused a write: after a failover it may no longer be the primary. The connection is then not
    /// lent again.
    private var isSpent = false
    /// Whether the connection goes through a pooler such as PgBouncer. The next transaction may then run in another
    /// server session, so nothing is prepared by name and no setting may outlive its transaction.
    package private(set) var isPooled = false

    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.asUnownedSerialExecutor()
    }

    private init(executor: ThreadExecutor) {
        self.executor = executor
    }

    /// Connects by any form of connection string that libpq knows (URI, `key=value`, empty for the
    /// `PG*` variables).
    ///
    /// The session is set to UTF-8, UTC and ISO dates. Throws `badConnectionString` or
    /// `cannotConnect`.
    package static func connect(
        _ conninfo: String, applicationName: String, options: ConnectionOptions = .init()
    ) async throws(PostgresError) -> PostgresConnection {
        let connection = PostgresConnection(executor: ThreadExecutor(name: applicationName))
        try await connection.open(conninfo, applicationName, options)
        return connection
    }

    private func open(
        _ conninfo: String, _ applicationName: String, _ options: ConnectionOptions
    ) throws(PostgresError) {
        try Self.checkSyntax(conninfo)
        // A server that vanished without a word is noticed within 6 s.
        var settings: [(String, String)] = [
            ("keepalives_idle", "3"), ("keepalives_interval", "1"), ("keepalives_count", "3"),
            ("tcp_user_timeout", "6000"),
            ("fallback_application_name", applicationName),
        ]
        if getenv("PGCONNECT_TIMEOUT") == nil {
            let seconds = max(2, options.connectTimeout.milliseconds / 1000)
            settings.append(("connect_timeout", String(seconds)))
        }
        // Settings before dbname are defaults that the connection string may override.
        settings += [("dbname", conninfo), ("client_encoding", "UTF8")]
        let keywords = settings.map { strdup($0.0) }
        let values = settings.map { strdup($0.1) }
        defer { (keywords + values).forEach { free($0) } }
        let constKeywords = keywords.map { UnsafePointer($0) } + [nil]
        let constValues = values.map { UnsafePointer($0) } + [nil]
        guard let pointer = PQconnectdbParams(constKeywords, constValues, 1) else {
            throw PostgresError(.cannotConnect, "libpq has no memory for a connection")
        }
        let handle = ConnectionHandle(pointer, executor: executor)
        guard handle.isUp else {
            var error = PostgresError(.cannotConnect, ConnectFailure.text(handle.message))
            error.message = handle.message
            throw error
        }
        // Notices would go to stderr, and nothing here depends on them.
        _ = PQsetNoticeProcessor(pointer, { _, _ in }, nil)
        self.handle = handle
        self.options = options
        isPooled = try speaksThroughPooler(handle)
        try command(isPooled ? ConnectionOptions.pooledScript : options.script)
    }

    /// Whether a pooler answers: it invents the process id of the session that it presents.
    private func speaksThroughPooler(
        _ handle: ConnectionHandle
    ) throws(PostgresError) -> Bool {
        let question = "SELECT pg_backend_pid() AS pid"
        let result = try check(PQexec(handle.pointer, question), handle, statement: question)
        return try Rows(result).one().int("pid") != Int(PQbackendPID(handle.pointer))
    }

    private static func checkSyntax(_ conninfo: String) throws(PostgresError) {
        guard !conninfo.utf8.contains(0) else { throw .nulInText }
        let isURI = conninfo.hasPrefix("postgresql://") || conninfo.hasPrefix("postgres://")
        guard isURI || conninfo.contains("=") else {
            // libpq would take such a text for a database's name, and its error would quote it, password included.
            guard conninfo.contains(where: { "/:@".contains($0) }) else { return }
            throw PostgresError(
                .badConnectionString,
                "it is neither a URI (postgresql://USER@HOST/DATABASE) nor key=value pairs")
        }
        guard let parsed = PQconninfoParse(conninfo, nil) else {
            // libpq's own message may quote the password, so it is dropped.
            throw PostgresError(
                .badConnectionString, "the connection string is neither a URI nor key=value pairs")
        }
        PQconninfoFree(parsed)
    }

    /// The connection for one round trip, which is counted. Throws where it is lost or closed.
    func openForTrip() throws(PostgresError) -> ConnectionHandle {
        tripCount += 1
        return try open()
    }

    /// The connection. Throws where it is lost or closed.
    func open() throws(PostgresError) -> ConnectionHandle {
        guard let handle else {
            throw PostgresError(.closed, "the connection was closed")
        }
        return handle
    }

    /// Ends the session. Later calls throw `closed`.
    package func close() {
        handle = nil
    }

    /// The server process behind this connection, for `pg_terminate_backend` in tests; 0 when none.
    package var backendProcessID: Int32 { handle.map { PQbackendPID($0.pointer) } ?? 0 }

    /// The number of round trips so far, however many statements each held.
    package internal(set) var tripCount = 0

    /// Whether `close()` was called.
    var isClosed: Bool { handle == nil }

    /// How many statements are prepared now, at most `StatementCache.limit`.
    package var preparedStatementCount: Int { cache.count }

    /// Whether another user can use the session: it is up and outside a transaction, and the server has not closed it.
    package var isReusable: Bool {
        guard isClean, let handle else { return false }
        // Unsolicited data is a notice, or the server's last message before it closes the connection. Opening a new
        // connection is cheaper than finding out which.
        return !handle.wait(for: POLLIN, timeout: 0)
    }

    /// Whether it looks reusable without polling the socket. `isReusable` polls it before the next use.
    private var isClean: Bool {
        guard let handle, handle.isUp, !isSpent else { return false }
        return PQtransactionStatus(handle.pointer) == PQTRANS_IDLE && body == nil
    }

    /// Runs one use of a lent connection, all of it on the connection's thread. Returns nil, with nothing done, where
    /// the connection was idle and can no longer be used.
    func use<T: Sendable>(
        afterIdling: Bool, _ body: @Sendable (isolated PostgresConnection) async throws -> T
    ) async -> (result: Result<T, any Error>, isClean: Bool)? {
        guard !afterIdling || isReusable else { return nil }
        let result: Result<T, any Error>
        do {
            result = .success(try await body(self))
        } catch {
            result = .failure(error)
        }
        return (result, isClean)
    }

    // MARK: Statements

    /// Runs one statement, prepared on first use.
    package func query(_ sql: SQL) throws(PostgresError) -> Rows {
        let step = try PipelineStep(sql, .asked)
        if let body, !body.isSent {
            let rows = try converse([step])
            guard let answer = rows.first else {
                throw PostgresError(.wrongCall, "a statement without an answer")
            }
            return answer
        }
        guard !isPooled else { return try runUnnamed(step) }
        do throws(PostgresError) {
            return try run(step)
        } catch  where error.isStalePlan {
            // The table changed, or the statement was discarded. It is prepared once more.
            cache.remove(step.key)
            guard !isInTransaction else { throw error }
            return try run(step)
        }
    }

    /// Runs one statement; returns how many rows it changed.
    @discardableResult
    package func execute(_ sql: SQL) throws(PostgresError) -> Int {
        try query(sql).affected
    }

    /// Runs several statements from one text, without values, as one implicit transaction unless
    /// the text says otherwise.
    package func script(_ text: String) throws(PostgresError) {
        if let body, !body.isSent { _ = try converse([]) }
        try command(text)
    }

    /// Runs a text like `script`, but does not send the transaction's unsent statements first.
    func command(_ text: String) throws(PostgresError) {
        guard !text.utf8.contains(0) else { throw .nulInText }
        let handle = try openForTrip()
        _ = try check(PQexec(handle.pointer, text), handle, statement: SQL(unsafe: text).name)
    }

    /// Runs a statement through a pooler. There, limits can only be set for a transaction, so a statement with limits
    /// gets one of its own.
    private func runUnnamed(_ step: PipelineStep) throws(PostgresError) -> Rows {
        let handle = try openForTrip()
        let needsTransaction = options.hasLimits && !isInTransaction
        if needsTransaction { try command("BEGIN; \(options.localScript)") }
        do throws(PostgresError) {
            let types = step.key.types.map(\.rawValue)
            let result = step.parameters.withPointers { count, values, lengths, formats in
                PQexecParams(
                    handle.pointer, step.key.text, count, types, values, lengths, formats, 0)
            }
            let rows = Rows(try check(result, handle, statement: step.key.name))
            if needsTransaction { try command("COMMIT") }
            return rows
        } catch {
            if needsTransaction, isInTransaction { try command("ROLLBACK") }
            throw error
        }
    }

    private func run(_ step: PipelineStep) throws(PostgresError) -> Rows {
        let handle = try openForTrip()
        let entry = try prepare(step.key, handle)
        let result = step.parameters.withPointers { count, values, lengths, formats in
            PQexecPrepared(handle.pointer, entry.name, count, values, lengths, formats, 0)
        }
        return Rows(try check(result, handle, statement: step.key.name, of: entry))
    }

    private func prepare(
        _ key: StatementCache.Key, _ handle: ConnectionHandle
    ) throws(PostgresError) -> StatementCache.Entry {
        if let entry = cache.entry(for: key) { return entry }
        tripCount += 1
        let entry = cache.makeEntry()
        let types = key.types.map(\.rawValue)
        let result = PQprepare(handle.pointer, entry.name, key.text, Int32(types.count), types)
        _ = try check(result, handle, statement: key.name)
        cache.insert(key, entry)
        freeEvicted(handle)
        return entry
    }

    /// Tells the server to forget evicted statements once no transaction is open. The server may no longer know a
    /// name (after `DISCARD`), and that refusal would abort the transaction.
    func freeEvicted(_ handle: ConnectionHandle) {
        guard !cache.evicted.isEmpty, PQtransactionStatus(handle.pointer) == PQTRANS_IDLE
        else { return }
        // Each is sent alone, so that an unknown name does not keep the others from being freed.
        for name in cache.takeEvicted() {
            tripCount += 1
            PQclear(PQexec(handle.pointer, "DEALLOCATE \(name)"))
        }
    }

    /// The result, if it is a success. Otherwise clears the result and throws its error. `entry` is the prepared
    /// statement that was executed.
    func check(
        _ result: OpaquePointer?, _ handle: ConnectionHandle,
        statement: @autoclosure () -> String, of entry: StatementCache.Entry? = nil
    ) throws(PostgresError) -> ResultHandle {
        guard let result else {
            var error = PostgresError(connectionLostWith: handle.message)
            error.statement = statement()
            throw error
        }
        let owned = ResultHandle(result, columns: entry?.columns)
        let status = PQresultStatus(result)
        if status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY {
            if let entry, !owned.columns.isEmpty { entry.columns = owned.columns }
            return owned
        }
        if status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH {
            abandonCopy(handle, status)
            throw PostgresError(.wrongCall, "COPY is no statement of this connection")
        }
        let error = PostgresError(result: result, connection: handle, statement: statement())
        if error.sqlState == .readOnlyTransaction { isSpent = true }
        throw error
    }

    var isInTransaction: Bool {
        guard let handle else { return false }
        return PQtransactionStatus(handle.pointer) != PQTRANS_IDLE
    }
}
