import HTTP
import ServiceKit

/// Lets the store's time pass, and posts what is due to the receiver.
struct Courier: Service {
    /// Deliveries at once.
    static let concurrency = 8
    /// How long a receiver that refuses connections is waited for on a fast clock, in real time.
    static let absenceMax = Duration.seconds(300)

    let name = "courier"
    var keeper: StoreKeeper
    var statements: Statements
    var client: HTTPClient
    var target: String
    /// A fast clock makes a second of the receiver's absence a day, which Apple would not see.
    var isFast: Bool
    var log: Log

    func run() async throws {
        try await withThrowingTaskGroup { group in
            group.addTask { try await keepTime() }
            for _ in 0..<Courier.concurrency {
                group.addTask { try await deliver() }
            }
            try await group.waitForAll()
        }
    }

    private func keepTime() async throws {
        while !Task.isCancelled {
            let next = await keeper.tick()
            let now = keeper.clock.nowMilliseconds()
            let wait = min(max(0, (next ?? .max) - now), 3_600_000)
            let real = keeper.clock.realDuration(of: .milliseconds(wait))
            guard await pause(min(max(real, .milliseconds(5)), .seconds(1))) else { return }
        }
    }

    private func deliver() async throws {
        var absentSince: ContinuousClock.Instant?
        while !Task.isCancelled {
            guard let delivery = await keeper.nextDelivery() else {
                guard await pause(.milliseconds(isFast ? 10 : 200)) else { return }
                continue
            }
            let payload = try statements.signed(delivery.event)
            let result = await post(payload, uuid: delivery.event.notificationUUID)
            // A delivery that the program's end cut short is made again after the restart.
            if Task.isCancelled { return }
            if let result {
                absentSince = nil
                try await keeper.delivered(delivery.index, result)
                continue
            }
            let since = absentSince ?? .now
            absentSince = since
            if isFast, since.duration(to: .now) < Courier.absenceMax {
                await keeper.postpone(delivery.index)
                guard await pause(.milliseconds(100)) else { return }
            } else {
                try await keeper.delivered(delivery.index, .noResponse)
            }
        }
    }

    /// nil when nothing could be sent at all.
    func post(_ payload: String, uuid: String) async -> NotificationOutbox.Result? {
        let request = HTTPRequest(
            method: "POST", target: target,
            headers: HTTPHeaders([
                ("Content-Type", "application/json"), ("User-Agent", "App Store Sandbox"),
            ]), body: Array("{\"signedPayload\":\"\(payload)\"}".utf8))
        do throws(HTTPClientError) {
            let response = try await client.send(request)
            if (200...206).contains(response.status) { return .success }
            log.info(
                "notification refused",
                ["uuid": uuid, "status": "\(response.status)"])
            return .unsuccessful
        } catch {
            if !error.requestMayHaveArrived, error.code != .tlsFailed { return nil }
            log.info(
                "notification not delivered",
                ["uuid": uuid, "error": "\(error)"])
            switch error.code {
            case .timedOut: return .timedOut
            case .tlsFailed: return .tlsIssue
            case .malformedResponse, .responseTooLarge: return .invalidResponse
            case .connectionLost, .notSent, .cannotConnect: return .socketIssue
            case .badURL, .badCAFile, .badRequest, .cancelled, .closed, .overloaded: return .other
            }
        }
    }

    /// False when the program stops.
    private func pause(_ duration: Duration) async -> Bool {
        do {
            try await Task.sleep(for: duration)
            return true
        } catch {
            return false
        }
    }
}
