import Outbox
import Reports
import ServiceKit

extension Commands {
    private static let since = ValueOption("since", "INSTANT", "events written at INSTANT or later")
    private static let until = ValueOption("until", "INSTANT", "events written before INSTANT")
    private static let subscription = ValueOption(
        "subscription", "ID", "events of one original transaction id")
    private static let givenUp = Flag("given-up", "only what was given up after three days")
    private static let allKept = Flag("all", "every event that is still kept")

    static let outboxReplay = Command(
        "outbox replay", "deliver events to the webhook once more",
        options: [since, until, subscription, givenUp, allKept],
        discussion: """
            The events that all the options given select are due again, in their order; a running `repricer serve` \
            sends them. Their ids stay the same. Instants are of the machine's clock, also in a rehearsal.
            """
    ) { invocation in
        let arguments = invocation.arguments
        var wanted = WebhookQueries.Selection()
        wanted.since = try arguments.instant(since)
        wanted.until = try arguments.instant(until)
        wanted.subscription = arguments[subscription]
        wanted.abandonedOnly = arguments[givenUp]
        let selection = wanted
        guard selection != WebhookQueries.Selection() || arguments[allKept] else {
            throw UsageError(
                "name what to deliver again: --since, --subscription, --given-up or --all")
        }
        let configuration = try invocation.configuration()
        let now = invocation.dependencies.realClock.nowMilliseconds()
        let count = try await invocation.withPool(configuration) { pool in
            // Deliveries belong to the service: a user who submits and approves may only read them.
            try await pool.withConnection {
                try await ServiceRights.check(on: $0, writing: "repricer.webhook_deliveries")
            }
            return try await pool.withTransaction {
                try WebhookQueries.replay(selection, at: now, on: $0)
            }
        }
        try invocation.print(
            json: ["events": count],
            "\(counted(count, "event")) \(count == 1 ? "is" : "are") due again\n")
        if configuration.webhookURL == nil {
            invocation.note(
                "REPRICER_WEBHOOK_URL is not set here; the service needs it to send them")
        }
        return .done
    }
}
