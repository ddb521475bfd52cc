import Foundation
import HTTP
import TestSupport
import Testing

@testable import Pages

/// Every page in a real Chromium: `Deploy/browse` tells what is asked of it. Without a Chromium this fails, and says so.
///
/// With `BROWSE_PICTURES=DIR` screenshots and the printed pages are kept there.
@Suite(.database) struct BrowserTests {
    /// Ten of them at a time, so that no browser lives long.
    private static let parts = stride(from: 0, to: PagesTests.all.count, by: 10).map {
        Array(PagesTests.all[$0..<min($0 + 10, PagesTests.all.count)])
    }

    /// What somebody sees whose address or choice is wrong.
    private static let faults = [
        "/nothing", "/batches/00000000-0000-7000-8000-0000000000ff", "/subscriptions/999",
        "/reports/money?as_of=yesterday", "/reports/money?currency=euro",
        "/search?q=" + String(repeating: "x", count: 129),
    ]

    private static let odd =
        ["/", "/health", "/search?q=nothing-is-called-so", "/search?q=%3Cscript%3E"]
        + (1...9).map { "/batches/\(PagesFixture.odd($0))" }
        + [2, 6, 8, 9].map { "/batches/\(PagesFixture.odd($0))/approval" }
        + [
            "/subscriptions/\(PagesFixture.manySubscription)",
            "/reports/price_change?batch=\(PagesFixture.odd(2))", "/reports/batch_summary",
        ]

    @Test(arguments: parts)
    func pages_inARealBrowser_areReadableOnScreensAndOnPaper(_ paths: [String]) async throws {
        try await PagesFixture.fill()
        try await PagesFixture.fillReports()

        try await Self.browse(paths)
    }

    @Test func pagesOfOddBatches_inARealBrowser_areReadable() async throws {
        try await PagesFixture.fill()
        try await PagesFixture.fillOdd()
        try await PagesFixture.fillQueues()
        try await PagesFixture.stopEverything()

        try await Self.browse(Self.odd)
    }

    @Test func home_ofTwoHundredBatches_isReadable() async throws {
        try await PagesFixture.fill()
        try await PagesFixture.fillMany(200)

        try await Self.browse(["/?refresh=off", "/reports/batch_summary"])
    }

    @Test func pagesOfFaults_inARealBrowser_areReadable() async throws {
        try await PagesFixture.fill()

        try await Self.browse(Self.faults, isRefused: true)
    }

    /// The database is away.
    @Test func pages_withoutADatabase_areReadable() async throws {
        try await Self.browse(
            ["/", "/health", "/reports/money"], isRefused: true, conninfo: "host=/nowhere")
    }

    /// What was wrong with the pages once, planted: a rule that finds nothing of it would find nothing at all.
    @Test func rules_ofPlantedFaults_findEach() async throws {
        try await PagesFixture.fill()
        let plant: @Sendable (String, HTTPResponse) -> HTTPResponse = { target, response in
            var response = response
            var text = response.text
            switch target {
            // A table whose columns lie beyond the edge of a phone, and of a tablet.
            case "/": text = text.replacing(" class=\"stacked broad\"", with: "")
            // A drawing that is fitted to its place, its letters with it.
            default:
                text = text.replacing(
                    "<svg class=\"curve\"", with: "<svg viewBox=\"0 0 1000 240\" class=\"curve\"")
            }
            response.body = Array(text.utf8)
            return response
        }

        let end = try await Self.opened(
            ["/", "/batches/\(PagesFixture.underWay)"], changing: plant)

        #expect(end.code == 1, "\(end.messages)")
        let said = end.output.split(separator: "\n")
        for width in [390, 820] {
            #expect(
                said.contains { $0.hasPrefix("/ \(width) light: cuts off Batches") },
                "\(end.output)")
        }
        let letters = said.filter { $0.contains("390 light: has letters of ") }
        #expect(letters.contains { $0.hasPrefix("/batches/") }, "\(end.output)")
    }

    private static func browse(
        _ paths: [String], isRefused: Bool = false, conninfo: String = TestDatabase.url
    ) async throws {
        let end = try await opened(paths, conninfo: conninfo)

        // Chromium notes on the console that a page itself was refused.
        let faults = end.output.split(separator: "\n").filter { line in
            !isRefused
                || !paths.contains {
                    line.hasPrefix("\($0) ")
                        && line.contains(
                            "\($0) - Failed to load resource: the server responded with a status of "
                        )
                }
        }
        #expect(faults.isEmpty, "\(faults.joined(separator: "\n"))\(end.messages)")
        #expect(end.messages.contains("browse: \(paths.count) pages, "), "\(end.messages)")
    }

    private static func opened(
        _ paths: [String], conninfo: String = TestDatabase.url,
        changing: @escaping @Sendable (String, HTTPResponse) -> HTTPResponse = { $1 }
    ) async throws -> Program.End {
        let environment = ProcessInfo.processInfo.environment
        let pictures = environment["BROWSE_PICTURES"].map { ["--pictures", $0] } ?? []
        return try await PagesHarness.withPages(conninfo: conninfo, changing: changing) { _, base in
            try await Program.run(
                URL(fileURLWithPath: RepositoryFiles.path("Deploy/browse")),
                // Beside other tests a browser takes its time over twenty pages, twice on screens and once on paper.
                pictures + [base] + paths, environment: environment, within: .seconds(300))
        }
    }
}
