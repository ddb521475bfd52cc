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
        result.bundleID = text(.bundleID, isRequired: true) { value in
            let isPlain = value.utf8.allSatisfy { isLetterOrDigit($0) || $0 == 0x2D || $0 == 0x2E }
            return isPlain && value.count <= 155
                ? nil : ("is no bundle identifier", Variable.bundleID.remedyWhenMissing)
        }
        result.environment = text(.environment, isRequired: true) { value in
            StoreEnvironment(rawValue: value) == nil
                ? ("is neither Sandbox nor Production", Variable.environment.remedyWhenMissing)
                : nil
        }.flatMap(StoreEnvironment.init(rawValue:))
        result.appAppleID = text(.appAppleID, isRequired: result.environment == .production) {
            Int64($0).map { $0 > 0 } == true
                ? nil : ("is no positive whole number", Variable.appAppleID.remedyWhenMissing)
        }.flatMap { Int64($0) }
        result.issuerID = text(.issuerID, isRequired: true, check: word)
        result.keyID = text(.keyID, isRequired: true, check: word)
        result.keyFile = text(.keyFile, isRequired: true)
        readAPI()
        result.rootCertificates = text(.rootCertificates, isRequired: true)
        readListen()
        result.forwarderTokenFile = text(.forwarderTokenFile)
        result.v1SharedSecretFile = text(.v1SharedSecretFile)
        result.changePriceRate = rate(.changePriceRate, production: 50)
        result.cancelRate = rate(.cancelRate, production: 5)
        result.extendRate = rate(.extendRate, production: 20)
        result.statusRate = rate(.statusRate, production: 50)
        readWebhook()
        readSchedule()
        readClock()
        result.migrations = text(.migrations)
        findUnknownVariables()
    }

    /// A check's verdict: nil, or what is wrong and the remedy.
    private typealias Fault = (wrong: String, remedy: String)

    private mutating func text(
        _ variable: Variable, isRequired: Bool = false, default fallback: String? = nil,
        check: (String) -> Fault? = { _ in nil }
    ) -> String? {
        guard let (value, source) = settings.value(variable.rawValue), !value.isEmpty else {
            note(variable, fallback, fallback == nil ? "unset" : "default")
            if isRequired {
                complain(variable, nil, ("is not set", variable.remedyWhenMissing))
            }
            return fallback
        }
        note(variable, value, source)
        if let fault = check(value) {
            complain(variable, source, ("\(quoted(value)) \(fault.wrong)", fault.remedy))
            return nil
        }
        return value
    }

    private mutating func note(_ variable: Variable, _ shown: String?, _ source: String) {
        result.entries.append(.init(variable: variable, shown: shown, source: source))
    }

    private mutating func complain(_ variable: Variable, _ source: String?, _ fault: Fault) {
        result.problems.append(
            ConfigurationProblem(
                variable.rawValue, source: source, fault.wrong, remedy: fault.remedy))
    }

    private func word(_ value: String) -> Fault? {
        let isPlain = value.utf8.allSatisfy { isLetterOrDigit($0) || $0 == 0x2D || $0 == 0x5F }
        return isPlain && value.count <= 255
            ? nil : ("holds characters that no id has", "copy it from App Store Connect again")
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
        let remedy = "write https://HOST or https://HOST:PORT, or leave it out for Apple's own"
        result.apiBaseURL = text(.apiBaseURL, default: fallback) { value in
            guard let url = BaseURL(value) else { return ("is no base URL", remedy) }
            return url.isTLS || url.isLoopback
                ? nil : ("is not https and not on this machine", remedy)
        }.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
        result.apiCAFile = text(.apiCAFile)
    }

    private mutating func readWebhook() {
        result.webhookURL = text(.webhookURL) { value in
            WebhookURL(value) == nil
                ? (
                    "is no https URL, nor http on this machine",
                    "write https://HOST/PATH, or leave it out"
                ) : nil
        }
        result.webhookSecretFile = text(
            .webhookSecretFile, isRequired: result.webhookURL != nil)
        result.webhookCAFile = text(.webhookCAFile)
    }

    private mutating func readListen() {
        let remedy = "write HOST:PORT, as 127.0.0.1:8080 or [::1]:8080"
        let value = text(.listen, default: "127.0.0.1:8080") { value in
            BaseURL.address(value) == nil ? ("is no address", remedy) : nil
        }
        result.listen = value.flatMap(BaseURL.address)
    }

    private mutating func rate(_ variable: Variable, production: Int) -> Configuration.CallRate? {
        let perThousand = result.environment == .sandbox ? production * 100 : production * 1000
        let value = text(variable, default: Self.shown(perThousand)) { value in
            Self.perThousand(value) == nil
                ? (
                    "is no number of calls a second from 0.001 to 1000",
                    "write one, as \(production) or 0.5"
                ) : nil
        }
        return value.flatMap(Self.perThousand).map {
            Configuration.CallRate(perThousandSeconds: $0)
        }
    }

    /// A rate as text, in calls a second.
    static func shown(_ perThousand: Int) -> String {
        PriceText.decimal(Int64(perThousand), decimals: perThousand % 1000 == 0 ? 0 : 1)
    }

    static func perThousand(_ text: String) -> Int? {
        // No floating point: a decimal of at most three places, as prices have, is exact.
        guard let value = try? PriceText.milliunits(decimal: text), (1...1_000_000).contains(value)
        else { return nil }
        return Int(value)
    }

    private mutating func readSchedule() {
        let remedy = "write a whole number and s, m, h or d, as 15m"
        let every = text(.reconcileEvery, default: "15m") { value in
            value == "off" || Span.duration(value) != nil
                ? nil : ("is no span of time", remedy + ", or off")
        }
        result.reconcileEvery = every.flatMap(Span.duration)
        // Apple's test environment shortens a month to minutes.
        let fallback = result.environment == .sandbox ? "10m" : "1d"
        let after = text(.silentAfter, default: fallback) { value in
            Span.duration(value) == nil ? ("is no span of time", remedy) : nil
        }
        result.silentAfter = after.flatMap(Span.duration)
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
            // A real App Store does not share an invented time: changes would be sent at wrong instants.
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
            // Compared without the common prefix, which would make everything look near.
            let prefix = "REPRICER_"
            let names = known.map { String($0.dropFirst(prefix.count)) }
            let near = nearest(to: String(key.dropFirst(prefix.count)), among: names)
            let remedy = near.map { "did you mean \(prefix)\($0)?" } ?? "remove it"
            result.unknownVariables.append(
                ConfigurationProblem(key, source: value.source, "is not known", remedy: remedy))
        }
    }
}

private func isLetterOrDigit(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
}
