package import Postgres

/// One verified notification, as it is kept: evidence, and work for the projector where it is
/// understood.
package struct Arrival: Hashable, Sendable {
    package var notificationUUID: String
    /// `signedDate`, UTC milliseconds.
    package var signedAtMilliseconds: Int64?
    package var type: String?
    package var subtype: String?
    package var originalTransactionID: String?
    /// Whether the product knows what to do with it; if not, it is evidence only.
    package var understood: Bool
    /// Whether the projector has something to fold: it goes to the inbox, if its subscription is
    /// known.
    package var isWork: Bool
    /// To the byte, as the App Store signed it.
    package var signedPayload: String

    package init(
        notificationUUID: String, signedAtMilliseconds: Int64? = nil, type: String? = nil,
        subtype: String? = nil, originalTransactionID: String? = nil, understood: Bool,
        isWork: Bool? = nil, signedPayload: String
    ) {
        self.notificationUUID = notificationUUID
        self.signedAtMilliseconds = signedAtMilliseconds
        self.type = type
        self.subtype = subtype
        self.originalTransactionID = originalTransactionID
        self.understood = understood
        self.isWork = isWork ?? understood
        self.signedPayload = signedPayload
    }
}

/// Why arrivals were not stored. Nothing of the call is kept then, unless the answer itself was
/// lost: storing the same arrivals again is always safe.
package enum ArrivalError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The database is away, full, read-only or closed to us: try again later.
    case unavailable(String)
    /// PostgreSQL cannot hold a value of some arrival: the same arrivals will be refused again.
    case refused(String)

    package var description: String {
        switch self {
        case .unavailable(let why): "not stored, try again later: \(why)"
        case .refused(let why): "cannot be stored: \(why)"
        }
    }
}

/// Keeps notifications, each once.
package struct NotificationStore: Sendable {
    /// Most arrivals of one call: about 2 MB of real-sized payloads.
    package static let batchMax = 100

    private let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// nil when arrivals can be stored: the database answers and has the schema of this program;
    /// else the reason.
    package func obstacle() async -> String? {
        do {
            let version = try await pool.withConnection { try await schemaVersion($0) }
            guard version != expectedSchemaVersion else { return nil }
            return
                "the schema is at version \(version), this program needs \(expectedSchemaVersion)"
        } catch {
            return "the database is away: \(error)"
        }
    }

    /// Stores the arrivals in one transaction and one round trip; true where an arrival was new, in
    /// their order.
    ///
    /// `receivedAt` is UTC milliseconds. When it returns, everything is durable.
    package func storeArrivals(
        _ arrivals: [Arrival], receivedAt: Int64
    ) async throws(ArrivalError) -> [Bool] {
        guard !arrivals.isEmpty else { return [] }
        // One order for every writer: two batches with the same ids wait for each other, never in a
        // circle.
        let order = arrivals.indices.sorted {
            (arrivals[$0].notificationUUID, $0) < (arrivals[$1].notificationUUID, $1)
        }
        let statements = order.map { storeArrival(arrivals[$0], receivedAt: receivedAt) }
        do {
            let results = try await pool.withConnection { connection in
                try await connection.pipeline(statements)
            }
            var isNew = Array(repeating: false, count: arrivals.count)
            for (index, rows) in zip(order, results) { isNew[index] = !rows.isEmpty }
            return isNew
        } catch let error as PostgresError {
            throw arrivalError(error)
        } catch {
            throw .unavailable("\(error)")
        }
    }
}

/// The first arrival of an id wins; only its winner writes the evidence and the work.
private func storeArrival(_ arrival: Arrival, receivedAt: Int64) -> SQL {
    """
    -- name: storeArrival
    WITH first_arrival AS (
        INSERT INTO repricer.notification_ids (notification_uuid, received_at)
        VALUES (\(arrival.notificationUUID), \(timestamp: receivedAt))
        ON CONFLICT (notification_uuid) DO NOTHING
        RETURNING notification_uuid, received_at
    ), evidence AS (
        INSERT INTO repricer.notifications
            (notification_uuid, received_at, signed_at, type, subtype, original_transaction_id,
             understood, signed_payload)
        SELECT notification_uuid, received_at, \(timestamp: arrival.signedAtMilliseconds),
            \(arrival.type)::text, \(arrival.subtype)::text, \(arrival.originalTransactionID)::text,
            \(arrival.understood), \(arrival.signedPayload)::text
        FROM first_arrival
    ), work AS (
        INSERT INTO repricer.inbox
            (original_transaction_id, notification_uuid, received_at, signed_at)
        SELECT \(arrival.originalTransactionID)::text, notification_uuid, received_at,
            \(timestamp: arrival.signedAtMilliseconds)
        FROM first_arrival
        WHERE \(arrival.isWork && arrival.originalTransactionID != nil)
    )
    SELECT notification_uuid FROM first_arrival
    """
}

private func arrivalError(_ error: PostgresError) -> ArrivalError {
    error.isAboutData ? .refused(error.description) : .unavailable(error.description)
}
