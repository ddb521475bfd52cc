import Facts
import Foundation
import HTTP
import JOSE
import Outbox
import SandboxStore
import ServiceKit
import Synchronization
import TestSupport

@testable import RepricerCommands

/// What takes webhooks in, as the test says: the next scripted answer, else 200.
final class WebhookReceiver: Sendable {
    enum Reply: Sendable {
        case status(Int)
        case redirect
        /// No answer until the harness closes.
        case held
    }

    struct Seen: Sendable {
        var method: String
        var target: String
        var contentType: String?
        var eventID: String?
        var type: String?
        var signature: String?
        var body: [UInt8]
        var subscription: String
        var n: Int
        var isAccepted: Bool
    }

    private let state: Mutex<(replies: [Reply], seen: [Seen])>
    private let gate: AsyncStream<Void>
    private let opening: AsyncStream<Void>.Continuation

    init(_ replies: [Reply]) {
        state = Mutex((replies, []))
        (gate, opening) = AsyncStream.makeStream(of: Void.self)
    }

    /// Lets go of what is held.
    func release() { opening.finish() }

    var seen: [Seen] { state.withLock { $0.seen } }
    /// Those answered with 200, in their order.
    var accepted: [Seen] { seen.filter(\.isAccepted) }

    func heal() { state.withLock { $0.replies = [] } }

    func answer(_ request: HTTPRequest) async -> HTTPResponse {
        let fields = try? JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any]
        let payload = fields?["payload"] as? [String: Any]
        let reply = state.withLock { state in
            let reply = state.replies.isEmpty ? Reply.status(200) : state.replies.removeFirst()
            var isAccepted = false
            if case .status(200) = reply { isAccepted = true }
            state.seen.append(
                Seen(
                    method: request.method, target: request.target,
                    contentType: request.headers["Content-Type"],
                    eventID: request.headers["Repricer-Event-Id"],
                    type: request.headers["Repricer-Event-Type"],
                    signature: request.headers["Repricer-Signature"], body: request.body,
                    subscription: fields?["aggregateid"] as? String ?? "",
                    n: payload?["n"] as? Int ?? -1, isAccepted: isAccepted))
            return reply
        }
        switch reply {
        case .status(let status): return HTTPResponse(status: status)
        case .redirect:
            return HTTPResponse(status: 302, headers: HTTPHeaders([("Location", "/elsewhere")]))
        case .held:
            for await _ in gate {}
            return HTTPResponse(status: 200)
        }
    }
}

/// A database with an outbox, a receiver on a real socket, and a hand on the clock.
struct WebhookHarness {
    static let secret = Array("a secret of the receiver".utf8)
    let pool: DatabasePool
    let url: String
    let clock: ManualClock
    let receiver: WebhookReceiver
    private let port: Int
    private let caFile: String?
    private let serving: Task<Void, any Error>
    private let scratch: ScratchFolder

    static func make(
        _ replies: [WebhookReceiver.Reply] = [], isTLS: Bool = false
    ) async throws -> WebhookHarness {
        let url = try await TestDatabase.login("service", memberOf: ["repricer_service"])
        let receiver = WebhookReceiver(replies)
        let scratch = try ScratchFolder()
        var identity: ServerIdentity?
        var caFile: String?
        if isTLS {
            let now = SystemClock().nowMilliseconds()
            let authority = try CertificateAuthority(
                validFrom: now - 86_400_000, validUntil: now + 86_400_000)
            let made = try authority.serverIdentity(
                validFrom: now - 86_400_000, validUntil: now + 86_400_000)
            identity = ServerIdentity(
                certificateChainPEM: made.certificateChainPEM, privateKeyPEM: made.keyPEM)
            caFile = try scratch.file("ca.pem", try authority.rootPEM())
        }
        let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: identity, log: .silent) {
            await receiver.answer($0)
        }
        let port = try server.bind()
        return WebhookHarness(
            pool: DatabasePool(conninfo: url, applicationName: "webhooks", size: 8), url: url,
            clock: ManualClock(SystemClock().nowMilliseconds()), receiver: receiver, port: port,
            caFile: caFile, serving: Task { try await server.run() }, scratch: scratch)
    }

    func close() async {
        receiver.release()
        serving.cancel()
        await pool.close()
    }

    func sender(
        url: String? = nil, deadline: Duration = .seconds(60), log: Log = .silent,
        secret: SharedSecret? = nil,
        change: (inout WebhookSender.Limits) -> Void = { _ in }
    ) throws -> WebhookSender {
        let scheme = caFile == nil ? "http" : "https"
        let address = url ?? "\(scheme)://127.0.0.1:\(port)/hooks?from=repricer"
        guard let parsed = WebhookURL(address) else { throw POSIXError(.EINVAL) }
        var limits = WebhookSender.Limits()
        limits.retry = Backoff(first: .seconds(1), max: .seconds(3600), jitter: 0)
        // A crowded machine is no reason to put a message back.
        limits.leavesWithin = .seconds(60)
        change(&limits)
        return WebhookSender(
            pool: pool,
            target: WebhookSender.Target(
                posting: try LiveWebhook(url: parsed, caFile: caFile, deadline: deadline),
                secret: { secret?.current ?? Self.secret }),
            realClock: clock, log: log, metrics: Metrics(), limits: limits)
    }

    /// Events of these subscriptions, numbered in their order.
    func write(_ subscriptions: [String]) async throws {
        let connection = try await TestDatabase.connect()
        let written = try await connection.query("SELECT 1 FROM repricer.outbox").count
        for (index, subscription) in subscriptions.enumerated() {
            _ = try await connection.execute(
                """
                WITH told AS (
                    INSERT INTO repricer.outbox (aggregateid, bucket, position, aggregatetype, type, payload)
                    VALUES (\(subscription), repricer.bucket_of(\(subscription)),
                        \(Int64(written + index)), 'subscription', 'dependent_cancellation.confirmed',
                        jsonb_build_object('n', \(Int64(written + index))::bigint))
                    RETURNING aggregateid, bucket, position
                )
                INSERT INTO repricer.webhook_deliveries (aggregateid, bucket, position)
                SELECT aggregateid, bucket, position FROM told
                """)
        }
        await connection.close()
    }

    /// `SUBSCRIPTION STATE` of every event that is kept.
    func states() async throws -> [String] {
        let connection = try await TestDatabase.connect()
        let rows = try await connection.query(
            """
            SELECT aggregateid || ' ' || state AS state FROM repricer.webhook_deliveries
            ORDER BY aggregateid, position
            """)
        await connection.close()
        return try rows.map { try $0.text("state") }
    }

    func lastError() async throws -> String? {
        let connection = try await TestDatabase.connect()
        let rows = try await connection.query(
            "SELECT last_error FROM repricer.webhook_deliveries WHERE last_error IS NOT NULL")
        await connection.close()
        return try rows.first?.textOrNil("last_error")
    }
}
