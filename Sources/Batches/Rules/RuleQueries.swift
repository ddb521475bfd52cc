package import Facts
package import Postgres
package import Pricing

/// The stored consent rules. They are append-only, and each row is in force from an instant on.
package enum RuleQueries {
    /// Which rows are read.
    package enum Span: Sendable {
        /// The rows that judge at the instant. They are enough for a command, however long the history of rates is.
        case at
        /// Also the rows that come into force later, or were in force in the two years before. They suffice for every
        /// instant from then on.
        case from
        /// Every row, for a comparison with a file to import.
        case all
    }

    /// How long ago, at most, an increase was called that Apple shows as scheduled: a year and its notice.
    fileprivate static let monthsBack = 24

    package struct Import: Sendable, Equatable {
        package var revision: Int
        /// When it was imported; nil where it shipped with the product.
        package var importedAt: Instant?
        package var importedBy: String
        package var file: String
    }

    /// The version of the rules: it grows with each import.
    package static func revision(on connection: isolated PostgresConnection) throws -> Int {
        try connection.ask(revision)
    }

    package static var revision: Question<Int> {
        Question(
            """
            -- name: rulesRevision
            SELECT coalesce(max(revision), 0) AS revision FROM repricer.rule_imports
            """
        ) { try $0.one().int("revision") }
    }

    /// The import that made the version of the rules that was known at an instant (nil stands for now); nil where
    /// there was none.
    package static func latestImport(
        knownAt known: Instant? = nil, on connection: isolated PostgresConnection
    ) throws -> Import? {
        try connection.query(
            """
            -- name: latestRuleImport
            SELECT revision, nullif(imported_at, '-infinity') AS imported_at, imported_by, file
            FROM repricer.rule_imports
            WHERE \(timestamp: known?.milliseconds)::timestamptz IS NULL
                OR imported_at <= \(timestamp: known?.milliseconds)::timestamptz
            ORDER BY revision DESC LIMIT 1
            """
        ).oneOrNil().map {
            try Import(
                revision: $0.int("revision"), importedAt: $0.instant("imported_at"),
                importedBy: $0.text("imported_by"), file: $0.text("file"))
        }
    }

    /// The rules that matter at an instant. Rows with the same date stand in the order of their imports. `known` is
    /// the instant by which they were recorded here, so that a later import changes no earlier plan; nil takes all
    /// that are recorded. A row that was withdrawn by then is left out.
    package static func load(
        _ span: Span, _ now: Instant, knownAt known: Instant? = nil,
        on connection: isolated PostgresConnection
    ) throws -> RuleSet {
        let scope = Scope(span, now, knownAt: known)
        var rules = RuleSet()
        for kind in Rule.Kind.allCases {
            let query = kind == .exchangeRate ? exchangeRates(scope) : inForce(kind, scope)
            rules.rows += try connection.query(query).compactMap { try rule(kind, $0) }
        }
        return rules
    }

    private static func rule(_ kind: Rule.Kind, _ row: Row) throws -> Rule? {
        let about = kind.keyColumns
        var periodKind: PeriodKind?
        if about.contains(.periodKind) {
            periodKind = PeriodKind(rawValue: try row.text("period_kind"))
            guard periodKind != nil else {
                throw FactsError.unreadable("period_kind of a consent threshold")
            }
        }
        let says = kind.stored.says
        let value = try kind == .alwaysConsent ? (row.bool(says) ? 1 : 0) : row.int64(says)
        let source = try row.text("source")
        // It is never left out, because the table takes positive rates only.
        if kind == .exchangeRate, Rate(billionths: value) == nil { return nil }
        return try Rule(
            Rule.Key(
                kind, storefront: about.contains(.storefront) ? row.text("storefront") : "",
                currency: about.contains(.currency) ? row.text("currency") : "",
                periodKind: periodKind),
            value: value,
            validFrom: row.instant("valid_from"),
            source: kind == .exchangeRate
                ? source : (RuleSource(rawValue: source) ?? .unknown).rawValue,
            recordedAt: row.instant("recorded_at"))
    }

    /// Stores the changes of a file as the next version, and returns its number. The database records who imports;
    /// `accepted` are the warnings that a person accepted. `at` is UTC milliseconds. Throws a unique violation where
    /// another import took the number.
    package static func add(
        _ changes: [RuleImport.Change], accepted: [String] = [], file: String,
        contentSHA256: String, at: Int64, on connection: isolated PostgresConnection
    ) throws -> Int {
        let rules = changes.map(\.rule)
        return try connection.decide(
            "importRules",
            """
            repricer.import_rules(\(file)::text, \(contentSHA256)::text, \(timestamp: at),
                \(rules.map(\.kind.rawValue)), \(texts: rules.map { orNull($0.storefront) }),
                \(texts: rules.map { orNull($0.currency) }),
                \(texts: rules.map(\.key.periodKind?.rawValue)),
                \(timestamps: rules.map(\.validFrom?.milliseconds)), \(rules.map(\.value)),
                \(rules.map(\.source)), \(bools: changes.map(\.isWithdrawal)), \(accepted))
            """
        ).int("answer")
    }

    private static func orNull(_ text: String) -> String? { text.isEmpty ? nil : text }
}

extension Rule.Kind {
    /// The query that reads the kind, its table, and the column of what a rule says.
    fileprivate var stored: (query: String, table: String, says: String) {
        switch self {
        case .threshold: ("consentThresholds", "consent_thresholds", "amount_milliunits")
        case .alwaysConsent:
            ("alwaysConsentStorefronts", "always_consent_storefronts", "is_required")
        case .currency: ("currencyDecimals", "currency_decimals", "decimals")
        case .exchangeRate: ("exchangeRates", "exchange_rates", "billionths_per_euro")
        }
    }
}

/// The three spans as two parameters: from when on all rows count, and at which instant only the newest do.
private struct Scope {
    /// It takes the rows in force at this instant without superseded ones; nil takes the superseded ones too.
    let newestAt: Int64?
    /// It takes the rows that come into force after this instant; nil takes none of them.
    let after: Int64?
    /// It takes the rows that were recorded by this instant; nil takes all.
    let known: Int64?

    init(_ span: RuleQueries.Span, _ now: Instant, knownAt known: Instant?) {
        self.known = known?.milliseconds
        switch span {
        case .at: (newestAt, after) = (now.milliseconds, nil)
        case .from:
            let start = now.advanced(byMonths: -RuleQueries.monthsBack).milliseconds
            (newestAt, after) = (start, start)
        case .all: (newestAt, after) = (nil, nil)
        }
    }

    /// The condition that the row `t` of a table was recorded, and not withdrawn, by the scope's `known` instant.
    func stands(_ table: String, key: [String]) -> SQL {
        let isSame = key.map { "w.\($0) = t.\($0)" }.joined(separator: " AND ")
        return """
            NOT t.withdrawn AND (\(timestamp: known)::timestamptz IS NULL
                    OR t.recorded_at <= \(timestamp: known)::timestamptz)
                AND NOT EXISTS (
                    SELECT FROM repricer.\(unsafe: table) w
                    WHERE w.withdrawn AND \(unsafe: isSame) AND w.valid_from = t.valid_from
                        AND w.revision > t.revision
                        AND (\(timestamp: known)::timestamptz IS NULL
                            OR w.recorded_at <= \(timestamp: known)::timestamptz))
            """
    }
}

extension RuleQueries {
    /// The rows in force of a kind. Rows with the same key are about the same thing.
    private static func inForce(_ kind: Rule.Kind, _ scope: Scope) -> SQL {
        let (name, table, says) = kind.stored
        let key = kind.keyColumns.map(\.rawValue)
        let keys = key.joined(separator: ", ")
        return """
            -- name: \(unsafe: name)
            WITH standing AS (
                SELECT \(unsafe: keys), \(unsafe: says), t.source, t.valid_from, t.recorded_at, t.revision
                FROM repricer.\(unsafe: table) t
                WHERE \(fragment: scope.stands(table, key: key))
            ), chosen AS (
                (SELECT DISTINCT ON (\(unsafe: keys)) * FROM standing
                WHERE valid_from <= \(timestamp: scope.newestAt)::timestamptz
                ORDER BY \(unsafe: keys), valid_from DESC, revision DESC)
                UNION ALL
                SELECT * FROM standing
                WHERE \(timestamp: scope.newestAt)::timestamptz IS NULL
                    OR valid_from > \(timestamp: scope.after)::timestamptz
            )
            SELECT \(unsafe: keys), \(unsafe: says), source,
                nullif(valid_from, '-infinity') AS valid_from,
                nullif(recorded_at, '-infinity') AS recorded_at
            FROM chosen c ORDER BY c.valid_from, c.revision, \(unsafe: keys)
            """
    }

    /// It reads only currencies in which Apple prices, and finds the newest rate of each by one step of the index:
    /// the European Central Bank's history is a third of a million rows.
    private static func exchangeRates(_ scope: Scope) -> SQL {
        let stands = scope.stands("exchange_rates", key: ["currency"])
        return """
            -- name: exchangeRates
            SELECT currency, billionths_per_euro, source, nullif(valid_from, '-infinity') AS valid_from,
                nullif(recorded_at, '-infinity') AS recorded_at
            FROM (
                SELECT newest.* FROM (SELECT DISTINCT currency FROM repricer.currency_decimals) c
                CROSS JOIN LATERAL (
                    SELECT t.currency, t.billionths_per_euro, t.source, t.valid_from, t.recorded_at, t.revision
                    FROM repricer.exchange_rates t
                    WHERE t.currency = c.currency
                        AND t.valid_from <= \(timestamp: scope.newestAt)::timestamptz
                        AND \(fragment: stands)
                    ORDER BY t.valid_from DESC, t.revision DESC LIMIT 1) newest
                UNION ALL
                SELECT t.currency, t.billionths_per_euro, t.source, t.valid_from, t.recorded_at, t.revision
                FROM repricer.exchange_rates t
                WHERE (\(timestamp: scope.newestAt)::timestamptz IS NULL
                        OR t.valid_from > \(timestamp: scope.after)::timestamptz)
                    AND \(fragment: stands)) r
            ORDER BY r.valid_from, r.revision, currency
            """
    }
}
