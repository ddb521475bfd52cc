import HTTP
import JOSE
import ServiceKit

extension SandboxCommand {
    static func serve(_ words: [String]) async throws {
        let arguments = try Arguments(words, known: storeFlags.union(["listen", "notify"]))
        let (host, port) = try address(arguments["listen"] ?? "127.0.0.1:9090")
        let notify = try NotifyURL(try arguments.required("notify"))
        let setup = try StoreSetup(arguments)
        let sandbox = try Sandbox(
            setup: setup, host: host, port: port, notify: notify,
            log: Log(component: "appstore-sandbox"))
        try await sandbox.run(until: Signals.terminations())
    }

    static func address(_ text: String) throws(SandboxError) -> (host: String, port: Int) {
        guard let colon = text.lastIndex(of: ":"),
            let port = Int(text[text.index(after: colon)...]), (0...65_535).contains(port),
            colon != text.startIndex
        else { throw SandboxError(.usage, "--listen must be HOST:PORT") }
        return (String(text[..<colon]), port)
    }
}

/// The receiver's URL, split into the base that the client connects to and the request target.
struct NotifyURL: Sendable {
    var base: String
    var target: String
    var receiver: (host: String, port: Int)

    init(_ text: String) throws(SandboxError) {
        let parts = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count >= 3, ["http:", "https:"].contains(parts[0]), parts[1].isEmpty,
            !parts[2].isEmpty
        else { throw SandboxError(.usage, "--notify must be http://HOST:PORT/PATH or https://…") }
        base = "\(parts[0])//\(parts[2])"
        target = parts.count == 4 ? "/\(parts[3])" : "/"
        let authority = parts[2].split(separator: ":")
        receiver = (
            String(authority.first ?? ""),
            authority.count == 2 ? Int(authority[1]) ?? 80 : parts[0] == "https:" ? 443 : 80
        )
    }
}

/// The whole simulated App Store: store, server and courier.
struct Sandbox: Sendable {
    let server: HTTPServer
    let courier: Courier
    let setup: StoreSetup
    let store: StoreFile
    let host: String
    let clockSpecification: String?
    let log: Log

    init(
        setup: StoreSetup, host: String, port: Int, notify: NotifyURL, log: Log
    ) throws {
        let real = SystemClock()
        // A program that waits for this file must not read that of an earlier run.
        try setup.folder.remove("sandbox.env")
        let keys = try StoreKeys.loadOrMake(in: setup.folder)
        let store = try setup.open(now: real.nowMilliseconds())
        let clock = try Sandbox.clock(setup, store, real: real)
        let rate = clock?.rate ?? 1
        let statements = Statements(
            identity: store.identity, signer: try keys.authority.signer())
        let keeper = try StoreKeeper(
            store: store, folder: setup.folder, clock: clock ?? real as any WallClock,
            realSecond: max(1000, Int64(rate * 1000)))
        var limits = HTTPClientLimits()
        limits.connectionsMax = Courier.concurrency
        limits.requestDeadline = .seconds(10)
        courier = Courier(
            keeper: keeper, statements: statements,
            client: try HTTPClient(baseURL: notify.base, limits: limits), target: notify.target,
            receiver: notify.receiver, isFast: rate > 1, log: log.with(component: "courier"))
        let routes = Routes(
            keeper: keeper, courier: courier, statements: statements,
            bearer: BearerCheck(
                key: keys.apiKey.publicKey, keyID: store.keyID, issuerID: store.issuerID,
                bundleID: store.identity.bundleID,
                leewaySeconds: max(60, Int64(min(rate, 10_000_000) * 30))),
            clockSpecification: clock?.specification, log: log.with(component: "api"))
        // TLS clients check validity by the real clock, not by the store's.
        let tls = try keys.authority.serverIdentity(
            validFrom: StoreKeys.validFrom, validUntil: StoreKeys.validUntil)
        server = try HTTPServer(
            name: "api", host: host, port: port,
            tls: ServerIdentity(
                certificateChainPEM: tls.certificateChainPEM, privateKeyPEM: tls.keyPEM),
            log: log.with(component: "http"), handler: { await routes.handle($0) })
        clockSpecification = clock?.specification
        (self.setup, self.store, self.host, self.log) = (setup, store, host, log)
    }

    func run(until signals: AsyncStream<Int32>) async throws {
        let port = try server.bind()
        // The file is private, because users add the address of their database.
        try setup.folder.write("sandbox.env", environment(port: port), isPrivate: true)
        log.notice(
            "the store is open",
            [
                "url": "https://\(host):\(port)", "environment": store.identity.environment,
                "subscriptions": String(store.subscriptions.count),
                "clock": clockSpecification ?? "real",
            ])
        let (stop, continuation) = AsyncStream.makeStream(of: Void.self)
        let relay = Task {
            for await signal in signals {
                log.notice("stopping on a signal", ["signal": "\(signal)"])
                continuation.yield()
            }
        }
        defer { relay.cancel() }
        try await ServiceGroup([server, courier], log: log).run(until: stop)
    }

    /// The clock of an earlier run continues. A new clock, and one that `seed` stored, starts now.
    private static func clock(
        _ setup: StoreSetup, _ store: StoreFile, real: SystemClock
    ) throws -> VirtualClock? {
        if let kept = try setup.folder.readText("clock") {
            let parsed = try VirtualClock.parse(String(kept.prefix { $0 != "\n" }))
            if let given = setup.clock, given.rate != parsed.rate {
                throw SandboxError(
                    .conflict,
                    "the store in \(setup.folder.path) runs at rate \(parsed.rate); "
                        + "use another folder")
            }
            if parsed.origin != nil { return parsed.clock() }
            return try begin(
                .init(start: parsed.start, rate: parsed.rate, origin: setup.clock?.origin), setup,
                real)
        }
        return try setup.clock.map { try begin($0, setup, real) }
    }

    private static func begin(
        _ parsed: VirtualClock.Parsed, _ setup: StoreSetup, _ real: SystemClock
    ) throws -> VirtualClock {
        let clock = parsed.clock(real: real)
        try setup.folder.write("clock", clock.specification + "\n")
        return clock
    }

    private func environment(port: Int) -> String {
        let folder = setup.folder
        var lines = [
            "REPRICER_BUNDLE_ID=\(store.identity.bundleID)",
            "REPRICER_APP_APPLE_ID=\(store.identity.appAppleID)",
            "REPRICER_ENVIRONMENT=\(store.identity.environment)",
            "REPRICER_ISSUER_ID=\(store.issuerID)",
            "REPRICER_KEY_ID=\(store.keyID)",
            "REPRICER_KEY_FILE=\(folder.file("key.p8"))",
            "REPRICER_API_BASE_URL=https://\(host):\(port)",
            "REPRICER_API_CA_FILE=\(folder.file("tls-ca.pem"))",
            "REPRICER_ROOT_CERTIFICATES=\(folder.file("root.pem"))",
        ]
        if let clockSpecification { lines.append("REPRICER_CLOCK=\(clockSpecification)") }
        return lines.joined(separator: "\n") + "\n"
    }
}
