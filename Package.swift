// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]

/// A module of ours: its dependencies are the arrows of `Sources/README.md`, enforced at build.
func module(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, exclude: [], swiftSettings: strict)
}

/// A module in C.
func module(_ name: String, cSettings: [CSetting]) -> Target {
    .target(name: name, cSettings: cSettings)
}

func program(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

/// Tests are not optimised, which would take minutes: their time is that of what they test.
let plain = strict + [.unsafeFlags(["-Onone"], .when(configuration: .release))]

func tests(_ module: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .testTarget(
        name: "\(module)Tests", dependencies: [.target(name: module)] + dependencies,
        swiftSettings: plain)
}

/// The commit of the sources, for whoever builds a release (`Deploy/package`): only one C file is compiled anew for it.
let commit: [CSetting] =
    Context.environment["REPRICER_COMMIT"].map {
        [.define("REPRICER_COMMIT", to: "\"\($0.filter(\.isHexDigit))\"")]
    } ?? []

let package = Package(
    name: "repricer",
    targets: [
        .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        module("CRelease", cSettings: commit),

        module("ServiceKit"),
        module("Digests", ["COpenSSL", "ServiceKit"]),
        module("JSON"),
        module("Pricing", ["JSON", "Digests"]),
        module("Postgres", ["CLibPQ", "ServiceKit"]),
        module("JOSE", ["COpenSSL", "ServiceKit", "Digests", "JSON"]),
        module("HTTP", ["COpenSSL", "ServiceKit"]),
        module("AppStore", ["ServiceKit", "Digests", "JSON", "Pricing", "JOSE", "HTTP"]),
        module("Facts", ["ServiceKit", "JSON", "Pricing", "Postgres"]),
        module("Calls", ["ServiceKit", "Pricing", "AppStore", "Facts"]),
        module(
            "Notifications",
            ["ServiceKit", "JSON", "Pricing", "Postgres", "HTTP", "AppStore", "Facts"]),
        module("Batches", ["ServiceKit", "Digests", "JSON", "Pricing", "Postgres", "Facts"]),
        module(
            "PriceChanges",
            ["ServiceKit", "JSON", "Pricing", "Postgres", "AppStore", "Facts", "Calls", "Batches"]),
        module("Dependents", ["ServiceKit", "Pricing", "Postgres", "AppStore", "Facts", "Calls"]),
        module(
            "Extensions",
            [
                "ServiceKit", "Pricing", "Postgres", "AppStore", "Facts", "Calls", "Notifications",
                "PriceChanges",
            ]),
        module(
            "Reconciliation",
            [
                "ServiceKit", "Pricing", "Postgres", "AppStore", "Facts", "Calls", "Notifications",
                "Batches", "PriceChanges",
            ]),
        module("Outbox", ["ServiceKit", "Digests", "Postgres", "Facts"]),
        module("Reports", ["ServiceKit", "Digests", "JSON", "Pricing", "Postgres", "Facts"]),
        module(
            "Pages",
            [
                "ServiceKit", "Pricing", "Postgres", "HTTP", "Facts", "Batches", "Reconciliation",
                "Reports",
            ]),
        module(
            "RepricerCommands",
            [
                "CRelease", "ServiceKit", "Digests", "JSON", "Pricing", "Postgres", "JOSE", "HTTP",
                "AppStore", "Facts", "Calls", "Notifications", "Batches", "PriceChanges",
                "Dependents", "Extensions",
                "Reconciliation", "Outbox", "Reports", "Pages",
            ]),
        module("SandboxStore", ["CRelease", "COpenSSL", "ServiceKit", "Digests", "JOSE", "HTTP"]),
        program("repricer", ["RepricerCommands"]),
        program("appstore-sandbox", ["SandboxStore"]),
        program(
            "Benchmarks",
            [
                "COpenSSL", "ServiceKit", "Pricing", "JOSE", "AppStore", "Facts", "Calls",
                "Notifications", "PriceChanges", "SandboxStore",
            ]),

        .target(
            name: "TestSupport", dependencies: ["Postgres", "Facts", "Pricing", "ServiceKit"],
            path: "Tests/TestSupport", swiftSettings: strict),
        .target(
            name: "FoldStories", dependencies: ["Pricing"], path: "Tests/FoldStories",
            swiftSettings: strict),
        .executableTarget(
            name: "fold-orders", dependencies: ["FoldStories"], path: "Tests/FoldOrders",
            swiftSettings: strict),
        .target(
            name: "Simulation",
            dependencies: [
                "ServiceKit", "Pricing", "Postgres", "JOSE", "HTTP", "AppStore", "Facts", "Calls",
                "Notifications", "Batches", "PriceChanges", "Dependents", "Extensions",
                "Reconciliation", "Reports", "SandboxStore",
            ],
            path: "Tests/Simulation", swiftSettings: strict),
        .executableTarget(
            name: "simulate", dependencies: ["Simulation"], path: "Tests/Simulate",
            swiftSettings: strict),
        tests("ServiceKit", ["TestSupport"]),
        tests("JSON"),
        tests("Pricing", ["Digests", "TestSupport", "FoldStories"]),
        tests("Postgres", ["TestSupport"]),
        tests("JOSE", ["ServiceKit", "SandboxStore"]),
        tests("HTTP", ["TestSupport", "ServiceKit"]),
        tests(
            "AppStore",
            ["Digests", "TestSupport", "JOSE", "HTTP", "Pricing", "ServiceKit", "SandboxStore"]),
        tests(
            "Facts",
            [
                "TestSupport", "FoldStories", "Postgres", "Pricing", "ServiceKit", "Batches",
                "Notifications", "Calls",
            ]),
        // Stories that cross the slices: from a batch to what its customers say.
        .testTarget(
            name: "SliceTests",
            dependencies: [
                "TestSupport", "FoldStories", "Postgres", "Facts", "Calls", "Notifications",
                "Batches",
                "PriceChanges", "Dependents", "Extensions", "Reconciliation", "Outbox", "Reports",
                "Pricing",
                "AppStore",
                "JOSE", "HTTP", "ServiceKit", "SandboxStore", "Simulation",
            ], swiftSettings: plain),
        tests("Reports", ["TestSupport", "Postgres", "Facts", "Pricing", "ServiceKit"]),
        tests(
            "Pages",
            ["TestSupport", "Postgres", "Facts", "Pricing", "HTTP", "ServiceKit", "Reports"]),
        tests(
            "Notifications",
            [
                "Digests", "TestSupport", "Postgres", "Facts", "AppStore", "JOSE", "HTTP",
                "ServiceKit", "SandboxStore",
            ]),
        tests(
            "RepricerCommands",
            [
                "Digests", "TestSupport", "Postgres", "Facts", "Batches", "Extensions",
                "Notifications", "Outbox",
                "Reconciliation", "Reports", "Pages", "JOSE", "HTTP", "ServiceKit", "SandboxStore",
                "repricer", "appstore-sandbox",
            ]),
        tests("SandboxStore", ["TestSupport", "JOSE", "HTTP", "ServiceKit"]),
        .testTarget(
            name: "TidyTests", dependencies: ["TestSupport", "Pricing"], swiftSettings: plain),
    ]
)

// Only where libFuzzer is linked (Deploy/fuzz): its entry exists nowhere else.
if Context.environment["REPRICER_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "JOSE", "HTTP", "JSON", "AppStore", "Batches", "Pricing",
                "Notifications", "SandboxStore",
            ],
            path: "Tests/Fuzz", swiftSettings: strict,
            // gold, the default, fails on the driver's debug information.
            linkerSettings: [.unsafeFlags(["-use-ld=lld"])]))
}
