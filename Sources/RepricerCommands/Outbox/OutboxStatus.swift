import Outbox

extension Commands {
    static let outboxStatus = Command(
        "outbox status", "count the events for other programs, by what became of their webhooks",
        discussion: """
            Events stand in the table repricer.outbox, for Debezium or any reader, and go to REPRICER_WEBHOOK_URL \
            where it is set. Delivered ones are kept for 30 days, undelivered ones are tried for three.
            """
    ) { invocation in
        let summary = try await invocation.withPool(try invocation.configuration()) { pool in
            try await pool.withTransaction { try WebhookQueries.summary(on: $0) }
        }
        let counts = ["pending", "delivered", "given_up"].map {
            ($0, summary.counts[$0, default: 0])
        }
        let oldest = summary.oldestPending?.instantText
        var text = counts.table([
            .shown(.left("EVENTS")) { $0.0 }, .shown(.right("COUNT")) { "\($0.1)" },
        ])
        if let oldest { text += "oldest pending since \(oldest)\n" }
        if let error = summary.lastError { text += "last error: \(harmless(error))\n" }
        try invocation.print(
            json: JSONValue.counts(counts)
                + ["oldest_pending_at": oldest, "last_error": summary.lastError], text)
        return .done
    }
}
