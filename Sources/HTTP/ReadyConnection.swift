import Synchronization

/// An open connection that is held for one request, so that the request is sent at its instant. A handshake first would
/// delay it until later requests are sent.
final class ReadyConnection: Sendable {
    /// The connection that is held for the current task's work.
    @TaskLocal static var held: ReadyConnection?

    private let client: ObjectIdentifier
    private let connection: Mutex<ClientConnection?>

    init(_ connection: ClientConnection, of client: HTTPClient) {
        self.client = ObjectIdentifier(client)
        self.connection = Mutex(connection)
    }

    /// Gives the connection to the first request of the same client; nil afterwards.
    func take(for client: HTTPClient) -> ClientConnection? {
        guard ObjectIdentifier(client) == self.client else { return nil }
        return connection.withLock { connection in
            defer { connection = nil }
            return connection
        }
    }
}

extension HTTPClient {
    /// Runs `work` while an open connection is held for its first request. Where no place is free, that request waits
    /// for one like any other.
    package func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T {
        guard let connection = freeConnection() else { return await work() }
        if !connection.isFresh { await open(connection) }
        let ready = ReadyConnection(connection, of: self)
        let value = await ReadyConnection.$held.withValue(ready) { await work() }
        if let unused = ready.take(for: self) { giveBack(unused) }
        return value
    }
}
