import Foundation
import TestSupport
import Testing

@testable import Pages

/// Every page in a real Chromium: `Deploy/browse` tells what is asked of it. Without a Chromium this fails, and says so.
///
/// With `BROWSE_PICTURES=DIR` screenshots and the printed pages are kept there.
@Suite(.database) struct BrowserTests {
    private static let parts = [
        Array(PagesTests.all.prefix(8)), Array(PagesTests.all.dropFirst(8).prefix(8)),
        Array(PagesTests.all.dropFirst(16)),
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

    private static func browse(_ paths: [String]) async throws {
        let environment = ProcessInfo.processInfo.environment
        let pictures = environment["BROWSE_PICTURES"].map { ["--pictures", $0] } ?? []
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { _, base in
            let end = try await Program.run(
                URL(fileURLWithPath: RepositoryFiles.path("Deploy/browse")),
                // Beside other tests a browser takes its time over twenty pages, twice on screens and once on paper.
                pictures + [base] + paths, environment: environment, within: .seconds(300))

            #expect(end.code == 0, "\(end.output)\(end.messages)")
            #expect(end.messages.contains("browse: \(paths.count) pages, 0 faults"))
        }
    }
}
