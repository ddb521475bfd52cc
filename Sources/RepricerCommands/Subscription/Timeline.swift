import Reports

extension Commands {
    private static let subscription = Positional(
        "SUBSCRIPTION", "its original transaction id")

    static let timeline = Command(
        "timeline", "show all that happened to one subscription", positionals: [subscription],
        discussion: "Each line names its evidence: a notification, a call, a decision, a charge."
    ) { invocation in
        let id = try invocation.arguments.required(subscription)
        let lines = try await invocation.withPool(try invocation.configuration()) { pool in
            try await pool.withTransaction { try TimelineQueries.lines(of: id, on: $0) }
        }
        guard !lines.isEmpty else {
            throw CommandFailure(
                .inputRejected,
                "unknown_subscription: nothing was ever received of \(quoted(id)); check the id")
        }
        let columns: [Column<TimelineQueries.Line>] = [
            .instant("AT", "at") { $0.at }, .text("KIND", "kind") { $0.kind },
            .text("WHAT", "what") { $0.what }, .text("SKU", "sku") { $0.sku },
            .text("DETAIL", "detail") { $0.detail },
            .text("EVIDENCE", "evidence_id") { $0.evidenceID },
        ]
        try invocation.print(
            json: ["original_transaction_id": id, "events": lines.json(columns)],
            lines.table(columns))
        return .done
    }
}
