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

func program(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

func tests(_ module: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .testTarget(
        name: "\(module)Tests", dependencies: [.target(name: module)] + dependencies,
        swiftSettings: strict)
}

let package = Package(
    name: "repricer",
    targets: [
        .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),

        module("ServiceKit"),
        module("JSONReading"),
        module("Pricing"),
        module("Postgres", ["CLibPQ", "ServiceKit"]),
        module("JOSE", ["COpenSSL", "JSONReading"]),
        module("HTTP", ["COpenSSL", "ServiceKit"]),
        module("AppStore", ["JOSE", "HTTP", "JSONReading", "Pricing", "ServiceKit"]),
        module("Ledger", ["JSONReading", "Postgres", "Pricing", "ServiceKit"]),
        module("Orchestrator", ["AppStore", "Ledger", "Pricing", "ServiceKit"]),
        module("Reports", ["Ledger", "Pricing"]),
        module(
            "Receiver",
            [
                "CZlib", "HTTP", "AppStore", "JSONReading", "Ledger", "Pricing", "Reports",
                "ServiceKit",
            ]),
        module(
            "RepricerCommands",
            [
                "ServiceKit", "Pricing", "Postgres", "JOSE", "HTTP", "AppStore", "Ledger",
                "Orchestrator", "Reports", "Receiver",
            ]),
        module("SandboxStore", ["JOSE", "HTTP", "ServiceKit"]),
        program("repricer", ["RepricerCommands"]),
        program("appstore-sandbox", ["SandboxStore"]),
        program(
            "Benchmarks",
            ["COpenSSL", "AppStore", "JOSE", "Ledger", "Orchestrator", "Pricing", "ServiceKit"]),

        .target(
            name: "TestSupport", dependencies: ["Postgres", "Ledger", "ServiceKit"],
            path: "Tests/TestSupport", swiftSettings: strict),
        .target(
            name: "FoldStories", dependencies: ["Pricing"], path: "Tests/FoldStories",
            swiftSettings: strict),
        .executableTarget(
            name: "fold-orders", dependencies: ["FoldStories"], path: "Tests/FoldOrders",
            swiftSettings: strict),
        tests("ServiceKit"),
        tests("JSONReading"),
        tests("Pricing", ["TestSupport", "FoldStories"]),
        tests("Postgres", ["TestSupport"]),
        tests("JOSE", ["ServiceKit"]),
        tests("HTTP", ["TestSupport", "ServiceKit"]),
        tests("AppStore", ["TestSupport", "JOSE", "HTTP", "Pricing", "ServiceKit"]),
        tests("Ledger", ["TestSupport", "FoldStories", "Postgres", "Pricing", "ServiceKit"]),
        tests(
            "Orchestrator",
            [
                "TestSupport", "FoldStories", "Postgres", "Ledger", "Pricing", "AppStore", "JOSE",
                "HTTP", "ServiceKit", "SandboxStore", "Receiver",
            ]),
        tests("Reports", ["TestSupport", "Postgres", "Ledger", "Pricing"]),
        tests(
            "Receiver",
            ["TestSupport", "Postgres", "Ledger", "AppStore", "JOSE", "HTTP", "ServiceKit"]),
        tests(
            "RepricerCommands",
            [
                "TestSupport", "Postgres", "Ledger", "Orchestrator", "JOSE", "HTTP", "ServiceKit",
                "SandboxStore", "repricer", "appstore-sandbox",
            ]),
        tests("SandboxStore", ["TestSupport", "JOSE", "HTTP", "ServiceKit"]),
        .testTarget(
            name: "TidyTests", dependencies: ["TestSupport", "Pricing"], swiftSettings: strict),
    ]
)

// Only where libFuzzer is linked (Deploy/fuzz): its entry exists nowhere else.
if Context.environment["REPRICER_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "CZlib", "JOSE", "HTTP", "JSONReading", "AppStore", "Orchestrator", "Pricing",
                "Receiver",
            ],
            path: "Tests/Fuzz", swiftSettings: strict,
            // gold, the default, fails on the driver's debug information.
            linkerSettings: [.unsafeFlags(["-use-ld=lld"])]))
}
