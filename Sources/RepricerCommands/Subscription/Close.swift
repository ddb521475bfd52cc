import Batches
import Pricing
import Reports
import ServiceKit

extension Commands {
    private static let change = Positional(
        "CHANGE", "the change's id, as `report price_change --format csv` prints it")
    private static let reason = ValueOption(
        "reason", "TEXT", "why; kept in the history and the audit trail", isRequired: true)

    static let close = Command(
        "close", "end a change whose item Apple shows at another price", positionals: [change],
        options: [reason],
        discussion: """
            The change ends invalidated, with the reason closed, and its item is free for another batch. Refused \
            while ours may still take effect: while Apple shows its price, or a call has no outcome. Should Apple show its \
            price later, the change goes on.
            """
    ) { invocation in
        let id = try invocation.arguments.required(change)
        guard id.isUUID else {
            throw UsageError(
                "\(harmless(id)) is no change id; `report price_change --format csv` prints them")
        }
        let why = try invocation.arguments.required(reason)
        return try await invocation.withDatabase { pool, now in
            let shown = try await pool.withTransaction { connection in
                try ControlQueries.close(id, reason: why, at: now, on: connection)
            }
            try invocation.print(
                json: [
                    "change_id": id, "state": "invalidated",
                    "shown_price_milliunits": shown.milliunits, "currency": shown.currency,
                ],
                "closed \(id): Apple shows \(price(shown.milliunits, currency: shown.currency))\n")
            return .done
        }
    }
}
