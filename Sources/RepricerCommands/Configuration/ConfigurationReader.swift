import Glibc
import HTTP
import Pricing
import ServiceKit

/// Reads the variables in their order, collecting values, entries and problems.
struct ConfigurationReader {
    private let settings: Settings
    private let clockOption: String?
    private(set) var result = Configuration()

    init(settings: Settings, clockOption: String?) {
        self.settings = settings
        self.clockOption = clockOption
    }

    mutating func read() {
        readDatabase()
        result.bundleID = value(.bundleID, isRequired: true, "is no bundle identifier") { text in
            isPlain(text, besides: "-.") && text.count <= 155 ? text : nil
        }
        result.environment = value(
            .environment, isRequired: true, "is neither Sandbox nor Production",
            StoreEnvironment.init)
        result.appAppleID = value(
            .appAppleID, isRequired: result.environment == .production,
            "is no positive whole number"
        ) { text in Int64(text).flatMap { $0 > 0 ? $0 : nil } }
        result.issuerID = word(.issuerID)
        result.keyID = word(.keyID)
        result.keyFile = secretFile(.keyFile, isRequired: true)
        readAPI()
        result.rootCertificates = text(.rootCertificates, isRequired: true)
        readListen()
        result.forwarderTokenFile = secretFile(.forwarderTokenFile)
        result.v1SharedSecretFile = secretFile(.v1SharedSecretFile)
        result.changePriceRate = rate(.changePriceRate, production: Self.changePriceRate)
        result.cancelRate = rate(.cancelRate, production: 5)
        result.extendRate = rate(.extendRate, production: 20)
        result.statusRate = rate(.statusRate, production: 50)
        readWebhook()
        readSchedule()
        readClock()
        result.migrations = text(.migrations)
        findUnknownVariables()
    }

    private typealias Fault = (wrong: String, remedy: String)

    private mutating func text(
        _ variable: Variable, isRequired: Bool = false, default fallback: String? = nil
    ) -> String? {
        value(variable, isRequired: isRequired, default: fallback, "") { $0 }
    }

    /// The path of a file with a secret. If systemd provides a credential with that file's name, its path is used
    /// instead, because the service may not read the file itself.
    private mutating func secretFile(_ variable: Variable, isRequired: Bool = false) -> String? {
        guard let path = text(variable, isRequired: isRequired) else { return nil }
        guard let folder = settings.value("CREDENTIALS_DIRECTORY")?.0, !folder.isEmpty,
            let name = path.split(separator: "/").last
        else { return path }
        let credential = "\(folder)/\(name)"
        return access(credential, F_OK) == 0 ? credential : path
    }

    /// The value that `read` parses from the text; nil means that the text is wrong. Without its own remedy the fault
    /// gets that of a missing value.
    private mutating func value<Value>(
        _ variable: Variable, isRequired: Bool = false, default fallback: String? = nil,
        _ wrong: String, remedy: String? = nil, _ read: (String) -> Value?
    ) -> Value? {
        guard let (value, source) = settings.value(variable.rawValue), !value.isEmpty else {
            note(variable, fallback, fallback == nil ? "unset" : "default")
            if isRequired {
                complain(variable, nil, ("is not set", variable.remedyWhenMissing))
            }
            return fallback.flatMap(read)
        }
        let shown = ConnectionString.withoutSecretsInAddress(value)
        note(variable, shown, source)
        if let result = read(value) { return result }
        complain(
            variable, source, ("\(quoted(shown)) \(wrong)", remedy ?? variable.remedyWhenMissing))
        return nil
    }

    private mutating func note(_ variable: Variable, _ shown: String?, _ source: String) {
        result.entries.append(.init(variable: variable, shown: shown, source: source))
    }

    private mutating func complain(_ variable: Variable, _ source: String?, _ fault: Fault) {
        result.problems.append(
            ConfigurationProblem(
                variable.rawValue, source: source, fault.wrong, remedy: fault.remedy))
    }

    private mutating func word(_ variable: Variable) -> String? {
        value(
            variable, isRequired: true, "holds characters that no id has",
            remedy: "copy it from App Store Connect again"
        ) { text in isPlain(text, besides: "-_") && text.count <= 255 ? text : nil }
    }

    private mutating func readDatabase() {
        guard let (value, source) = settings.value(Variable.databaseURL.rawValue), !value.isEmpty
        else {
            note(.databaseURL, nil, "unset: libpq's PG* variables hold")
            result.databaseConninfo = ConnectionString.fromLibpqVariables(settings)
            return
        }
        note(.databaseURL, ConnectionString.withoutPassword(value), source)
        result.databaseConninfo = value
    }

    private mutating func readAPI() {
        let fallback =
            switch result.environment {
            case .production: "https://api.storekit.apple.com"
            case .sandbox: "https://api.storekit-sandbox.apple.com"
            case nil: String?.none
            }
        let given = settings.value(Variable.apiBaseURL.rawValue).flatMap { BaseURL($0.text) }
        let wrong = given == nil ? "is no base URL" : "is not https and not on this machine"
        result.apiBaseURL = value(
            .apiBaseURL, default: fallback, wrong,
            remedy: "write https://HOST or https://HOST:PORT, or leave it out for Apple's own"
        ) { text in
            guard let url = BaseURL(text), url.isTLS || url.isLoopback else { return nil }
            return text.hasSuffix("/") ? String(text.dropLast()) : text
        }
        result.apiCAFile = text(.apiCAFile)
    }

    private mutating func readWebhook() {
        result.webhookURL = value(
            .webhookURL, "is no https URL, nor http on this machine",
            remedy: "write https://HOST/PATH, or leave it out"
        ) { text in WebhookURL(text) == nil ? nil : text }
        result.webhookSecretFile = secretFile(
            .webhookSecretFile, isRequired: result.webhookURL != nil)
        result.webhookCAFile = text(.webhookCAFile)
    }

    private mutating func readListen() {
        result.listen = value(
            .listen, default: "127.0.0.1:8080", "is no address",
            remedy: "write HOST:PORT, as 127.0.0.1:8080 or [::1]:8080", BaseURL.address)
        let pages: Configuration.Address?? = value(
            .pagesListen, default: "127.0.0.1:8081", "is no address",
            remedy: "write HOST:PORT, as 127.0.0.1:8081, or off"
        ) { text in text == "off" ? .some(nil) : BaseURL.address(text).map(Optional.some) }
        result.pagesListen = pages ?? nil
        refuseOneAddress()
        result.pagesTokenFile = secretFile(
            .pagesTokenFile, isRequired: result.pagesListen.map { !$0.isLoopback } ?? false)
        result.trustedProxies = value(
            .trustedProxies, default: "127.0.0.1,::1", "is no list of addresses",
            remedy: "write addresses and ranges, as 10.0.0.5,fd00::/8, or * for all, or none"
        ) { text in
            let ranges =
                text == "none"
                ? []
                : text.split(separator: ",", omittingEmptySubsequences: false).map { word in
                    AddressRange(word.filter { $0 != " " })
                }
            return ranges.contains(nil) ? nil : ranges.compactMap(\.self)
        }
        result.addressShare = value(
            .addressShare, default: "25", "is no percentage from 1 to 100",
            remedy: "write a whole number, as 25"
        ) { text in Int(text).flatMap { (1...100).contains($0) ? $0 : nil } }
    }

    /// Refuses the same port for both listeners, because the second one would fail when the service starts.
    private mutating func refuseOneAddress() {
        guard let first = result.listen, let second = result.pagesListen, first.port > 0,
            first.port == second.port,
            first.host == second.host || [first, second].contains(where: \.isEverywhere)
        else { return }
        complain(
            .pagesListen, settings.value(Variable.pagesListen.rawValue)?.source,
            (
                "\(quoted(second.text)) is taken by REPRICER_LISTEN (\(first.text))",
                "give each a port of its own"
            ))
    }

    private mutating func rate(_ variable: Variable, production: Int) -> Configuration.CallRate? {
        let perThousand = Self.perThousand(production, in: result.environment)
        return value(
            variable, default: Self.shown(perThousand),
            "is no number of calls a second from 0.001 to 1000",
            remedy: "write one, as \(production) or 0.5"
        ) { text in Self.perThousand(text).map(Configuration.CallRate.init) }
    }

    /// Calls a second in Production.
    static let changePriceRate = 50

    /// The rate in thousandths: Apple's test environment takes a tenth.
    static func perThousand(_ production: Int, in environment: StoreEnvironment?) -> Int {
        environment == .sandbox ? production * 100 : production * 1000
    }

    /// A rate as text, in calls a second.
    static func shown(_ perThousand: Int) -> String {
        PriceText.decimal(Int64(perThousand), decimals: perThousand % 1000 == 0 ? 0 : 1)
    }

    static func perThousand(_ text: String) -> Int? {
        // A decimal of at most three places, as prices have, is exact without floating point.
        guard let value = try? PriceText.milliunits(decimal: text), (1...1_000_000).contains(value)
        else { return nil }
        return Int(value)
    }

    private mutating func readSchedule() {
        let (wrong, remedy) = (
            "is no span of time", "write a whole number and s, m, h or d, as 15m"
        )
        let every: Duration?? = value(
            .reconcileEvery, default: "15m", wrong, remedy: remedy + ", or off"
        ) { text in text == "off" ? .some(nil) : Span.duration(text).map(Optional.some) }
        result.reconcileEvery = every ?? nil
        // Apple's test environment shortens a month to minutes.
        let fallback = result.environment == .sandbox ? "10m" : "1d"
        result.silentAfter = value(
            .silentAfter, default: fallback, wrong, remedy: remedy, Span.duration)
        result.drainWait = value(
            .drainWait, default: "0s", "is no span of time up to 10m",
            remedy: "write a whole number and s or m, as 15s"
        ) { text in
            text == "0s" ? .zero : Span.duration(text).flatMap { $0 <= .seconds(600) ? $0 : nil }
        }
    }

    private mutating func readClock() {
        let fromVariable = settings.value(Variable.clock.rawValue)
        guard let text = clockOption ?? fromVariable?.text, !text.isEmpty else {
            note(.clock, nil, "unset: the machine's clock")
            return
        }
        let source =
            clockOption == nil
            ? fromVariable?.source ?? "unset" : Configuration.clockOptionSource
        note(.clock, text, source)
        do throws(ClockFormatError) {
            result.clock = try VirtualClock.parse(text)
        } catch {
            let remedy =
                "write START@RATE or START@RATE@ORIGIN, as 2026-01-05T00:00:00Z@86400"
            complain(.clock, source, ("\(quoted(text)) cannot be used: \(error.reason)", remedy))
            return
        }
        let isLoopback = result.apiBaseURL.flatMap(BaseURL.init)?.isLoopback ?? false
        if !isLoopback {
            // A real App Store does not follow a virtual clock, so changes would be sent at wrong instants.
            result.clock = nil
            complain(
                .clock, source,
                (
                    "a virtual clock is refused: the App Store API host is not loopback",
                    "leave the clock out, or set REPRICER_API_BASE_URL to an appstore-sandbox"
                        + " on this machine"
                ))
        }
    }

    private mutating func findUnknownVariables() {
        let known = Variable.allCases.map(\.rawValue)
        for (key, value) in settings.entries(prefix: "REPRICER_") where !known.contains(key) {
            // Names are compared without the common prefix, which would make all of them seem similar.
            let prefix = "REPRICER_"
            let names = known.map { String($0.dropFirst(prefix.count)) }
            let near = nearest(to: String(key.dropFirst(prefix.count)), among: names)
            let remedy = near.map { "did you mean \(prefix)\($0)?" } ?? "remove it"
            result.unknownVariables.append(
                ConfigurationProblem(key, source: value.source, "is not known", remedy: remedy))
        }
    }
}

private func isPlain(_ text: String, besides others: String) -> Bool {
    text.utf8.allSatisfy { byte in
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte)
            || (0x61...0x7A).contains(byte) || others.utf8.contains(byte)
    }
}
