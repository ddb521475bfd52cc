import Synchronization

/// An open connection that is held for one request, so that the request leaves at its instant. A handshake in between
/// would let it leave together with those whose turn comes later.
final class ReadyConnection: Sendable {
    /// The one of the work that this task does.
    @TaskLocal static var held: ReadyConnection?

    private let client: ObjectIdentifier
    private let connection: Mutex<ClientConnection?>

    init(_ connection: ClientConnection, of client: HTTPClient) {
        self.client = ObjectIdentifier(client)
        self.connection = Mutex(connection)
    }

    /// Gives it to the first request to the same host; nil afterwards.
    func take(for client: HTTPClient) -> ClientConnection? {
        guard ObjectIdentifier(client) == self.client else { return nil }
        return connection.withLock { connection in
            defer { connection = nil }
            return connection
        }
    }
}

extension HTTPClient {
    /// Does work while an open connection is held for the first request that it sends. Where no place is free, that
    /// request waits for one as others do.
    package func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T {
        guard let connection = freeConnection() else { return await work() }
        if !connection.isFresh { await open(connection) }
        let ready = ReadyConnection(connection, of: self)
        let value = await ReadyConnection.$held.withValue(ready) { await work() }
        if let unused = ready.take(for: self) { giveBack(unused) }
        return value
    }
}
