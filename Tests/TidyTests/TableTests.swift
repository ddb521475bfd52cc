import Testing

/// Nothing grows for ever without a word: of each table, retention drops months or rows, its work takes its rows away, it has
/// a few rows, or `Deploy/docs/OPERATIONS.md` says that it is kept.
@Suite struct TableTests {
    /// A row for the service, a bucket, a table or a thing that stands still.
    private static let ofFewRows: Set = [
        "app_binding", "audit_head", "blocking_sessions", "bucket_turns", "figures_turn",
        "history_reading", "rate_limits", "retention_floors", "retention_progress",
        "service_controls", "service_leases",
    ]
    /// Months of these are dropped.
    private static let ofMonths: Set = [
        "notifications", "subscription_events", "price_change_history", "price_change_versions",
        "charge_versions", "subscription_event_versions", "dependent_cancellation_versions",
    ]

    private static func isNamed(_ table: String, in text: some StringProtocol) -> Bool {
        text.contains("`\(table)`")
    }

    /// A statement that has the name of the table as a value takes its rows away; the deliveries of an event go with it.
    private static let otherwise: Set = ["overdue_statements", "webhook_deliveries"]

    /// The tables of the migrations of which nothing ends the rows, and that nobody decided to keep.
    static func endless(
        _ migrations: String, statements: String, kept: some StringProtocol
    ) -> [String] {
        let tables = migrations.matches(of: /CREATE (?:UNLOGGED )?TABLE repricer\.([a-z_]+)/)
            .map { String($0.1) }.filter { !$0.hasSuffix("_default") }
        let deleted = Set(
            (migrations + statements).matches(of: /DELETE FROM (?:repricer\.)?([a-z_]+)/)
                .map { String($0.1) })
        return tables.filter { table in
            !ofFewRows.contains(table) && !ofMonths.contains(table) && !otherwise.contains(table)
                && !isNamed(table, in: kept)
                && !deleted.contains(table)
        }
    }

    @Test func tables_always_haveAnEnd_orAreKeptByDecision() throws {
        let paths = try Repository.shared.get().paths
        func text(_ isWanted: (String) -> Bool) throws -> String {
            try paths.filter(isWanted).map { try Repository.text($0) }.joined(separator: "\n")
        }
        let migrations = try text { $0.wholeMatch(of: /Migrations\/[0-9]{4}_.*\.sql/) != nil }
        let statements = try text { $0.hasPrefix("Sources/") && $0.contains("Queries") }
        let operations = try Repository.text("Deploy/docs/OPERATIONS.md")
        let kept = try #require(operations.split(separator: "- **Kept for ever**").last)
        let list = try #require(kept.split(separator: "\n- **").first)

        #expect(Self.endless(migrations, statements: statements, kept: list) == [])
        let planted = migrations + "\nCREATE TABLE repricer.planted (n int);"
        #expect(
            Self.endless(planted, statements: statements, kept: list) == ["planted"])
    }
}
