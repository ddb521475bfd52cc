import HTTP
import ServiceKit
import Synchronization
import TestSupport

@testable import Notifications

/// Keeps arrivals in memory, as the database would: each id once.
final class MemoryStore: Sendable {
    struct State {
        var ids: Set<String> = []
        var batches: [Int] = []
        var isAway = false
    }

    let state = Mutex(State())

    /// An id that begins with `unstorable` is refused, as PostgreSQL refuses what it can't hold.
    func commit(_ batch: [Arrival]) throws(ArrivalError) -> [Bool] {
        let result = state.withLock { state -> Result<[Bool], ArrivalError> in
            guard !state.isAway else { return .failure(.unavailable("away")) }
            guard !batch.contains(where: { $0.notificationUUID.hasPrefix("unstorable") }) else {
                return .failure(.refused("a value"))
            }
            state.batches.append(batch.count)
            return .success(batch.map { state.ids.insert($0.notificationUUID).inserted })
        }
        return try result.get()
    }
}

/// Takes `ok:ID` and `strange:ID`; `forged` is refused, and anything else is no notification.
let simpleCheck: NotificationCheck = { payload, _ throws(NotificationRefusal) in
    let parts = payload.split(separator: ":", maxSplits: 1)
    switch parts.first {
    case "ok" where parts.count == 2, "strange" where parts.count == 2:
        return Arrival(
            notificationUUID: String(parts[1]), originalTransactionID: "1",
            understood: parts[0] == "ok", evidence: .whole(payload))
    case "forged":
        throw NotificationRefusal(.forbidden, code: "bad_signature", message: "forged")
    default:
        throw NotificationRefusal(.malformed, code: "not_a_jws", message: "no signed payload")
    }
}

func makeIntake(_ store: MemoryStore, metrics: Metrics = Metrics()) -> NotificationIntake {
    NotificationIntake(
        check: simpleCheck, clock: ManualClock(1_780_272_000_000), metrics: metrics
    ) { batch throws(ArrivalError) in try store.commit(batch) }
}

struct ReceiverHarness {
    let client: HTTPClient
    let health: HealthRoutes

    /// A receiver on a real socket.
    static func run(
        intake: NotificationIntake, legacy: LegacyIntake? = nil, token: String? = nil,
        metrics: Metrics = Metrics(), log: Log = .silent, obstacle: String? = nil,
        _ body: @Sendable (ReceiverHarness) async throws -> Void
    ) async throws {
        let health = HealthRoutes { obstacle }
        let routes = ReceiverRoutes(
            intake: intake, legacy: legacy, health: health,
            token: token.flatMap { SharedSecret(fileContent: $0) }, metrics: metrics, log: log)
        let server = try HTTPServer(host: "127.0.0.1", port: 0, log: .silent) {
            await routes.respond(to: $0)
        }
        let port = try server.bind()
        let client = try HTTPClient(baseURL: "http://127.0.0.1:\(port)")
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            let result: Result<Void, any Error>
            do {
                result = .success(try await body(ReceiverHarness(client: client, health: health)))
            } catch {
                result = .failure(error)
            }
            client.close()
            group.cancelAll()
            try await group.waitForAll()
            try result.get()
        }
    }

    func post(
        _ body: String, authorization: String? = nil
    ) async throws -> HTTPResponse {
        try await send("POST", "/notifications", Array(body.utf8), authorization)
    }

    func get(_ target: String) async throws -> HTTPResponse {
        try await send("GET", target, [], nil)
    }

    func send(
        _ method: String, _ target: String, _ body: [UInt8], _ authorization: String?
    ) async throws -> HTTPResponse {
        var headers = HTTPHeaders()
        headers["Authorization"] = authorization
        return try await client.send(
            HTTPRequest(method: method, target: target, headers: headers, body: body))
    }
}

extension HTTPResponse {
    var text: String { String(decoding: body, as: UTF8.self) }
}
