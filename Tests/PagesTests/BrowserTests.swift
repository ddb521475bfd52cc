import Foundation
import TestSupport
import Testing

@testable import Pages

/// Every page in a real Chromium: `Deploy/browse` tells what is asked of it. Without a Chromium this fails, and says so.
@Suite(.database) struct BrowserTests {
    private static let parts = [
        Array(PagesTests.all.prefix(8)), Array(PagesTests.all.dropFirst(8).prefix(8)),
        Array(PagesTests.all.dropFirst(16)),
    ]

    @Test(arguments: parts)
    func pages_inARealBrowser_areReadableOnScreensAndOnPaper(_ paths: [String]) async throws {
        try await PagesFixture.fill()

        try await PagesHarness.withPages(conninfo: TestDatabase.url) { _, base in
            let end = try await Program.run(
                URL(fileURLWithPath: RepositoryFiles.path("Deploy/browse")),
                [base] + paths,
                environment: ProcessInfo.processInfo.environment)

            #expect(end.code == 0, "\(end.output)\(end.messages)")
            #expect(end.messages.contains("browse: \(paths.count) pages, 0 faults"))
        }
    }
}
