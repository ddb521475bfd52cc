import Glibc
import HTTP
import ServiceKit

/// Lets the store's time pass, and posts what is due to the receiver.
struct Courier: Service {
    /// Deliveries at once.
    static let concurrency = 8
    /// How long, in real time, it waits on a fast clock for a receiver that refuses connections.
    static let absenceMax = Duration.seconds(300)

    let name = "courier"
    var keeper: StoreKeeper
    var statements: Statements
    var client: HTTPClient
    var target: String
    /// The address that `client` connects to, for faulty requests that `client` cannot send.
    var receiver: (host: String, port: Int) = ("127.0.0.1", 80)
    /// Whether the clock is fast: then a second of the receiver's absence is a day, which would not happen with Apple.
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
            let next = try await keeper.tick()
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
            let result =
                delivery.hangsUp
                ? await hangUp(payload)
                : await post(payload, uuid: delivery.event.notificationUUID)
            // A delivery that the program's end interrupted is repeated after the restart.
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

    /// Sends the beginning of a request that promises more, and closes the connection.
    private func hangUp(_ payload: String) async -> NotificationOutbox.Result {
        let head =
            "POST \(target) HTTP/1.1\r\nHost: \(receiver.host):\(receiver.port)\r\n"
            + "Content-Type: application/json\r\nContent-Length: \(payload.utf8.count + 20)\r\n\r\n"
        let half = Array((head + "{\"signedPayload\":\"" + payload.prefix(payload.count / 2)).utf8)
        return Self.sendAndClose(half, to: receiver) ? .prematureClose : .socketIssue
    }

    /// A short write to a loopback socket; false where nobody listens.
    private static func sendAndClose(
        _ bytes: [UInt8], to receiver: (host: String, port: Int)
    ) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(truncatingIfNeeded: receiver.port).bigEndian
        let host = receiver.host == "localhost" ? "127.0.0.1" : receiver.host
        guard inet_pton(AF_INET, host, &address.sin_addr) == 1 else { return false }
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else { return false }
        return send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) > 0
    }

    /// nil when nothing could be sent.
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
