import Foundation
import HTTP
import JOSE
import SandboxStore
import ServiceKit
import Synchronization

/// The two endpoints of the App Store that close gaps, over plain HTTP, with a book of what was asked.
final class GapStore: Sendable {
    private static let pageSize = 20

    struct Message: Sendable {
        var id: String
        var at: Int64
        var payload: String
    }

    private struct Question: Decodable {
        var startDate: Int64
        var endDate: Int64
        var onlyFailures: Bool?
    }

    private struct Book {
        var asked: [String] = []
        var onCall: @Sendable (Int) -> Void = { _ in }
        /// What came since `watch`.
        var calls = 0
    }

    let roots: String
    private let signer: JWSSigner
    private let messages: [Message]
    private let book = Mutex(Book())

    /// `messages` notifications of as many subscriptions, a minute apart, the newest three hours old.
    init(messages count: Int) throws {
        let now = milliseconds(of: .now)
        let authority = try CertificateAuthority(
            validFrom: now - 9 * 86_400_000, validUntil: now + 86_400_000)
        roots = try authority.rootPEM()
        let signer = try authority.signer()
        self.signer = signer
        messages = try (0..<count).map { index in
            let at = now - 3 * 3_600_000 - Int64(index) * 60_000
            let transaction = try signer.sign(Self.transaction("\(1000 + index)", at))
            let text = """
                {"notificationType":"DID_RENEW","notificationUUID":"gap-\(index)","version":"2.0",
                "signedDate":\(at),"data":{"bundleId":"com.example.app","environment":"Sandbox",
                "signedTransactionInfo":"\(transaction)"}}
                """
            return Message(id: "gap-\(index)", at: at, payload: try signer.sign(Array(text.utf8)))
        }
    }

    var ids: Set<String> { Set(messages.map(\.id)) }

    /// From now on each call is told with its number; returns what was asked before.
    @discardableResult
    func watch(_ onCall: @escaping @Sendable (Int) -> Void) -> [String] {
        book.withLock { book in
            defer { book = Book(onCall: onCall) }
            return book.asked
        }
    }

    /// Serves while `body` runs; it is given the base URL.
    func serving(_ body: (String) async throws -> Void) async throws {
        let server = try HTTPServer(host: "127.0.0.1", port: 0, log: .silent) { request in
            self.answer(request)
        }
        let port = try server.bind()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            try await body("http://127.0.0.1:\(port)")
            group.cancelAll()
        }
    }

    private func answer(_ request: HTTPRequest) -> HTTPResponse {
        let name: String
        let response: HTTPResponse
        let segments = request.path.split(separator: "/").map(String.init)
        if segments.count == 4, segments[2] == "subscriptions" {
            name = segments[3]
            response = (try? status(of: name)) ?? .text(500, "")
        } else if let question = try? JSONDecoder().decode(
            Question.self, from: Data(request.body))
        {
            let token = request.target.firstRange(of: "paginationToken=").map {
                String(request.target[$0.upperBound...])
            }
            let onlyFailures = question.onlyFailures ?? false
            name = "\(question.startDate) \(onlyFailures) \(token ?? "")"
            response = page(of: question, from: token.flatMap { Int($0) } ?? 0)
        } else {
            return .text(404, "")
        }
        let (number, onCall) = book.withLock { book in
            book.asked.append(name)
            book.calls += 1
            return (book.calls, book.onCall)
        }
        onCall(number)
        return response
    }

    private func page(of question: Question, from place: Int) -> HTTPResponse {
        let found = messages.filter {
            question.onlyFailures != true && (question.startDate...question.endDate).contains($0.at)
        }.dropFirst(place)
        let entries = found.prefix(Self.pageSize).map { #"{"signedPayload":"\#($0.payload)"}"# }
        let hasMore = found.count > Self.pageSize
        let token = hasMore ? #","paginationToken":"\#(place + Self.pageSize)""# : ""
        return .json(
            200,
            """
            {"notificationHistory":[\(entries.joined(separator: ","))],"hasMore":\(hasMore)\(token)}
            """)
    }

    private func status(of id: String) throws -> HTTPResponse {
        let now = milliseconds(of: .now)
        let renewal = """
            {"originalTransactionId":"\(id)","environment":"Sandbox","autoRenewStatus":1,
            "signedDate":\(now)}
            """
        return .json(
            200,
            """
            {"environment":"Sandbox","bundleId":"com.example.app","data":[
            {"subscriptionGroupIdentifier":"1","lastTransactions":[
            {"originalTransactionId":"\(id)","status":1,
            "signedTransactionInfo":"\(try signer.sign(Self.transaction(id, now)))",
            "signedRenewalInfo":"\(try signer.sign(Array(renewal.utf8)))"}]}]}
            """)
    }

    private static func transaction(_ id: String, _ at: Int64) -> [UInt8] {
        Array(
            """
            {"originalTransactionId":"\(id)","transactionId":"t\(id)","bundleId":"com.example.app",
            "environment":"Sandbox","signedDate":\(at),"type":"Auto-Renewable Subscription"}
            """.utf8)
    }
}
