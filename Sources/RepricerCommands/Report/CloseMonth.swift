import Reports

extension Commands {
    private static let month = Positional("MONTH", "the month, as 2026-10; it is one of UTC")

    static let closeMonth = Command(
        "close-month", "freeze the figures of a month that finance has signed",
        positionals: [month],
        discussion: """
            The figures of the month, as they are known now, stay. What statements tell of it later stands beside them in \
            `report closed_period` as restated. For the owner of the database and members of repricer_finance_lead; the \
            audit trail keeps who closed it and what it came to. Refused where the month is not over, or was closed.
            """
    ) { invocation in
        let typed = try invocation.arguments.required(month)
        guard isMonth(typed) else {
            throw UsageError("\(quoted(typed)) is no month; write it as 2026-10")
        }
        let configuration = try invocation.configuration()
        let now = try await invocation.now(configuration).milliseconds
        // The head of finance may read only schema `report`, so the app is checked, but not the schema version.
        return try await invocation.withReportPool(
            configuration, name: "repricer close-month"
        ) { pool in
            let figures = try await invocation.telling("closing \(typed)") {
                try await pool.withTransaction { connection in
                    try ClosedMonthQueries.close(typed, at: now, on: connection)
                }
            }
            try invocation.print(
                json: ["month": typed, "figures": figures],
                figures == 0
                    ? "closed \(typed): no money is known of it; `repricer report closed_period` shows what is told later\n"
                    : "closed \(typed): \(figures) figures; `repricer report closed_period` shows them\n"
            )
            return .done
        }
    }

    private static func isMonth(_ text: String) -> Bool {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.utf8.count) == [4, 2],
            parts.allSatisfy({
                $0.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            }),
            let year = parts.first.flatMap({ Int($0) }), let month = parts.last.flatMap({ Int($0) })
        else { return false }
        return year > 0 && (1...12).contains(month)
    }
}
