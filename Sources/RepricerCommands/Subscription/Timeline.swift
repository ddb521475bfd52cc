import Reports
import ServiceKit

extension Commands {
    private static let subscription = Positional(
        "SUBSCRIPTION", "its original transaction id")

    static let timeline = Command(
        "timeline", "show all that happened to one subscription", positionals: [subscription],
        discussion: "Each line names its evidence: a notification, a call, a decision, a charge."
    ) { invocation in
        let configuration = try invocation.configuration()
        let id = try invocation.arguments.required(subscription)
        let lines = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction { try TimelineQueries.lines(of: id, on: $0) }
        }
        guard !lines.isEmpty else {
            throw CommandFailure(
                .inputRejected,
                "unknown_subscription: nothing was ever received of \(quoted(id)); check the id")
        }
        if invocation.isJSON {
            try invocation.print(json(id, lines))
        } else {
            var table = Table([
                .left("AT"), .left("KIND"), .left("WHAT"), .left("SKU"), .left("DETAIL"),
                .left("EVIDENCE"),
            ])
            for line in lines {
                table.add([
                    RFC3339.format(line.at), line.kind, line.what, line.sku ?? "",
                    line.detail ?? "", line.evidenceID,
                ])
            }
            try invocation.print(table.text)
        }
        return .done
    }

    private static func json(_ id: String, _ lines: [TimelineQueries.Line]) -> JSONValue {
        let events = lines.map { line in
            JSONValue.object([
                "at": .string(RFC3339.format(line.at)), "kind": .string(line.kind),
                "what": .string(line.what), "sku": .text(line.sku), "detail": .text(line.detail),
                "evidence_id": .string(line.evidenceID),
            ])
        }
        return .object(["original_transaction_id": .string(id), "events": .array(events)])
    }
}
