import Foundation
import ServiceKit
import TestSupport
import Testing

@testable import RepricerCommands

/// The bars of what asks a store, or changes the schema: they show themselves once the work lasts longer than anybody likes
/// to wait in silence, and only to somebody who watches.
@Suite(.database) struct GapProgressTests {
    private enum Watching: CaseIterable {
        case late, early, piped
    }

    private static func run(
        _ words: [String], _ environment: [String: String], _ watching: Watching
    ) async -> Outcome {
        await RepricerCommandsTests.run(words, environment: environment) {
            $0.realClock = SystemClock()
            $0.isMessagesTerminal = watching != .piped
            $0.progressAfter = watching == .early ? .seconds(3600) : .zero
        }
    }

    /// Says whether `shows` was drawn when the time had come, and at no other.
    private static func expect(
        _ words: [String], shows: String, _ environment: [String: String]
    ) async {
        for watching in Watching.allCases {
            let outcome = await run(words, environment, watching)

            #expect(outcome.code == .done, "\(outcome.messages)")
            #expect(
                outcome.messages.contains(shows) == (watching == .late),
                "\(watching): \(outcome.messages)")
            #expect(
                outcome.messages.contains("\u{1B}") == (watching == .late),
                "\(watching): \(outcome.messages)")
        }
    }

    private static func serving(
        messages: Int, _ body: (_ settings: [String: String], ScratchFolder) async throws -> Void
    ) async throws {
        let scratch = try ScratchFolder()
        let store = try GapStore(messages: messages)
        try await store.serving { url in
            try await body(try GapCommandKillTests.settings(url, store, scratch), scratch)
        }
    }

    @Test func sync_thatLasts_drawsHowFarItIs() async throws {
        try await Self.serving(messages: 0) { settings, scratch in
            let ids = (0..<3).map { String(2_000_000_000 + $0) }
            let file = try scratch.file("ids.txt", ids.joined(separator: "\n") + "\n")

            await Self.expect(["sync", file], shows: " of 3, 0 drifted", settings)
        }
    }

    @Test func reconcile_thatLasts_drawsHowFarItIs() async throws {
        let since = Date.now.addingTimeInterval(-2 * 86_400).formatted(.iso8601)
        try await Self.serving(messages: 30) { settings, _ in
            await Self.expect(
                ["reconcile", "--since", since], shows: "history: 1 page, ", settings)
        }
    }

    @Test func recover_thatLasts_drawsHowFarItIs() async throws {
        let since = Date.now.addingTimeInterval(-2 * 86_400).formatted(.iso8601)
        try await Self.serving(messages: 30) { settings, _ in
            await Self.expect(
                ["recover", "--lost-since", since], shows: "history: 1 page, ", settings)
        }
    }

    @Test(arguments: [true, false])
    func migrate_thatLasts_drawsWhatItDoes(_ isLate: Bool) async throws {
        let settings = ["REPRICER_DATABASE_URL": try await TestDatabase.makeEmptyDatabase()]
        let words = ["migrate", "--migrations", RepositoryFiles.path("Migrations")]

        let outcome = await Self.run(words, settings, isLate ? .late : .early)

        #expect(outcome.code == .done, "\(outcome.messages)")
        let drawn = outcome.messages.contains("\r\u{1B}[J")
        #expect(drawn == isLate, "\(outcome.messages)")
    }
}
