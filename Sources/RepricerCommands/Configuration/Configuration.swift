import Facts
package import HTTP
import Postgres
package import Pricing
package import ServiceKit

/// All settings, typed. A value that is missing or wrong is nil here and explained in `problems`.
package struct Configuration: Sendable {
    static let clockOptionSource = "--clock"

    /// One line of `config print`.
    struct Entry: Equatable, Sendable {
        let variable: Variable
        /// Secrets are never shown: a file is shown by its path, a connection string without its password.
        let shown: String?
        let source: String
    }

    /// Calls to one endpoint in a thousand seconds, over all replicas, because Sandbox allows half a call a second.
    package struct CallRate: Equatable, Sendable {
        package let perThousandSeconds: Int

        package var perSecond: Double { Double(perThousandSeconds) / 1000 }
    }

    package struct Address: Equatable, Sendable {
        package let host: String
        /// 0 lets the system choose.
        package let port: Int

        /// Whether only this machine reaches it.
        var isLoopback: Bool { AddressList.isLoopback(host) }

        /// Whether it listens on all addresses of this machine.
        var isEverywhere: Bool { host == "0.0.0.0" || host == "::" }

        /// As it is written: `HOST:PORT`.
        var text: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
    }

    /// The connection string in any form that libpq knows; empty where nothing is set.
    package internal(set) var databaseConninfo = ""
    package internal(set) var bundleID: String?
    package internal(set) var appAppleID: Int64?
    package internal(set) var environment: StoreEnvironment?
    package internal(set) var issuerID: String?
    package internal(set) var keyID: String?
    package internal(set) var keyFile: String?
    package internal(set) var apiBaseURL: String?
    package internal(set) var apiCAFile: String?
    package internal(set) var rootCertificates: String?
    package internal(set) var listen: Address?
    /// The address of the pages; nil where they are switched off, or the setting is wrong.
    package internal(set) var pagesListen: Address?
    /// It must be set wherever other machines reach `pagesListen`.
    package internal(set) var pagesTokenFile: String?
    /// The proxies, whose connections carry many clients.
    package internal(set) var trustedProxies: [AddressRange]?
    /// The percentage of the receiver's connections that any other address may hold.
    package internal(set) var addressShare: Int?
    package internal(set) var forwarderTokenFile: String?
    package internal(set) var v1SharedSecretFile: String?
    package internal(set) var changePriceRate: CallRate?
    package internal(set) var cancelRate: CallRate?
    package internal(set) var extendRate: CallRate?
    package internal(set) var statusRate: CallRate?
    /// nil where there are no webhooks.
    package internal(set) var webhookURL: String?
    package internal(set) var webhookSecretFile: String?
    package internal(set) var webhookCAFile: String?
    /// The time between two runs of the reconciler, by the service's clock; nil where it is switched off, or wrong.
    package internal(set) var reconcileEvery: Duration?
    /// How long after a due statement a silent change's status is read.
    package internal(set) var silentAfter: Duration?
    /// How long `serve` reports that it is not ready before it stops; 0 for not at all.
    package internal(set) var drainWait: Duration?
    /// The virtual clock; nil for the machine's.
    package internal(set) var clock: VirtualClock.Parsed?
    package internal(set) var migrations: String?

    var entries: [Entry] = []
    var problems: [ConfigurationProblem] = []
    /// Variables with our prefix that do not exist. They are probably misspelt, so a remark names them.
    var unknownVariables: [ConfigurationProblem] = []

    /// Reads every variable; `clockOption` is the value of `--clock`, which wins over the variable.
    package init(settings: Settings, clockOption: String? = nil) {
        var reader = ConfigurationReader(settings: settings, clockOption: clockOption)
        reader.read()
        self = reader.result
    }

    init() {}

    /// Throws every problem with these variables. A command names those that it uses.
    func check(_ variables: Variable...) throws(ConfigurationFault) {
        try check(variables)
    }

    func check(_ variables: [Variable]) throws(ConfigurationFault) {
        let found = problems.filter { problem in
            variables.contains { $0.rawValue == problem.subject }
        }
        guard found.isEmpty else { throw ConfigurationFault(problems: found) }
    }

    /// Throws every problem with those of the variables that are set. A command names those that it can do without.
    func checkIfSet(_ variables: Variable...) throws(ConfigurationFault) {
        let found = problems.filter { problem in
            problem.source != nil && variables.contains { $0.rawValue == problem.subject }
        }
        guard found.isEmpty else { throw ConfigurationFault(problems: found) }
    }

    /// A value that `check` has found present.
    func required<Value>(
        _ value: Value?, _ variable: Variable
    ) throws(ConfigurationFault) -> Value {
        if let value { return value }
        try check(variable)
        throw ConfigurationFault(problems: [
            ConfigurationProblem(
                variable.rawValue, "is not set", remedy: variable.remedyWhenMissing)
        ])
    }
}

extension Configuration {
    /// Adds the environment and the call rate from the database, where the settings do not name them, so that a person
    /// who plans needs only the database. A wrong value in the settings is refused, so that nobody plans with another
    /// rate than intended.
    func completed(by pool: PostgresPool) async throws -> Configuration {
        try checkIfSet(.changePriceRate, .environment)
        let namesRate = !entries.contains {
            $0.variable == .changePriceRate && $0.source == "default"
        }
        let namesEnvironment = environment != nil || isSet(.environment)
        guard !namesRate || !namesEnvironment else { return self }
        let known = try await pool.withTransaction { connection in
            (
                app: try AppBindingQueries.read(on: connection),
                rate: try ServiceControlQueries.changePriceRate(on: connection)
            )
        }
        var whole = self
        if !namesEnvironment, let app = known.app {
            whole.environment = StoreEnvironment(rawValue: app.environment)
        }
        if !namesRate {
            whole.changePriceRate = CallRate(
                perThousandSeconds: known.rate
                    ?? ConfigurationReader.perThousand(
                        ConfigurationReader.changePriceRate, in: whole.environment))
        }
        return whole
    }

    /// The environment, where `completed` was asked for it. A person's settings need not name it, and are right as they
    /// are before the database knows the app.
    func knownEnvironment() throws(ConfigurationFault) -> StoreEnvironment {
        guard environment == nil, !isSet(.environment) else {
            return try required(environment, .environment)
        }
        throw ConfigurationFault(problems: [
            ConfigurationProblem(
                Variable.environment.rawValue,
                "is not set, and the database does not know the app yet",
                remedy:
                    "start the service once, with `repricer serve`, which notes it there; or set it to Sandbox or "
                    + "Production")
        ])
    }

    /// Whether the settings give the variable a value, even a wrong one.
    func isSet(_ variable: Variable) -> Bool {
        entries.contains { $0.variable == variable && $0.shown != nil }
    }
}
