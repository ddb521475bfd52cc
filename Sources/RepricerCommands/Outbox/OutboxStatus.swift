import Outbox
import ServiceKit

extension Commands {
    static let outboxStatus = Command(
        "outbox status", "count the events for other programs, by what became of their webhooks",
        discussion: """
            Events stand in the table repricer.outbox, for Debezium or any reader, and go to REPRICER_WEBHOOK_URL \
            where it is set. Delivered ones are kept for 30 days, undelivered ones are tried for three.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let summary = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction { try WebhookQueries.summary(on: $0) }
        }
        let states = ["pending", "delivered", "given_up"]
        let oldest = summary.oldestPending.map { RFC3339.format($0) }
        guard !invocation.isJSON else {
            try invocation.print(
                JSONValue.object([
                    "pending": .integer(summary.counts["pending", default: 0]),
                    "delivered": .integer(summary.counts["delivered", default: 0]),
                    "given_up": .integer(summary.counts["given_up", default: 0]),
                    "oldest_pending_at": .text(oldest), "last_error": .text(summary.lastError),
                ]).text + "\n")
            return .done
        }
        var table = Table([.left("EVENTS"), .right("COUNT")])
        for state in states { table.add([state, "\(summary.counts[state, default: 0])"]) }
        var text = table.text
        if let oldest { text += "oldest pending since \(oldest)\n" }
        if let error = summary.lastError { text += "last error: \(harmless(error))\n" }
        try invocation.print(text)
        return .done
    }
}
