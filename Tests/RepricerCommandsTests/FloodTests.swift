import Foundation
import HTTP
import JOSE
import Postgres
import SandboxStore
import Synchronization
import TestSupport
import Testing

/// A real `repricer serve` under a flood of notifications, killed again and again: whatever was answered 200 must
/// be in the database, once, at the moment of each death.
@Suite(.database) struct FloodTests {
    @Test(arguments: [1, 2] as [UInt64])
    func serve_whenKilledDuringAFlood_hasStoredWhatItAnswered(seed: UInt64) async throws {
        let scratch = try ScratchFolder()
        let authority = try CertificateAuthority(
            validFrom: milliseconds(of: .now) - 86_400_000,
            validUntil: milliseconds(of: .now) + 86_400_000)
        let roots = try scratch.file("root.pem", authority.rootPEM())
        var random = SeededRandom(seed: seed)
        let flood = Flood(try Self.bodies(300, authority.signer()), &random)
        var deaths = 0

        while true {
            let program = try Program.receiver(roots: roots, database: TestDatabase.url)
            let answersUntilDeath = deaths < 5 ? Int.random(in: 1...60, using: &random) : Int.max
            await flood.pour(into: try await program.port(), connections: 12) {
                if $0 == answersUntilDeath { program.kill() }
            }
            program.kill()
            _ = try await program.end()
            deaths += 1
            try await expectStoredOnce(flood.answered, seed: seed, death: deaths)
            if flood.isOver { break }
        }

        #expect(deaths > 5)
        #expect(flood.answered.count == 300)
        #expect(flood.refusals == [])
    }

    /// Notifications on a few subscriptions, each with its id and its body.
    private static func bodies(_ count: Int, _ signer: JWSSigner) throws -> [Flood.Message] {
        let now = milliseconds(of: .now)
        return try (0..<count).map { index in
            let transaction = try signer.sign(
                Array(
                    """
                    {"originalTransactionId":"\(1000 + index % 7)","transactionId":"\(index)",
                    "bundleId":"com.example.app","environment":"Sandbox","signedDate":\(now),
                    "type":"Auto-Renewable Subscription"}
                    """.utf8))
            let id = "flood-\(index)"
            let payload = try signer.sign(
                Array(
                    """
                    {"notificationType":"DID_RENEW","notificationUUID":"\(id)","version":"2.0",
                    "signedDate":\(now),"data":{"bundleId":"com.example.app","environment":"Sandbox",
                    "signedTransactionInfo":"\(transaction)"}}
                    """.utf8))
            return (id, Array(#"{"signedPayload":"\#(payload)"}"#.utf8))
        }
    }

    private func expectStoredOnce(
        _ answered: Set<String>, seed: UInt64, death: Int
    ) async throws {
        let connection = try await TestDatabase.connect()
        let rows = try await connection.query(
            """
            SELECT notification_uuid, count(*) AS copies,
                (SELECT count(*) FROM repricer.inbox i
                 WHERE i.notification_uuid = n.notification_uuid) AS work
            FROM repricer.notifications n GROUP BY 1
            """)
        await connection.close()
        var stored: Set<String> = []
        for row in rows {
            stored.insert(try row.text("notification_uuid"))
            #expect(try row.int("copies") == 1)
            #expect(try row.int("work") == 1)
        }
        #expect(answered.subtracting(stored) == [], "seed \(seed), death \(death)")
    }
}

func milliseconds(of date: Date) -> Int64 { Int64(date.timeIntervalSince1970 * 1000) }

/// SplitMix64.
private struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// Sends each message until it was answered 200, some of them twice, and remembers which were.
private final class Flood: Sendable {
    typealias Message = (id: String, body: [UInt8])

    private struct State {
        var waiting: [Message]
        var answered: Set<String> = []
        var refusals: Set<String> = []
        var answers = 0
    }

    private let state: Mutex<State>

    init(_ messages: [Message], _ random: inout SeededRandom) {
        let repeated = messages.filter { _ in Bool.random(using: &random) }
        let waiting = (messages + repeated).shuffled(using: &random)
        state = Mutex(State(waiting: waiting))
    }

    var answered: Set<String> { state.withLock { $0.answered } }
    /// Answers that a good message must never get: neither 200 nor "come again".
    var refusals: Set<String> { state.withLock { $0.refusals } }
    var isOver: Bool { state.withLock { $0.waiting.isEmpty } }

    /// Returns when nothing is left, or the server gone; `onAnswer` hears the number of answers of this pour.
    func pour(
        into port: Int, connections: Int, onAnswer: @Sendable @escaping (Int) -> Void
    ) async {
        state.withLock { $0.answers = 0 }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<connections {
                group.addTask {
                    guard let client = try? HTTPClient(baseURL: "http://127.0.0.1:\(port)") else {
                        Issue.record("no client")
                        return
                    }
                    while let message = self.take() {
                        guard await self.send(message, client, onAnswer) else { break }
                    }
                    client.close()
                }
            }
        }
    }

    private func take() -> Message? { state.withLock { $0.waiting.popLast() } }

    /// False when the server is gone; the message waits for the next one then.
    private func send(
        _ message: Message, _ client: HTTPClient, _ onAnswer: (Int) -> Void
    ) async -> Bool {
        let request = HTTPRequest(method: "POST", target: "/notifications", body: message.body)
        guard let response = try? await client.send(request) else {
            state.withLock { $0.waiting.insert(message, at: 0) }
            return false
        }
        let count = state.withLock { state in
            if response.status == 200 {
                state.answered.insert(message.id)
            } else {
                if response.status != 503 {
                    let text = String(decoding: response.body, as: UTF8.self)
                    state.refusals.insert("\(response.status) \(text)")
                }
                state.waiting.insert(message, at: 0)
            }
            state.answers += 1
            return state.answers
        }
        onAnswer(count)
        return true
    }
}
