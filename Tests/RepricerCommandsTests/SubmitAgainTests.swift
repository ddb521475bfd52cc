import TestSupport
import Testing

@testable import RepricerCommands

/// The same file once more.
@Suite(.database) struct SubmitAgainTests {
    /// All rows or none, unless it is asked for: what left out rows is another submission.
    @Test func submit_ofAFileOfWhichRowsWereRefused_isTheSameOnlyWhereTheyMayBe() async throws {
        let office = try await BatchCommandTests.Office()
        let file = try office.file(BatchCommandTests.good + BatchCommandTests.unknown)
        let command = ["submit", file, "--name", "spring"]
        let first = await run(command + ["--accept-valid"], environment: office.ana)
        let id = String(first.output.dropLast())

        let all = await run(command, environment: office.ana)
        let again = await run(command + ["--accept-valid"], environment: office.ana)

        #expect(first.code == .done && id.count == 36)
        #expect(all.code == .conflict && all.output.isEmpty)
        #expect(
            all.messages.contains(
                "is batch \(id) already, with other --accept-valid (rows refused: 1);"))
        #expect(again.code == .done && again.output == id + "\n")
    }
}
