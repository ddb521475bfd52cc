import Reports

extension Commands {
    private static let subscription = Positional(
        "SUBSCRIPTION", "its original transaction id")
    private static let eachRead = Flag(
        "details", "each status read on a line of its own, with its evidence")

    static let timeline = Command(
        "timeline", "show all that happened to one subscription", positionals: [subscription],
        options: [eachRead],
        discussion: """
            Statuses that were read one after the other and said nothing new are one line; --details and --json tell each. \
            Each line names its evidence. `repricer evidence UUID` prints that of notifications and charges, and \
            with --subscription SUBSCRIPTION what the App Store answered to a request (kinds request, response). \
            What begins with `status:` was told by a status, which is not kept as it was signed; a submission names its batch, and a decision who made it.
            """
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
            .shown(.left("WHAT")) { $0.words }, .key("what") { $0.what },
            .text("SKU", "sku") { $0.sku },
            .shown(.left("DETAIL")) { $0.told }, .key("detail") { $0.detail },
            .text("EVIDENCE", "evidence_id") { $0.evidenceID },
        ]
        try invocation.print(
            json: ["original_transaction_id": id, "events": lines.json(columns)],
            (invocation.arguments[eachRead] ? lines : lines.withIdleReadsFolded).told(columns))
        return .done
    }
}

extension TimelineQueries.Line {
    /// The detail in words; for several reads the time of the last one.
    fileprivate var told: String { until.map { "until \($0.instantText)" } ?? detailWords }
}

extension [TimelineQueries.Line] {
    /// A table where the screen has room for it; else what has the same evidence stands below it.
    fileprivate func told(_ columns: [Column<TimelineQueries.Line>]) -> String {
        guard let width = Screen.columns else { return table(columns) }
        let natural = Screen.$columns.withValue(nil) {
            Screen.$isColoured.withValue(false) { table(columns) }
        }
        let longest = natural.split(separator: "\n").map { cellCount(String($0)) }.max() ?? 0
        return longest > width ? grouped(width: width) : table(columns)
    }

    private static var indent: String { "  " }

    private func grouped(width: Int) -> String {
        var text = ""
        var rest = self[...]
        while let first = rest.first {
            let group = rest.prefix { $0.at == first.at && $0.evidenceID == first.evidenceID }
            rest = rest.dropFirst(group.count)
            let evidence = harmless(first.evidenceID)
            text += "\(first.at.instantText)  \(spaced(first.kind))"
            text += evidence.isEmpty ? "\n" : " \(evidence)\n"
            let cells = group.map {
                [harmless($0.words), harmless($0.sku ?? ""), harmless($0.told)]
            }
            let shown = Screen.$columns.withValue(width - Self.indent.count) {
                aligned(cells, isRight: [false, false, false], hasHeadings: false)
            }
            text += shown.split(separator: "\n").map { Self.indent + $0 + "\n" }.joined()
        }
        return text
    }
}
