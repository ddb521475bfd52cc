import Foundation
import Glibc
import HTTP
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import RepricerCommands
@testable import SandboxStore

/// `appstore-sandbox serve` and `repricer serve` as processes, with the subscriptions of a `Seed`.
final class ProcessHarness {
    static let parent = "2000000000010000"
    static let other = "2000000000020000"
    let hooks: WebhookReceiver
    let scratch: ScratchFolder
    let seed: Seed
    private let urls: [String: String]
    private var settings: [String: String] = [:]
    private var store: Program?
    private(set) var service: Program?
    private let receiving: Task<Void, any Error>
    private let hookPort: Int
    private(set) var client: HTTPClient?
    private let listen: ReservedPort
    /// What people did in the app and the store answered otherwise than the test says.
    var unexpectedAnswers: [String] = []
    /// When the store began: UTC milliseconds.
    private var openedAt: Int64 = 0

    private init(_ seed: Seed) async throws {
        self.seed = seed
        scratch = try ScratchFolder()
        urls = [
            "repricerd": try await TestDatabase.login("repricerd", memberOf: ["repricer_service"]),
            "ana": try await TestDatabase.login("ana", memberOf: ["repricer_pricing"]),
            "ben": try await TestDatabase.login("ben", memberOf: ["repricer_pricing"]),
        ]
        let hooks = WebhookReceiver([])
        self.hooks = hooks
        let server = try HTTPServer(host: "127.0.0.1", port: 0, log: .silent) {
            await hooks.answer($0)
        }
        hookPort = try server.bind()
        receiving = Task { try await server.run() }
        listen = try ReservedPort()
    }

    static func open(_ seed: Seed = Seed()) async throws -> ProcessHarness {
        let harness = try await ProcessHarness(seed)
        try await harness.openStore()
        try await harness.serve()
        return harness
    }

    // MARK: Processes

    private func openStore() async throws {
        let data = "\(scratch.path)/store"
        try FileManager.default.createDirectory(
            atPath: data, withIntermediateDirectories: true)
        openedAt = SystemClock().nowMilliseconds()
        try StoreFolder(data).save(seed.file(now: openedAt))
        store = try Program(
            Program.built("appstore-sandbox"),
            [
                "serve", "--data", data, "--listen", "127.0.0.1:0", "--notify",
                "http://127.0.0.1:\(listen.number)/notifications",
            ], environment: [:])
        try await eventually("the store's settings") {
            FileManager.default.fileExists(atPath: "\(data)/sandbox.env")
        }
        let text = try String(contentsOfFile: "\(data)/sandbox.env", encoding: .utf8)
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "=", maxSplits: 1)
            if parts.count == 2 { settings[String(parts[0])] = String(parts[1]) }
        }
        settings["REPRICER_LISTEN"] = "127.0.0.1:\(listen.number)"
        settings["REPRICER_PAGES_LISTEN"] = "127.0.0.1:0"
        client = try HTTPClient(
            baseURL: settings["REPRICER_API_BASE_URL"] ?? "", extraCAFile: "\(data)/tls-ca.pem")
    }

    func serve() async throws {
        var environment = settings
        environment["REPRICER_DATABASE_URL"] = urls["repricerd"]
        environment["REPRICER_WEBHOOK_URL"] = "http://127.0.0.1:\(hookPort)/hooks"
        let secret = try scratch.file("secret", "shared\n")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600], ofItemAtPath: secret)
        environment["REPRICER_WEBHOOK_SECRET_FILE"] = secret
        service = try Program(Program.built("repricer"), ["serve"], environment: environment)
        let port = listen.number
        try await eventually("repricer serve") {
            let client = try? HTTPClient(baseURL: "http://127.0.0.1:\(port)")
            return
                try await client?.send(HTTPRequest(method: "GET", target: "/readyz")).status == 200
        }
    }

    /// As `kill -9`; returns when the service is gone.
    func kill() async throws {
        service?.kill()
        _ = try await service?.end()
    }

    func close() {
        service?.kill()
        store?.kill()
        receiving.cancel()
    }

    // MARK: People

    /// Learns all subscriptions, then submits and approves rows of id, SKU, price, currency and dependents.
    func raise(_ rows: [String] = ["\(parent),A,19.99,USD,\(other)/FAR"]) async throws {
        let ids = try scratch.file("ids.txt", seed.subscriptions.map { $0.id + "\n" }.joined())
        try await command("sync", ids, as: "repricerd")
        let header = "original_transaction_id,sku,price,currency,dependent_skus"
        let batch = try scratch.file(
            "batch.csv", ([header] + rows).map { $0 + "\n" }.joined())
        try await command("submit", batch, "--name", "spring", as: "ana")
        let id = try await connection { connection in
            try await connection.query("SELECT batch_id FROM repricer.batches").one()
                .text("batch_id")
        }
        try await command("approve", id, "--yes", as: "ben")
    }

    /// Submits rows for FAR or another item, and approves them; returns the batch.
    func change(_ id: String, _ sku: String, to price: String) async throws -> String {
        let ids = try scratch.file("ids.txt", "\(id)\n")
        try await command("sync", ids, as: "repricerd")
        let batch = try scratch.file(
            "change.csv", "original_transaction_id,sku,price,currency\n\(id),\(sku),\(price),USD\n")
        let batchID = try await command("submit", batch, "--name", "change", as: "ana").output
            .trimmingCharacters(in: .newlines)
        try await command("approve", batchID, "--yes", as: "ben")
        return batchID
    }

    @discardableResult
    func command(
        _ words: String..., as user: String, exits code: ExitCode = .done,
        with others: [String: String] = [:]
    ) async throws -> Outcome {
        var environment = settings.merging(others) { _, other in other }
        environment["REPRICER_DATABASE_URL"] = urls[user]
        let outcome = await run(words, environment: environment) { $0.realClock = SystemClock() }
        #expect(outcome.code == code, "\(words): \(outcome.messages)\(outcome.output)")
        return outcome
    }

    /// The item as the store holds it.
    func storeItem(_ id: String, _ sku: String) async throws -> [String: Any]? {
        let text = try await get("/sandbox/state?subscription=\(id)")
        let subscription =
            try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
        let items = subscription?["items"] as? [[String: Any]]
        return items?.first { $0["sku"] as? String == sku }
    }

    // MARK: What happened

    private func connection<T: Sendable>(
        _ body: (PostgresConnection) async throws -> T
    ) async throws -> T {
        let connection = try await TestDatabase.connect()
        let value = try await body(connection)
        await connection.close()
        return value
    }

    /// Waits until the only row of a query says `done`.
    func until(_ query: String) async throws {
        try await eventually(query) {
            try await self.connection { connection in
                try await connection.query("\(unsafe: query)").first?.bool("done") ?? false
            }
        }
    }

    func until(calls: Int) async throws {
        try await eventually("\(calls) cancel calls on the wire") {
            try self.wireCalls("cancel") >= calls
        }
    }

    /// Of a query whose one column is the text `line`.
    func lines(_ query: String) async throws -> [String] {
        try await connection { connection in
            try await connection.query("\(unsafe: query)").map { try $0.text("line") }
        }
    }

    func stateOfChange() async throws -> String {
        try await connection { connection in
            try await connection.query("SELECT state FROM repricer.price_changes").one()
                .text("state")
        }
    }

    /// HTTP statuses of the calls that the store took.
    func calls(_ endpoint: String) async throws -> [Int] {
        try await records(endpoint).compactMap { $0["status"] as? Int }
    }

    func references(_ endpoint: String) async throws -> Set<String> {
        Set(try await records(endpoint).compactMap { $0["requestReferenceId"] as? String })
    }

    private func records(_ endpoint: String) async throws -> [[String: Any]] {
        try await get("/sandbox/calls").split(separator: "\n").compactMap { line in
            try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        }.filter { $0["endpoint"] as? String == endpoint }
    }

    /// Calls that arrived, answered or not.
    private func wireCalls(_ endpoint: String) throws -> Int {
        try String(contentsOfFile: "\(scratch.path)/store/wire.ndjson", encoding: .utf8)
            .split(separator: "\n").count { $0.contains("\"endpoint\":\"\(endpoint)\"") }
    }

    func number(_ name: String) async throws -> Int? { try await state()?[name] as? Int }

    /// The month of the store, from 0.
    func month() async throws -> Int {
        let state = try #require(try await state())
        return Self.month(state, openedAt, seed)
    }

    private static func month(_ state: [String: Any], _ openedAt: Int64, _ seed: Seed) -> Int {
        let now = (state["now"] as? NSNumber)?.int64Value ?? openedAt
        return Int((now - openedAt) / (Int64(seed.month) * 1000))
    }

    /// The month in which so many items have an increase of this status, all at once. nil: four have gone by, so that
    /// the machine was too slow for calls in the same one.
    func month(when count: Int, are status: String) async throws -> Int? {
        while true {
            let state = try #require(try await state())
            let month = Self.month(state, openedAt, seed)
            if (state["openIncreases"] as? [String: Any])?[status] as? Int == count { return month }
            guard month < 4 else { return nil }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    private func state() async throws -> [String: Any]? {
        try JSONSerialization.jsonObject(with: Data(try await get("/sandbox/state").utf8))
            as? [String: Any]
    }

    /// `code` is what `refuse` answers; `seconds` is how long the others last, where not as usual.
    func order(
        fault: String, on endpoint: String = "cancel", code: Int? = nil, seconds: Int? = nil
    ) async throws {
        let refusal = code.map { ",\"code\":\($0)" } ?? ""
        let time = seconds.map { ",\"seconds\":\($0)" } ?? ""
        let answer = try await post(
            "/sandbox/faults",
            "{\"endpoint\":\"\(endpoint)\",\"kind\":\"\(fault)\",\"count\":1\(refusal)\(time)}")
        #expect(answer?.status == 204)
    }

    private func get(_ target: String) async throws -> String {
        let answer = try await client?.send(HTTPRequest(method: "GET", target: target))
        return String(decoding: answer?.body ?? [], as: UTF8.self)
    }

    /// Asks again and again, at the edge of processes, which may be away: for a minute and some months at most.
    func eventually(_ what: String, _ isTrue: () async throws -> Bool) async throws {
        do {
            try await TestSupport.eventually(what, within: .seconds(60 + 6 * seed.month)) {
                (try? await isTrue()) == true
            }
        } catch is NeverCame {
            let said = service?.saidSoFar.suffix(2000) ?? ""
            throw NeverCame(
                what: "\(what), of a service that said: \(said)\n\(await standing())")
        }
    }

    /// What the ledger and the wire hold, for whoever reads that something never came.
    private func standing() async -> String {
        var parts: [String] = []
        for table in ["dependent_cancellations", "store_calls", "price_changes", "status_checks"] {
            let rows = try? await lines(
                "SELECT row_to_json(t)::text AS line FROM repricer.\(table) t")
            parts += (rows ?? ["not readable"]).map { "\(table): \($0)" }
        }
        let wire = try? String(contentsOfFile: "\(scratch.path)/store/wire.ndjson", encoding: .utf8)
        return (parts + ["wire: \(wire?.suffix(2000) ?? "not readable")"]).joined(separator: "\n")
    }
}

/// A port that nobody listens on, and that nobody who asks for any port is given while this lives: it is bound, and
/// who names it may bind it, too.
private final class ReservedPort {
    let number: Int
    private let descriptor: Int32

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var yes: Int32 = 1
        setsockopt(
            descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let socket = descriptor
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, size) == 0 && getsockname(socket, $0, &size) == 0
            }
        }
        number = Int(UInt16(bigEndian: address.sin_port))
        guard isBound else { throw POSIXError(.EADDRNOTAVAIL) }
    }

    deinit { Glibc.close(descriptor) }
}
