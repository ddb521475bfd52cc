package import Facts
package import Postgres

/// One verified notification as it is kept: evidence, and where it is understood, work for the projector.
package struct Arrival: Hashable, Sendable {
    package var notificationUUID: String
    /// Its `signedDate` in UTC milliseconds.
    package var signedAtMilliseconds: Int64?
    package var type: String?
    package var subtype: String?
    package var originalTransactionID: String?
    /// Whether the product knows what to do with it. Otherwise it is only evidence.
    package var understood: Bool
    /// Whether the projector has something to fold. It then goes to the inbox, if its subscription is known.
    package var isWork: Bool
    /// The parts that the product does not know, each as `kind:name` without line breaks.
    package var unknown: [String]
    /// What the App Store signed, to the byte.
    package var evidence: Evidence

    package init(
        notificationUUID: String, signedAtMilliseconds: Int64? = nil, type: String? = nil,
        subtype: String? = nil, originalTransactionID: String? = nil, understood: Bool,
        isWork: Bool? = nil, unknown: [String] = [], evidence: Evidence
    ) {
        self.notificationUUID = notificationUUID
        self.signedAtMilliseconds = signedAtMilliseconds
        self.type = type
        self.subtype = subtype
        self.originalTransactionID = originalTransactionID
        self.understood = understood
        self.isWork = isWork ?? understood
        self.unknown = unknown
        self.evidence = evidence
    }
}

/// Why arrivals were not stored. None of them is stored then, unless only the answer was lost, so it is always safe to
/// store the same arrivals again.
package enum ArrivalError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The database cannot be reached, is full or read-only, or denies access. A later try may succeed.
    case unavailable(String)
    /// The server refused the batch for a reason that may lie in one arrival, or in a race with others (a deadlock,
    /// an internal error). Each arrival by itself may succeed.
    case disturbed(String)
    /// PostgreSQL cannot store a value of some arrival, and would refuse the same arrivals again.
    case refused(String)
    /// The database has been migrated for newer programs. The text says which.
    case outdated(String)

    package var description: String {
        switch self {
        case .unavailable(let why), .disturbed(let why): "not stored, try again later: \(why)"
        case .refused(let why): "cannot be stored: \(why)"
        case .outdated(let why): why
        }
    }
}

/// Stores notifications, each once.
package struct NotificationStore: Sendable {
    /// The most arrivals of one call: about 300 KB of payloads of usual size, packed.
    package static let batchMax = 100

    /// How often a batch is tried when partitions change meanwhile.
    private static let attemptsMax = 4

    private let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Why no arrivals can be stored; nil where they can: the database answers, takes writes, and has a schema that
    /// this program can use.
    package func obstacle() async -> String? {
        do {
            let (schema, isClosed) = try await pool.withConnection {
                try await (schemaState($0), isReadOnly($0))
            }
            return isClosed ? "the database is read-only" : schema.obstacle()
        } catch {
            // Anyone who can reach the port may read this text, so it names neither host nor user. The log names both.
            return "the database is away: \((error as? PostgresError)?.description ?? "\(error)")"
        }
    }

    /// Stores the arrivals in one transaction and one round trip. Returns for each, in their order, whether it was
    /// new.
    ///
    /// `receivedAt` is UTC milliseconds. When it returns, everything is durable.
    package func storeArrivals(
        _ arrivals: [Arrival], receivedAt: Int64
    ) async throws(ArrivalError) -> [Bool] {
        guard !arrivals.isEmpty else { return [] }
        let batch = ArrivalBatch(arrivals)
        let statements = batch.statements(receivedAt: receivedAt)
        var attempt = 1
        while true {
            do {
                return try await store(batch, statements)
            } catch let error as PostgresError
                where error.isAboutPartition && attempt < Self.attemptsMax
            {
                attempt += 1
            } catch {
                throw arrivalError(error)
            }
        }
    }

    private func store(_ batch: ArrivalBatch, _ statements: [SQL]) async throws -> [Bool] {
        let results = try await pool.withConnection { connection in
            try await connection.pipeline(statements)
        }
        guard let ids = results.last else { throw ArrivalError.unavailable("no answer") }
        return try batch.isNew(ids)
    }
}

extension PostgresError {
    /// Whether the partition of the row's month was made while the statement was about to write to the default
    /// partition. The same statement succeeds next time. It cannot be one of our checks, because those have names.
    fileprivate var isAboutPartition: Bool { sqlState == .checkViolation && constraint == nil }
}

private func arrivalError(_ error: any Error) -> ArrivalError {
    if let error = error as? ArrivalError { return error }
    guard let error = error as? PostgresError else { return .unavailable("\(error)") }
    if error.isAboutPartition { return .unavailable(error.description) }
    if error.sqlState == .programTooOld { return .outdated(error.message ?? error.description) }
    if error.isAboutData { return .refused(error.description) }
    // Class 40 is a deadlock and its like. Class XX is an internal error, such as a damaged page.
    switch error.sqlState?.classCode {
    case "40", "XX": return .disturbed(reason(error))
    case nil, .some: return .unavailable(reason(error))
    }
}

/// The reason in words. For a failed connection, such as a wrong host or a refused password, it is libpq's message,
/// which names host and user but never the password.
private func reason(_ error: PostgresError) -> String {
    switch error.code {
    case .cannotConnect, .connectionLost:
        [error.description, error.message].compactMap { $0 }
            .filter { !$0.isEmpty }.joined(separator: ": ")
    case .badConnectionString, .commitOutcomeUnknown, .server, .closed, .transactionMisused,
        .transactionAborted, .nulInText, .unrepresentableValue, .tooLarge, .wrongCall,
        .missingColumn,
        .unexpectedNull, .undecodableColumn, .unexpectedRowCount, .poolTimedOut, .poolClosed:
        error.description
    }
}
