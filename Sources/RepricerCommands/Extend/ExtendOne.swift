import Extensions
import Pricing
import ServiceKit

extension Commands {
    private static let subscription = Positional(
        "SUBSCRIPTION", "its original transaction id")

    static let extendOne = Command(
        "extend one", "extend the renewal date of one subscription", positionals: [subscription],
        options: [days, extensionReason, extensionNote, requestID],
        discussion: """
            Checks first whether the facts allow it (free offer, billing retry, grace period, two within 365 days, …; \
            exit code 3), then leaves the request to `repricer serve`. The customer gets an email, and nothing can \
            take the extension back. `extend status ID` and `timeline SUBSCRIPTION` show what came of it.
            """
    ) { invocation in
        let arguments = invocation.arguments
        let id = try arguments.required(subscription)
        let terms = try ExtensionArguments.terms(arguments)
        let note = try ExtensionArguments.note(arguments)
        let requestID = try ExtensionArguments.requestID(arguments)
        return try await invocation.withDatabase { pool, now in
            let isRepeat =
                arguments[Commands.requestID] == nil
                ? false
                : try await pool.withTransaction { connection in
                    try !ExtensionQueries.lines(of: requestID, on: connection).isEmpty
                }
            if !isRepeat,
                let obstacle = try await ExtensionForecast.obstacle(
                    of: id, now: Instant(milliseconds: now), pool: pool)
            {
                throw CommandFailure(
                    .inputRejected, "\(obstacle.rawValue): \(quoted(id)): \(obstacle.meaning)")
            }
            let isNew = try await pool.withTransaction { connection in
                try ExtensionQueries.request(
                    id, extensionID: requestID, terms, note: note, at: now, on: connection)
            }
            try invocation.print(
                json: [
                    "extension_id": requestID, "original_transaction_id": id, "days": terms.days,
                    "is_new": isNew,
                ],
                isNew
                    ? "queued \(requestID): \(harmless(id)) by \(terms.days) days\n"
                    : askedBefore(requestID))
            return .done
        }
    }
}
