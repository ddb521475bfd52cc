import AppStore
import Facts
import Glibc
import HTTP
import JOSE
import Postgres
import ServiceKit

/// Checks everything that the service will need, and continues after each failure.
struct ConfigurationCheck: Sendable {
    /// The result of one check.
    struct Result: Sendable {
        let name: String
        /// What was found; nil where a problem says it.
        let found: String?
        let problems: [ConfigurationProblem]
        /// Whether another system did not answer, as opposed to a wrong setting.
        var isAway = false
        /// False where the check was not made, because a setting is missing or the schema does not fit.
        var wasTried = true
    }

    /// The App Store refuses tokens from clocks that differ by more than this.
    private static let skewSecondsMax: Int64 = 60

    /// The user of these settings. Pricing and finance users need only the database.
    enum User: String, CaseIterable {
        case service, pricing, finance
    }

    let configuration: Configuration
    let dependencies: Dependencies
    var user = User.service

    func run() async -> [Result] {
        guard user == .service else { return [settings()] + (await database()) }
        var results = [settings(), key(), roots()]
        results += [
            extraCA("extra CA", .apiCAFile, configuration.apiCAFile),
            extraCA("webhook CA", .webhookCAFile, configuration.webhookCAFile),
        ].compactMap { $0 }
        results += [
            secret("forwarder token", .forwarderTokenFile, configuration.forwarderTokenFile),
            secret("v1 shared secret", .v1SharedSecretFile, configuration.v1SharedSecretFile),
            secret("webhook secret", .webhookSecretFile, configuration.webhookSecretFile),
        ].compactMap { $0 }
        results += [receiver(), pages()]
        results += await database()
        results.append(await appStore())
        return results
    }

    private func settings() -> Result {
        let count = configuration.entries.count { $0.shown != nil }
        // A person need not set what only the service needs.
        let problems = configuration.problems.filter { user == .service || $0.source != nil }
        return Result(name: "settings", found: "\(count) values", problems: problems)
    }

    private func key() -> Result {
        guard let path = configuration.keyFile else { return skipped("key") }
        do throws(SecretFile.Fault) {
            _ = try SecretFile.readKey(path)
            return Result(name: "key", found: "P-256 key in \(path)", problems: [])
        } catch {
            return failed("key", .keyFile, error.wrong, error.remedy)
        }
    }

    private func roots() -> Result {
        guard let path = configuration.rootCertificates else { return skipped("roots") }
        let clock = dependencies.realClock
        return tried("roots", .rootCertificates, remedy: AppleRoot.remedy) {
            let roots = try TrustedRoots(certificatesIn: path)
            guard let end = roots.firstEnd else {
                throw JOSEError(
                    .noRoots, "\(path) holds a root certificate whose dates cannot be read")
            }
            let left = end - clock.nowMilliseconds() / 1000
            guard left > 0 else {
                throw JOSEError(.noRoots, "\(path) holds a root certificate that has expired")
            }
            let soon = "; the first one expires on \(RFC3339.format(end * 1000))"
            return AppleRoot.found(in: roots, at: path)
                + (left < Self.rootSoon ? soon : "")
        }
    }

    /// How many seconds before its expiry a root is reported, the same as for the alert.
    private static let rootSoon: Int64 = 30 * 86_400

    private func extraCA(_ name: String, _ variable: Variable, _ path: String?) -> Result? {
        guard let path else { return nil }
        return tried(name, variable) {
            _ = try TrustedRoots(certificatesIn: path)
            return path
        }
    }

    private func secret(_ name: String, _ variable: Variable, _ path: String?) -> Result? {
        guard let path else { return nil }
        do throws(ConfigurationFault) {
            _ = try SecretFile.readToken(path, of: variable)
            return Result(name: name, found: path, problems: [])
        } catch {
            return Result(name: name, found: nil, problems: error.problems)
        }
    }

    /// Where notifications are received. The port is not tried, because a running service may hold it.
    private func receiver() -> Result {
        guard let address = configuration.listen else { return skipped("receiver") }
        return listening("receiver", .listen, address, found: address.text)
    }

    private func listening(
        _ name: String, _ variable: Variable, _ address: Configuration.Address, found: String
    ) -> Result {
        guard let obstacle = HTTPServer.obstacle(host: address.host) else {
            return Result(name: name, found: found, problems: [])
        }
        return failed(
            name, variable, "names \(address.host), where this machine can't listen (\(obstacle))",
            "name an address of this machine, or 0.0.0.0 for all of them")
    }

    /// Where the pages are, and whether they ask for a password.
    private func pages() -> Result {
        let settings = Live.showing.map(\.rawValue)
        guard !configuration.problems.contains(where: { settings.contains($0.subject) }) else {
            return skipped("pages")
        }
        if let result = secret("pages", .pagesTokenFile, configuration.pagesTokenFile),
            !result.problems.isEmpty
        {
            return result
        }
        guard let address = configuration.pagesListen else {
            return Result(name: "pages", found: "off", problems: [])
        }
        let password =
            configuration.pagesTokenFile.map { "the password is in \($0)" }
            ?? "no password, for this machine only"
        return listening("pages", .pagesListen, address, found: "\(address.text), \(password)")
    }

    private func database() async -> [Result] {
        do {
            let connection = try await PostgresConnection.connect(
                configuration.databaseConninfo, applicationName: "repricer config check")
            guard user != .finance else {
                let areOpen = try await reportsAreOpen(connection)
                await connection.close()
                return [
                    Result(name: "database", found: "connected", problems: []), reports(areOpen),
                ]
            }
            let isReadOnly = try await isReadOnly(connection)
            let schema = try await schemaState(connection)
            let problem = SchemaCheck.problem(schema)
            let bound =
                problem == nil
                ? try await connection.read { try AppBindingQueries.read(on: $0) } : nil
            let finance =
                problem == nil
                ? try await connection.read { try FinanceLoginQueries.logins(on: $0) } : []
            let missing =
                problem == nil ? try await missingRights(connection) : nil
            await connection.close()
            return [
                isReadOnly
                    ? Self.readOnly
                    : Result(
                        name: "database", found: missing == nil ? "connected" : nil,
                        problems: missing.map { [$0] } ?? []),
                Result(
                    name: "schema", found: SchemaCheck.words(schema),
                    problems: problem.map { [$0] } ?? []),
                problem == nil ? app(bound) : skipped("app of the database"),
                problem == nil ? Self.finance(finance) : skipped("finance users"),
            ]
        } catch {
            let failure =
                (error as? PostgresError).map(CommandFailure.init(database:))
                ?? CommandFailure(.failed, "\(error)")
            return [
                Result(
                    name: "database", found: nil,
                    problems: [
                        ConfigurationProblem(
                            Variable.databaseURL.rawValue, failure.message,
                            remedy: "see `repricer config print` for what is used")
                    ], isAway: failure.code == .unavailable)
            ]
        }
    }

    private func app(_ bound: AppBinding?) -> Result {
        Result(
            name: "app of the database",
            found: bound.map {
                "\($0.bundleID) in \($0.environment)"
                    + (configuration.app == nil
                        ? "; the settings don't name app and environment" : "")
            } ?? "none yet; the first program that writes binds it",
            problems: AppCheck.problem(configuration, bound).map { [$0] } ?? [])
    }

    /// Reports can be read there, and nothing else be done.
    private static let readOnly = Result(
        name: "database", found: nil,
        problems: [
            ConfigurationProblem(
                Variable.databaseURL.rawValue, "names a database that is read-only",
                remedy: CommandFailure.writableRemedy)
        ], isAway: true)

    /// The rights that the user of these settings needs and lacks; nil where none is missing.
    private func missingRights(
        _ connection: PostgresConnection
    ) async throws -> ConfigurationProblem? {
        switch user {
        case .service: return try await tableClosedToService(connection).map(Self.noRights)
        case .finance: return nil
        case .pricing:
            let isMember = try await connection.read {
                try MembershipQueries.isMember(of: "repricer_pricing", on: $0)
            }
            return isMember
                ? nil
                : ConfigurationProblem(
                    Variable.databaseURL.rawValue,
                    "names a database user that is no member of repricer_pricing, and may neither submit nor decide",
                    remedy:
                        "use the person's own user, or have the owner GRANT repricer_pricing TO it")
        }
    }

    /// `serve` would end at once with such a user.
    private static func noRights(_ table: String) -> ConfigurationProblem {
        ConfigurationProblem(
            Variable.databaseURL.rawValue,
            "names a database user that may not write \(table), as the service must",
            remedy: "use the user of the service, which is a member of repricer_service")
    }

    /// A long query of a finance login must not delay the service. Members inherit a role's grants but not its
    /// settings, so each login is checked.
    static func finance(_ logins: [FinanceLoginQueries.Login]) -> Result {
        let faults = logins.compactMap { login -> ConfigurationProblem? in
            let missing = [
                login.hasTimeout ? nil : "statement_timeout",
                login.hasConnectionLimit ? nil : "connection limit",
            ].compactMap { $0 }
            guard !missing.isEmpty else { return nil }
            let role = "\"" + login.name.replacing("\"", with: "\"\"") + "\""
            return ConfigurationProblem(
                "user \(login.name)",
                "of finance has no \(missing.joined(separator: " and no ")): one report may keep the database busy for hours",
                remedy:
                    "limit them: ALTER ROLE \(role) CONNECTION LIMIT 5; ALTER ROLE \(role) SET statement_timeout = '5min'"
            )
        }
        return Result(
            name: "finance users",
            found: faults.isEmpty
                ? "\(logins.count), with a time limit and few connections each"
                : "\(logins.count), of them \(faults.count) without limits",
            problems: faults)
    }

    private func reports(_ areOpen: Bool) -> Result {
        let problem = ConfigurationProblem(
            "reports", "this database user may not read schema report",
            remedy: "run `repricer migrate`, or GRANT repricer_finance to the user")
        return Result(name: "reports", found: "open", problems: areOpen ? [] : [problem])
    }

    /// Any answer to the first request will do: it checks the name, the certificate and the route, and has a date. The
    /// second request is signed, and checks the key.
    private func appStore() async -> Result {
        guard let baseURL = configuration.apiBaseURL else { return skipped("app store") }
        do {
            let clock = try await configuration.makeClock(dependencies: dependencies)
            let answer = try await HTTPClient.get("/", baseURL, caFile: configuration.apiCAFile)
            let time = RFC3339.format(clock.nowMilliseconds())
            let skew = answer.headers["Date"].flatMap(HTTPDate.parse).map {
                (dependencies.realClock.nowMilliseconds() - $0) / 1000
            }
            if let skew, abs(skew) > Self.skewSecondsMax {
                return failed(
                    "app store", .apiBaseURL, "\(baseURL)'s clock differs by \(skew) s from ours",
                    "set this machine's clock (NTP): the App Store refuses such tokens")
            }
            return await signedCall(baseURL, found: "\(baseURL) answers, time is \(time)")
        } catch let error as HTTPClientError {
            let isSetting = error.code == .badURL || error.code == .badCAFile
            return failed(
                "app store", .apiBaseURL, "\(baseURL) does not answer: \(error.reason)",
                "check the network, the URL and REPRICER_API_CA_FILE", isAway: !isSetting)
        } catch is ConfigurationFault {
            return skipped("app store")
        } catch {
            let failure = error as? CommandFailure
            return failed(
                "app store", .clock, failure?.message ?? "\(error)", "see --clock in `help config`",
                isAway: failure?.code == .unavailable)
        }
    }

    private func tried(
        _ name: String, _ variable: Variable, remedy given: String? = nil,
        _ body: () throws -> String
    ) -> Result {
        do {
            return Result(name: name, found: try body(), problems: [])
        } catch {
            let text = (error as? JOSEError)?.detail ?? "\(error)"
            if let given { return failed(name, variable, text, given) }
            let parts = text.split(separator: ";", maxSplits: 1).map(String.init)
            let remedy = parts.dropFirst().first.map { $0.drop { $0 == " " }.description }
            return failed(name, variable, parts.first ?? text, remedy ?? "name another file")
        }
    }

    func failed(
        _ name: String, _ variable: Variable, _ wrong: String, _ remedy: String,
        isAway: Bool = false
    ) -> Result {
        let source = configuration.entries.first { $0.variable == variable }?.source
        let problem = ConfigurationProblem(
            variable.rawValue, source: source, wrong, remedy: remedy)
        return Result(name: name, found: nil, problems: [problem], isAway: isAway)
    }

    /// The check of the setting itself reports the cause.
    private func skipped(_ name: String) -> Result {
        Result(name: name, found: nil, problems: [], wasTried: false)
    }
}
