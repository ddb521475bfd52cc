import Foundation
import TestSupport
import Testing

@testable import RepricerCommands

/// Whoever copies a command from a document, a message or a help text gets one that exists.
@Suite struct DocumentCommandTests {
    static let documents: [String] = {
        let folders = ["", "Deploy", "Deploy/docs", "Migrations", "Sources", "Tests"]
        return folders.flatMap { folder -> [String] in
            let path = RepositoryFiles.path(folder)
            let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
            return names.filter { $0.hasSuffix(".md") }.map {
                folder.isEmpty ? $0 : "\(folder)/\($0)"
            }
        }.sorted()
    }()

    @Test func documents_areFound() {
        #expect(documents.count >= 9)
    }

    private var documents: [String] { Self.documents }

    @Test(arguments: documents)
    func document_showsCommandsThatExist(_ path: String) throws {
        let text = try String(contentsOfFile: RepositoryFiles.path(path), encoding: .utf8)

        #expect(DocumentCommands(markdown: text).faults == [], "\(path)")
    }

    /// Options that scripts are said to take stand in the script.
    @Test(arguments: documents)
    func document_showsScriptsThatExist(_ path: String) throws {
        let text = try String(contentsOfFile: RepositoryFiles.path(path), encoding: .utf8)
        for one in DocumentCommands(markdown: text).shown {
            for words in DocumentCommands.commands(ofShell: one.text) {
                guard let script = words.first, script.hasPrefix("Deploy/"),
                    !script.contains(where: { $0 == "." || $0 == "*" })
                else { continue }
                let content = try? String(
                    contentsOfFile: RepositoryFiles.path(script), encoding: .utf8)
                guard let content else {
                    let isFolder = FileManager.default.fileExists(
                        atPath: RepositoryFiles.path(script))
                    #expect(isFolder, "\(path):\(one.line): no \(script)")
                    continue
                }
                for option in words.dropFirst() where option.hasPrefix("--") {
                    #expect(content.contains(option), "\(path):\(one.line): \(script) \(option)")
                }
            }
        }
    }

    /// What the program itself says: errors, hints, help, pages.
    @Test func sources_nameCommandsThatExist() throws {
        let root = RepositoryFiles.path("Sources")
        let files = try #require(FileManager.default.enumerator(atPath: root))
        var named = 0
        for case let file as String in files where file.hasSuffix(".swift") {
            if file.hasPrefix("SandboxStore") || file.hasPrefix("Benchmarks") { continue }
            let text = try String(contentsOfFile: "\(root)/\(file)", encoding: .utf8)
            for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false)
                .enumerated()
            {
                for match in line.matches(of: /(?:`|<code>)(repricer [a-z][^`<\\]*)/) {
                    named += 1
                    let faults = DocumentCommands(markdown: "`\(match.1)`").faults
                    #expect(faults == [], "Sources/\(file):\(index + 1)")
                }
            }
        }
        #expect(named > 40)
    }

    /// The check itself: each of these is wrong, and is found.
    @Test(arguments: [
        "```sh\nrepricer plann FILE\n```", "```sh\nrepricer plan\n```",
        "```sh\nrepricer plan a.csv --ass-of 2026-01-01Z\n```",
        "```sh\nrepricer report money --format cvs | head\n```",
        "```console\n$ ana submit a.csv\nid\n```", "```console\n$ X=1; ana undo\n```",
        "```sh\nrepricer \\\n  submit a.csv\n```",
        "Say `repricer rules imports` now.", "`submit FILE [--waves LIST] [--halt LIST]`",
        "`extend everything`",
    ])
    func aWrongCommand_isFound(_ markdown: String) {
        #expect(DocumentCommands(markdown: markdown).faults.count == 1)
    }

    @Test(arguments: [
        "```sh\nrepricer plan a.csv --as-of 2026-01-01Z >out 2>log # why\n```",
        "```console\n$ ana report money --format csv | cut -d, -f3,6\n$ echo repricer\n```",
        "```csv\nrepricer nonsense\n```", "`repricer help COMMAND`", "`undo BATCH [--dry-run]`",
        "`approve`", "`pause all the others`", "`config check|print`",
    ])
    func aRightCommand_isNoFault(_ markdown: String) {
        #expect(DocumentCommands(markdown: markdown).faults == [])
    }
}
