/// Names that no database and no user can have in the statements that `init` writes.
enum ReservedNames {
    /// SQL words that are reserved in PostgreSQL 15 (its documentation, appendix C), and words that stand for a role.
    private static let words: Set<Substring> = Set(
        """
        all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation \
        column concurrently constraint create cross current_catalog current_date current_role current_schema current_time \
        current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze \
        from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit \
        localtime localtimestamp natural none not notnull null offset on only or order outer overlaps placing primary public \
        references returning right select session_user similar some symmetric system_user table tablesample then to trailing \
        true union unique user using variadic verbose when where window with
        """.split(separator: " "))

    /// Roles that PostgreSQL or our schema creates or reserves.
    private static let roles: Set<String> = [
        "postgres", "repricer_service", "repricer_pricing", "repricer_finance",
        "repricer_finance_lead",
    ]

    /// Whether a user can't have the name.
    static func holdsUser(_ name: String) -> Bool {
        holds(name) || name.hasPrefix("pg_") || roles.contains(name)
    }

    /// Whether a database can't have the name.
    static func holds(_ name: String) -> Bool { words.contains(name[...]) }
}
