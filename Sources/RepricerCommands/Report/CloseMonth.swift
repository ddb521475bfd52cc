import Postgres
import Reports

extension Commands {
    private static let month = Positional("MONTH", "the month, as 2026-10; it is one of UTC")
    private static let preview = Flag("dry-run", "say what would be frozen; freeze nothing")

    static let closeMonth = Command(
        "close-month", "freeze the figures of a month that finance has signed",
        positionals: [month], options: [preview, yes],
        discussion: """
            The figures of the month, as they are known now, stay. What statements tell of it later stands beside them in \
            `report closed_period` as restated. For the owner of the database and members of repricer_finance_lead; the \
            audit trail keeps who closed it and what it came to. Refused where the month is not over, or was closed. \
            Names the checks of `report reconciliation` that are not OK, and then asks where a person can be asked.
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
            let failed = try await pool.withTransaction {
                try ClosedMonthQueries.failedChecks(
                    judgedAt: configuration.clock == nil ? nil : now, on: $0)
            }
            if !failed.isEmpty {
                let named = failed.map { "\($0.name) \(counted($0.problems))" }
                invocation.note(
                    "checks that are not OK: \(named.joined(separator: ", ")); see `repricer report reconciliation`"
                )
            }
            let isPreview = invocation.arguments[preview]
            if !failed.isEmpty, !isPreview, invocation.dependencies.isInputTerminal {
                try invocation.confirm(
                    "close \(typed) for good, as it is?",
                    otherwise: "not closed; nothing was changed")
            }
            let figures = try await invocation.telling(
                "\(isPreview ? "counting" : "closing") \(typed)"
            ) {
                try await close(typed, at: now, isPreview: isPreview, pool)
            }
            try invocation.print(
                json: [
                    "month": typed, "figures": figures, "is_closed": !isPreview,
                    "checks_not_ok": failed.json([
                        .key("check") { $0.name }, .key("problems") { $0.problems },
                    ]),
                ],
                text(typed, figures, isPreview))
            return .done
        }
    }

    /// The figures of a preview, which end its transaction.
    private struct Previewed: Error {
        var figures: Int64
    }

    private static func close(
        _ month: String, at now: Int64, isPreview: Bool, _ pool: PostgresPool
    ) async throws -> Int64 {
        do {
            return try await pool.withTransaction { connection in
                let figures = try ClosedMonthQueries.close(month, at: now, on: connection)
                guard !isPreview else { throw Previewed(figures: figures) }
                return figures
            }
        } catch let preview as Previewed {
            return preview.figures
        }
    }

    private static func text(_ month: String, _ figures: Int64, _ isPreview: Bool) -> String {
        switch (figures, isPreview) {
        case (0, false):
            "closed \(month): no money is known of it; `repricer report closed_period` shows what is told later\n"
        case (0, true): "\(month) has no figures: no money is known of it; nothing was closed\n"
        case (_, false):
            "closed \(month): \(figures) figures; `repricer report closed_period` shows them\n"
        case (_, true):
            "\(month) has \(figures) figures to freeze; nothing was closed\n"
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
