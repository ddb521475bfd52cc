import Foundation
import ServiceKit
import TestSupport
import Testing

@testable import HTTP
@testable import RepricerCommands
@testable import SandboxStore

/// The README's first day, typed as it stands there: by a person at a terminal, in a database of its own making,
/// against the simulated App Store.
@Suite(.database) struct FirstDayTests {
    private static let subscription = "2000000000020000"

    /// A cluster as Debian installs it: whoever comes over TCP shows a password, and the account `postgres` needs none.
    private static let cluster = [
        "\"$DEPLOY/postgres-private\" start pg --volatile >/dev/null",
        "trap 'kill $(jobs -p); \"$DEPLOY/postgres-private\" stop pg' EXIT",
        "printf \"listen_addresses = '127.0.0.1'\\nport = $PORT\\n\" >>pg/data/postgresql.conf",
        "printf 'local all all trust\\nhost all all 127.0.0.1/32 scram-sha-256\\n' >pg/data/pg_hba.conf",
        "\"$DEPLOY/postgres-private\" stop pg; \"$DEPLOY/postgres-private\" start pg --volatile >/dev/null",
        "sudo() { shift 2; PGHOST=$(cat pg/socket.path) PGPORT=$PORT PGUSER=postgres \"$@\"; }",
    ]

    /// What stands between the section's heading and the next one, in blocks of shell.
    static func commands(of section: String, in markdown: String) -> [String] {
        let lines = markdown.split(separator: "\n", omittingEmptySubsequences: false)
        let after = lines.drop { $0 != "## \(section)" }.dropFirst()
        var isShell = false
        return after.prefix { !$0.hasPrefix("## ") }.compactMap { line in
            if line.hasPrefix("```") {
                isShell = line == "```sh"
                return nil
            }
            return isShell && !line.isEmpty ? String(line) : nil
        }
    }

    @Test func readme_firstDay_typedLiterally_endsInAReport() async throws {
        let folder = try ScratchFolder()
        let (store, settings) = try await openStore(in: folder)
        defer { store.kill() }
        // As somebody in the repository's folder has it, who built a release.
        try FileManager.default.createDirectory(
            atPath: "\(folder.path)/.build", withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(
            atPath: "\(folder.path)/.build/release",
            withDestinationPath: Program.built("repricer").deletingLastPathComponent().path)
        try FileManager.default.copyItem(
            atPath: "\(folder.path)/store/root.pem", toPath: "\(folder.path)/AppleRootCA-G3.cer")
        _ = try folder.file(
            "prices.csv",
            "original_transaction_id,sku,price,currency\n\(Self.subscription),FAR,59.90,USD\n")
        let readme = try String(
            contentsOfFile: RepositoryFiles.path("README.md"), encoding: .utf8)
        let typed = Self.commands(of: "First day with your own app", in: readme)
        #expect(typed.count > 10)
        // The price more than doubles, so that the first approval is not enough, as the README says.
        let isFirst = { (line: String) in line.contains("approve ") && line.contains("approver.env")
        }
        #expect(typed.count(where: isFirst) == 1)
        let lines = typed.map { isFirst($0) ? "\($0) || [ $? -eq 4 ]" : $0 }
        let before = ["set -e", "stty cols 200 rows 50", "cd \(folder.path)"] + Self.cluster
        let script = try folder.file("day.sh", (before + lines).map { $0 + "\n" }.joined())
        let answers = [
            "Sandbox", settings["REPRICER_BUNDLE_ID"] ?? "", settings["REPRICER_ISSUER_ID"] ?? "",
            settings["REPRICER_KEY_ID"] ?? "", "store/key.p8", "DATABASE", "ana", "ben", "fiona",
            "y", "y",
        ]
        let port = try Listener(host: "127.0.0.1", port: 0).port
        let input = try folder.file(
            "answers",
            answers.map {
                $0 == "DATABASE" ? "postgresql://localhost:\(port)/repricer\n" : $0 + "\n"
            }
            .joined())

        let end = try await Program.run(
            URL(fileURLWithPath: "/bin/bash"),
            ["-c", "script -qec 'bash \(script)' /dev/null <\(input)"],
            environment: [
                "PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin",
                "TERM": "xterm", "PAGER": "cat",
                "PORT": "\(port)", "DEPLOY": RepositoryFiles.path("Deploy"),
                "REPRICER_API_BASE_URL": settings["REPRICER_API_BASE_URL"] ?? "",
                "REPRICER_API_CA_FILE": settings["REPRICER_API_CA_FILE"] ?? "",
                "REPRICER_LISTEN": "127.0.0.1:0", "REPRICER_PAGES_LISTEN": "127.0.0.1:0",
                "REPRICER_MIGRATIONS": RepositoryFiles.path("Migrations"),
            ])

        #expect(end.code == 0, "\(end.output.suffix(6000)) \(end.messages)")
        for told in [
            "and takes our key", "can go  yes: all of 1 row",
            "approved 1 change of Spring prices", "forecast_consent",
        ] {
            let shown = end.output.contains(told)
            #expect(shown, "\(told): \(end.output.suffix(6000))")
        }
    }

    private func openStore(
        in folder: ScratchFolder
    ) async throws -> (Program, settings: [String: String]) {
        let data = "\(folder.path)/store"
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        // A month of an hour: nothing renews while somebody types.
        let seed = ProcessHarness.Seed(month: 3600)
        try StoreFolder(data).save(seed.file(now: SystemClock().nowMilliseconds()))
        let store = try Program(
            Program.built("appstore-sandbox"),
            [
                "serve", "--data", data, "--listen", "127.0.0.1:0", "--notify",
                "http://127.0.0.1:9/notifications",
            ], environment: [:])
        try await eventually("the store's settings") {
            FileManager.default.fileExists(atPath: "\(data)/sandbox.env")
        }
        let text = try String(contentsOfFile: "\(data)/sandbox.env", encoding: .utf8)
        let pairs = text.split(separator: "\n").map {
            $0.split(separator: "=", maxSplits: 1).map(String.init)
        }
        return (
            store,
            Dictionary(uniqueKeysWithValues: pairs.filter { $0.count == 2 }.map { ($0[0], $0[1]) })
        )
    }
}
