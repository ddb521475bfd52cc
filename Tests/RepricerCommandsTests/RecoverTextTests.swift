import Testing

@testable import Reconciliation
@testable import RepricerCommands

/// What `recover` says of subscriptions whose status it could not read.
@Suite struct RecoverTextTests {
    @Test(arguments: [
        (1, "their rows wait a day; run recover again to ask once more\n"),
        (0, "no row waits for them: what became of theirs was told by notifications\n"),
    ])
    func unreadSubscriptions_sendNobodyAfterRowsThatDoNotWait(rows: Int, sentence: String) {
        var outcome = RecoveryQueries.Outcome()
        outcome.batches = [
            .init(batchID: "b", name: "spring", adopted: 4, released: 0, ended: 0, unread: rows)
        ]
        outcome.unread = [.init(originalTransactionID: "1", why: "404 not found")]
        outcome.unreadSubscriptions = 1

        let text = RecoverText(
            lostSince: .init(milliseconds: 0), outcome: outcome, former: nil
        ).text

        #expect(text.contains("not read: 1: 404 not found\n" + sentence), "\(text)")
    }
}
