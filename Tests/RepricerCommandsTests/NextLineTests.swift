import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// What a command suggests to type next.
@Suite(.database) struct NextLineTests {
    @Test func commands_atATerminal_suggestTheNextOne_andNowhereElse() async throws {
        let office = try await BatchCommandTests.Office()
        let file = try office.file(BatchCommandTests.good + BatchCommandTests.unknown)

        let piped = await run("plan", file, environment: office.ana)
        let quiet = await run("plan", file, "--quiet", environment: office.ana) {
            $0.isMessagesTerminal = true
        }
        let shown = await run("plan", file, environment: office.ana) {
            $0.isMessagesTerminal = true
        }
        let submitted = await run(
            "submit", file, "--name", "spring", "--accept-valid", environment: office.ana
        ) { $0.isMessagesTerminal = true }

        #expect(!piped.messages.contains("next: "))
        #expect(!quiet.messages.contains("next: "))
        // They have no key of the App Store, and must not be sent to fail with their own settings.
        #expect(
            shown.messages.contains(
                "next, with the settings of the service: repricer sync \(file)\n"))
        #expect(shown.messages.contains("next: repricer submit \(file) --name NAME --plan-hash "))
        let word = submitted.output.prefix(8)
        #expect(submitted.messages.contains("next: repricer show \(word)\n"))

        // Who submitted it cannot approve it.
        for (who, next) in [(office.ana, "next, by another user: "), (office.ben, "next: ")] {
            let show = await run("show", "spring", environment: who) {
                $0.isMessagesTerminal = true
            }
            #expect(show.messages == "\(next)repricer approve \(word)\n")
        }
    }

    /// Whoever types it at 80 columns must not break the line, and the word must stand for this batch alone, also when
    /// its name is given to another after it was withdrawn.
    @Test func nextLine_namesABatchByTheBeginningOfItsID() async throws {
        let office = try await BatchCommandTests.Office()
        let file = try office.file(BatchCommandTests.good)

        let submitted = await run(
            "submit", file, "--name", "Spring prices", environment: office.ana
        ) { $0.isMessagesTerminal = true }
        let word = submitted.output.prefix(8)
        let shown = await run("show", String(word), "--json", environment: office.ana)

        #expect(submitted.messages.contains("next: repricer show \(word)\n"))
        #expect(shown.output.contains(submitted.output.prefix(36)))
    }

    /// Waves and grouping are not in the plan's hash: where the line left them out, all rows would go at once.
    @Test func plan_withTerms_suggestsThemToo() async throws {
        let office = try await BatchCommandTests.Office()
        let file = try office.file(BatchCommandTests.good + BatchCommandTests.unknown)
        let shown = await run(
            "plan", file, "--waves", "1%,10%@2026-12-01T00:00:00Z,rest@+2d", "--grouping", "item",
            environment: office.ana
        ) { $0.isMessagesTerminal = true }

        let terms = " --grouping item --waves 1%,10%@2026-12-01T00:00:00Z,rest@+2d"
        #expect(
            shown.messages.contains("next: repricer plan \(file) --rejects mend.csv\(terms)\n"),
            "\(shown.messages)")
        let line = try #require(
            shown.messages.split(separator: "\n").last {
                $0.hasPrefix("next: repricer submit ")
            })
        let words = line.replacing("NAME", with: "spring").split(separator: " ").dropFirst(2)
        let submitted = await run(words.map(String.init), environment: office.ana)
        #expect(submitted.code == .done, "\(submitted.messages)")
        let connection = try await TestDatabase.connect()
        let stored = try await connection.query(
            "SELECT jsonb_array_length(waves) AS waves, grouping FROM repricer.batches"
        ).one()
        await connection.close()
        #expect(try stored.int("waves") == 3)
        #expect(try stored.text("grouping") == "item")
    }
}
