import HTTP
import ServiceKit
import TestSupport
import Testing

@testable import RepricerCommands

@Suite struct ConfigurationTests {
    private static let complete = [
        "REPRICER_DATABASE_URL": "postgresql://ana:secret@db/prices",
        "REPRICER_BUNDLE_ID": "com.example.app", "REPRICER_APP_APPLE_ID": "1234",
        "REPRICER_ENVIRONMENT": "Production", "REPRICER_ISSUER_ID": "57246542-96fe-1a63",
        "REPRICER_KEY_ID": "ABC123", "REPRICER_KEY_FILE": "/k.p8",
        "REPRICER_ROOT_CERTIFICATES": "/roots",
    ]

    private func read(
        _ changes: [String: String], clock: String? = nil
    ) throws -> Configuration {
        let values = Self.complete.merging(changes) { $1 }
        return Configuration(
            settings: try Settings.load(environment: values, envFile: nil), clockOption: clock)
    }

    /// The file belongs to root, and systemd hands over a copy that the service may read.
    @Test func secret_thatSystemdHandsOver_isReadThere() throws {
        let folder = try ScratchFolder()
        let copy = try folder.file("k.p8", "key")

        #expect(try read(["CREDENTIALS_DIRECTORY": folder.path]).keyFile == copy)
        #expect(try read(["CREDENTIALS_DIRECTORY": "/nowhere"]).keyFile == "/k.p8")
        #expect(try read(["CREDENTIALS_DIRECTORY": ""]).keyFile == "/k.p8")
        #expect(try read([:]).keyFile == "/k.p8")
    }

    @Test func configuration_whenComplete_hasDefaultsAndNoProblem() throws {
        let configuration = try read([:])

        #expect(configuration.problems.isEmpty)
        #expect(configuration.apiBaseURL == "https://api.storekit.apple.com")
        #expect(configuration.listen == .init(host: "127.0.0.1", port: 8080))
        #expect(configuration.pagesListen == .init(host: "127.0.0.1", port: 8081))
        #expect(configuration.changePriceRate?.perSecond == 50)
        #expect(configuration.cancelRate?.perSecond == 5)
        #expect(configuration.extendRate?.perSecond == 20)
        #expect(configuration.statusRate?.perSecond == 50)
        #expect(
            configuration.entries.map(\.variable).sorted { $0.rawValue < $1.rawValue }
                == Variable.allCases.sorted { $0.rawValue < $1.rawValue })
    }

    @Test func configuration_inSandbox_hasATenthOfTheRatesAndNeedsNoAppID() throws {
        let configuration = try read([
            "REPRICER_ENVIRONMENT": "Sandbox", "REPRICER_APP_APPLE_ID": "",
        ])

        #expect(configuration.problems.isEmpty)
        #expect(configuration.apiBaseURL == "https://api.storekit-sandbox.apple.com")
        #expect(configuration.changePriceRate?.perThousandSeconds == 5000)
        #expect(configuration.cancelRate?.perThousandSeconds == 500)
        #expect(configuration.extendRate?.perThousandSeconds == 2000)
        #expect(configuration.statusRate?.perThousandSeconds == 5000)
    }

    @Test func configuration_whenEmpty_namesEveryMissingVariableWithItsRemedy() throws {
        let configuration = Configuration(
            settings: try Settings.load(environment: [:], envFile: nil))

        #expect(
            configuration.problems.map(\.description) == [
                "REPRICER_BUNDLE_ID: is not set; set it to the app's bundle identifier, as "
                    + "com.example.app",
                "REPRICER_ENVIRONMENT: is not set; set it to Sandbox or Production",
                "REPRICER_ISSUER_ID: is not set; set it to the issuer id that App Store Connect "
                    + "shows above the keys",
                "REPRICER_KEY_ID: is not set; set it to the id of the In-App Purchase key",
                "REPRICER_KEY_FILE: is not set; set it to the path of the key's .p8 file",
                "REPRICER_ROOT_CERTIFICATES: is not set; set it to a file or folder with Apple's "
                    + "root CA certificates, and put AppleRootCA-G3.cer from "
                    + "https://www.apple.com/certificateauthority/ there (SHA-256 \(AppleRoot.sha256))",
            ])
    }

    @Test(arguments: [
        ("REPRICER_ENVIRONMENT", "production"), ("REPRICER_APP_APPLE_ID", "-1"),
        ("REPRICER_APP_APPLE_ID", "12x"), ("REPRICER_BUNDLE_ID", "com example"),
        ("REPRICER_KEY_ID", "A B"), ("REPRICER_ISSUER_ID", "a/b"),
        ("REPRICER_API_BASE_URL", "http://example.com"),
        ("REPRICER_API_BASE_URL", "https://example.com/path"),
        ("REPRICER_API_BASE_URL", "https://user@example.com"),
        ("REPRICER_API_BASE_URL", "ftp://example.com"),
        ("REPRICER_API_BASE_URL", "https://example.com:99999"),
        ("REPRICER_LISTEN", "8080"), ("REPRICER_LISTEN", "host:port"),
        ("REPRICER_LISTEN", "host:65536"), ("REPRICER_LISTEN", "::1:80"),
        ("REPRICER_PAGES_LISTEN", "8081"), ("REPRICER_PAGES_LISTEN", "on"),
        ("REPRICER_PAGES_LISTEN", "host:65536"), ("REPRICER_PAGES_LISTEN", ":8081"),
        ("REPRICER_TRUSTED_PROXIES", "proxy.example.com"),
        ("REPRICER_TRUSTED_PROXIES", "10.0.0.0/33"),
        ("REPRICER_TRUSTED_PROXIES", "127.0.0.1,"), ("REPRICER_ADDRESS_SHARE", "0"),
        ("REPRICER_ADDRESS_SHARE", "101"), ("REPRICER_ADDRESS_SHARE", "25%"),
        ("REPRICER_CHANGE_PRICE_RATE", "0"), ("REPRICER_CHANGE_PRICE_RATE", "fast"),
        ("REPRICER_CANCEL_RATE", "-5"), ("REPRICER_STATUS_RATE", "1001"),
        ("REPRICER_EXTEND_RATE", "1e3"), ("REPRICER_CLOCK", "tomorrow"),
    ])
    func configuration_whenAValueIsWrong_namesItsVariableAlone(
        _ variable: String, _ value: String
    ) throws {
        let problems = try read([variable: value]).problems

        #expect(problems.map(\.subject) == [variable])
        #expect(problems.first?.wrong.contains(quoted(value)) == true)
    }

    @Test(arguments: [
        ("127.0.0.1:8081", true), ("localhost:8081", true), ("[::1]:0", true), ("off", true),
        ("127.9.9.9:1", true), ("0.0.0.0:8081", false), ("[::]:8081", false),
        ("10.0.0.7:8081", false), ("[::ffff:127.0.0.1]:1", false),
        ("127.0.0.1.example.com:1", false),
        ("localhost.example.com:1", false), ("pages.example.com:8081", false), ("127.1:1", false),
    ])
    func pages_thatOthersReach_needAPassword(_ address: String, _ isPrivate: Bool) throws {
        let open = try read(["REPRICER_PAGES_LISTEN": address]).problems
        let closed = try read([
            "REPRICER_PAGES_LISTEN": address, "REPRICER_PAGES_TOKEN_FILE": "/pages.token",
        ])

        #expect(
            open.map(\.description)
                == (isPrivate
                    ? []
                    : [
                        "REPRICER_PAGES_TOKEN_FILE: is not set; other machines reach "
                            + "REPRICER_PAGES_LISTEN: set it to the path of a file with the pages' "
                            + "password, or listen on 127.0.0.1"
                    ]))
        #expect(closed.problems.isEmpty)
        #expect(closed.pagesTokenFile == "/pages.token")
    }

    @Test(arguments: [
        ("127.0.0.1:9000", "127.0.0.1:9000", true), ("127.0.0.1:8081", nil, true),
        ("0.0.0.0:9000", "127.0.0.1:9000", true), ("[::1]:9000", "[::]:9000", true),
        ("127.0.0.1:9000", "[::1]:9000", false), ("127.0.0.1:0", "127.0.0.1:0", false),
        ("127.0.0.1:8081", "off", false),
    ])
    func listeners_ofOnePort_areRefusedTogether(
        _ listen: String, _ pages: String?, _ isRefused: Bool
    ) throws {
        var values = ["REPRICER_LISTEN": listen, "REPRICER_PAGES_TOKEN_FILE": "/pages.token"]
        values["REPRICER_PAGES_LISTEN"] = pages

        let problems = try read(values).problems

        #expect(problems.map(\.subject) == (isRefused ? ["REPRICER_PAGES_LISTEN"] : []))
        #expect(
            problems.allSatisfy { $0.wrong.contains("is taken by REPRICER_LISTEN (\(listen))") })
    }

    @Test(arguments: ["REPRICER_WEBHOOK_URL", "REPRICER_API_BASE_URL"])
    func password_inAnAddress_isRefusedAndNotShown(_ variable: String) throws {
        let configuration = try read([variable: "https://caller:Sesame1@hooks.example.com/in"])

        #expect(configuration.problems.map(\.subject).contains(variable))
        #expect(!configuration.problems.description.contains("Sesame1"))
        #expect(!configuration.entries.compactMap(\.shown).joined().contains("Sesame1"))
    }

    @Test(arguments: [
        ("https://127.0.0.1:9090", true), ("https://localhost:9090", true),
        ("http://[::1]:9090", true), ("https://127.0.0.1.example.com", false),
        ("https://localhost.example.com", false), ("https://api.storekit.apple.com", false),
        ("https://10.0.0.1", false),
    ])
    func virtualClock_isAllowedOnlyAgainstLoopback(_ baseURL: String, _ isAllowed: Bool) throws {
        let configuration = try read(
            ["REPRICER_API_BASE_URL": baseURL], clock: "2026-01-05T00:00:00Z@86400@1790000000000")

        #expect((configuration.clock != nil) == isAllowed)
        #expect(configuration.problems.map(\.subject) == (isAllowed ? [] : ["REPRICER_CLOCK"]))
    }

    @Test(
        arguments: [
            (nil, ["127.0.0.1", "::1"]), ("none", []), ("*", ["::/0"]),
            ("10.0.0.0/8, fd00::/8", ["10.0.0.0/8", "fd00::/8"]),
        ] as [(String?, [String])])
    func trustedProxies_areLoopbackUnlessGiven(_ value: String?, _ ranges: [String]) throws {
        let configuration = try read(value.map { ["REPRICER_TRUSTED_PROXIES": $0] } ?? [:])

        #expect(configuration.trustedProxies == ranges.compactMap(AddressRange.init))
        #expect(configuration.addressShare == 25)
    }

    @Test func clockOption_whenRefused_isAUsageError() async {
        let outcome = await run(
            "rules", "show", "--clock", "2026-01-05T00:00:00Z@86400", environment: Self.complete)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("a virtual clock is refused"))
    }

    @Test func clock_withOrigin_runsOnTheMachinesClock() async throws {
        let harness = Dependencies(
            realClock: ManualClock(1_790_000_001_000), output: OutputMemory().sink,
            messages: OutputMemory().sink)
        let configuration = try read(
            ["REPRICER_API_BASE_URL": "http://127.0.0.1:9"],
            clock: "2026-01-05T00:00:00Z@86400@1790000000000")

        let clock = try await configuration.makeClock(dependencies: harness)

        #expect(RFC3339.format(clock.nowMilliseconds()) == "2026-01-06T00:00:00Z")
    }

    @Test func clock_withoutOriginWhereNobodyAnswers_isUnavailable() async {
        let outcome = await run(
            "rules", "show", "--clock", "2026-01-05T00:00:00Z@86400",
            environment: Self.complete.merging(
                ["REPRICER_API_BASE_URL": "http://127.0.0.1:1"]) { $1 })

        #expect(outcome.code == .unavailable)
        #expect(outcome.messages.contains("gives no origin for the clock"))
    }

    @Test func unknownVariable_isTold_withTheLikelyName() throws {
        let unknown = try read(["REPRICER_KEY_FIEL": "/x", "REPRICER_COLOUR": "y"]).unknownVariables

        #expect(
            unknown.map(\.description) == [
                "REPRICER_COLOUR: is not known; remove it",
                "REPRICER_KEY_FIEL: is not known; did you mean REPRICER_KEY_FILE?",
            ])
    }

    @Test func configPrint_showsEachValueAndSource_neverAPassword() async {
        let outcome = await run("config", "print", environment: Self.complete)

        #expect(outcome.code == .done)
        #expect(!outcome.output.contains("secret"))
        #expect(outcome.output.contains("postgresql://ana:********@db/prices"))
        #expect(outcome.output.contains("REPRICER_KEY_FILE"))
    }

    @Test(arguments: [
        (
            "https://h.example.com/a?token=s3&team=x",
            "https://h.example.com/a?token=********&team=********"
        ),
        ("https://me:s3@h.example.com/a?s3", "https://me:********@h.example.com/a?********"),
    ])
    func configPrint_ofAnAddress_showsNoSecretInIt(address: String, shown: String) async {
        let outcome = await run(
            "config", "print",
            environment: Self.complete.merging(["REPRICER_WEBHOOK_URL": address]) { $1 })

        #expect(outcome.output.contains(shown))
        #expect(!(outcome.output + outcome.messages).contains("s3"))
    }

    @Test func envFile_whenMissing_isNamed() async {
        let outcome = await run("config", "print", "--env-file", "/nowhere/x.env")

        #expect(outcome.code == .failed)
        #expect(outcome.messages.hasPrefix("repricer: /nowhere/x.env: "))
    }

    @Test func serve_whenNothingIsSet_namesEveryVariableAtOnce() async {
        let outcome = await run("serve")

        #expect(outcome.code == .failed)
        for variable in ["BUNDLE_ID", "ENVIRONMENT", "ISSUER_ID", "KEY_ID", "KEY_FILE"] {
            #expect(outcome.messages.contains("repricer: REPRICER_\(variable): is not set; "))
        }
    }
}

@Suite struct ConnectionStringTests {
    @Test(arguments: [
        ("postgresql://ana:pw@db/prices", "postgresql://ana:********@db/prices"),
        ("postgres://ana@db", "postgres://ana@db"),
        ("postgresql://a:p@ss@db", "postgresql://a:********@db"),
        (
            "postgresql:///d?host=/tmp&password=pw&user=x",
            "postgresql:///d?host=/tmp&password=********&user=x"
        ),
        (
            "postgresql://a:b@h1:1,h2:2/d?sslpassword=q",
            "postgresql://a:********@h1:1,h2:2/d?sslpassword=********"
        ),
        ("host=db password=pw user=x", "host=db password=******** user=x"),
        ("host=db password = 'a b\\'c' user=x", "host=db password=******** user=x"),
        ("PASSWORD=pw", "PASSWORD=********"), ("host='a b'", "host='a b'"),
        ("password=a\\ b host=db", "password=******** host=db"),
        ("just words", "********"), ("", ""),
    ])
    func connectionString_whenShown_hasNoPassword(_ text: String, _ shown: String) {
        #expect(ConnectionString.withoutPassword(text) == shown)
    }

    @Test func libpqVariables_ofAnEnvironmentFile_becomeAConnectionString() throws {
        let settings = try Settings.load(
            environment: ["PGHOST": "/tmp", "PGUSER": "o'neil \\", "PGPORT": ""], envFile: nil)

        #expect(
            ConnectionString.fromLibpqVariables(settings) == "host='/tmp' user='o\\'neil \\\\'")
    }
}
