package import Facts
package import Postgres
package import Pricing

/// The consent rules as stored: append-only, each row in force from an instant on.
package enum RuleQueries {
    /// Which rows to read of the rules.
    package enum Span: Sendable {
        /// Those that judge at the instant: enough for a command, however long the history of rates is.
        case at
        /// And those that come into force later: right at every instant from this one on.
        case from
        /// Everything, for a comparison with what is to be imported.
        case all
    }

    package struct Import: Sendable, Equatable {
        package var revision: Int
        /// Nil: shipped with the product.
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

    /// The import that made the version of the rules; nil on a database without any.
    package static func latestImport(
        on connection: isolated PostgresConnection
    ) throws -> Import? {
        try connection.query(
            """
            -- name: latestRuleImport
            SELECT revision, nullif(imported_at, '-infinity') AS imported_at, imported_by, file
            FROM repricer.rule_imports ORDER BY revision DESC LIMIT 1
            """
        ).oneOrNil().map {
            Import(
                revision: try $0.int("revision"),
                importedAt: try $0.millisecondsOrNil("imported_at")
                    .map(Instant.init(milliseconds:)),
                importedBy: try $0.text("imported_by"), file: try $0.text("file"))
        }
    }

    /// The rules that matter at an instant; rows with the same date stand in the order of their imports.
    package static func load(
        _ span: Span, _ now: Instant, on connection: isolated PostgresConnection
    ) throws -> RuleSet {
        let scope = Scope(span, now)
        return RuleSet(
            thresholds: try connection.query(
                inForce(
                    "consentThresholds", "consent_thresholds",
                    key: ["storefront", "currency", "period_kind"], says: "amount_milliunits", scope
                )
            ).map(threshold),
            alwaysConsent: try connection.query(
                inForce(
                    "alwaysConsentStorefronts", "always_consent_storefronts", key: ["storefront"],
                    says: "is_required", scope)
            ).map(alwaysConsent),
            currencies: try connection.query(
                inForce(
                    "currencyDecimals", "currency_decimals", key: ["currency"], says: "decimals",
                    scope)
            ).map(currency),
            exchangeRates: try connection.query(exchangeRates(scope)).compactMap(exchangeRate))
    }

    /// Stores rules as the next version, which it returns; the database writes down who does. Throws a unique violation
    /// when another import took the version. `at` is UTC milliseconds.
    package static func add(
        _ rules: RuleSet, file: String, contentSHA256: String, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        let rows = rules.rows.map(\.stored)
        return try connection.decide(
            "importRules",
            """
            repricer.import_rules(\(file)::text, \(contentSHA256)::text, \(timestamp: at),
                \(rows.map(\.kind)), \(texts: rows.map(\.storefront)), \(texts: rows.map(\.currency)),
                \(texts: rows.map(\.periodKind)), \(timestamps: rows.map(\.validFrom)),
                \(rows.map(\.value)), \(rows.map(\.source)))
            """
        ).int("answer")
    }
}

/// A rule as `import_rules` takes it: it fills what its kind needs.
private struct StoredRule {
    var kind: String
    var storefront: String?
    var currency: String?
    var periodKind: String?
    /// nil: since ever.
    var validFrom: Int64?
    var value: Int64
    var source: String
}

extension RuleRow {
    fileprivate var stored: StoredRule {
        let validFrom = validFrom?.milliseconds
        return switch self {
        case .threshold(let row):
            StoredRule(
                kind: "threshold", storefront: row.storefront, currency: row.currency,
                periodKind: row.kind.rawValue, validFrom: validFrom, value: row.amount,
                source: row.source.rawValue)
        case .alwaysConsent(let row):
            StoredRule(
                kind: "always_consent", storefront: row.storefront, validFrom: validFrom,
                value: row.isRequired ? 1 : 0, source: row.source.rawValue)
        case .currency(let row):
            StoredRule(
                kind: "currency", currency: row.currency.code, validFrom: validFrom,
                value: Int64(row.currency.decimals), source: row.source.rawValue)
        case .exchangeRate(let row):
            StoredRule(
                kind: "exchange_rate", currency: row.currency, validFrom: validFrom,
                value: row.perEuro.billionths, source: row.source)
        }
    }
}

/// The three spans as two parameters: from when on all rows count, and before it only the newest.
private struct Scope {
    /// Rows in force at this instant, and superseded ones no more; nil: the superseded ones, too.
    let newestAt: Int64?
    /// Rows that come into force after this instant; nil: none.
    let after: Int64?

    init(_ span: RuleQueries.Span, _ now: Instant) {
        switch span {
        case .at: (newestAt, after) = (now.milliseconds, nil)
        case .from: (newestAt, after) = (now.milliseconds, now.milliseconds)
        case .all: (newestAt, after) = (nil, nil)
        }
    }
}

extension RuleQueries {
    /// Of a table whose rows are about the same thing where `key` is the same.
    private static func inForce(
        _ name: String, _ table: String, key: [String], says columns: String, _ scope: Scope
    ) -> SQL {
        """
        -- name: \(unsafe: name)
        SELECT \(unsafe: key.joined(separator: ", ")), \(unsafe: columns), source,
            nullif(valid_from, '-infinity') AS valid_from
        FROM repricer.\(unsafe: table) t
        WHERE \(timestamp: scope.newestAt)::timestamptz IS NULL
            OR t.valid_from > \(timestamp: scope.after)::timestamptz
            OR t.valid_from <= \(timestamp: scope.newestAt)::timestamptz AND NOT EXISTS (
                SELECT FROM repricer.\(unsafe: table) n
                WHERE \(unsafe: key.map { "n.\($0) = t.\($0)" }.joined(separator: " AND "))
                    AND n.valid_from <= \(timestamp: scope.newestAt)::timestamptz
                    AND (n.valid_from, n.revision) > (t.valid_from, t.revision))
        ORDER BY t.valid_from, t.revision, \(unsafe: key.joined(separator: ", "))
        """
    }

    /// Only of currencies that Apple prices in, and the newest by one look into the index each: the European
    /// Central Bank's history is a third of a million rows.
    private static func exchangeRates(_ scope: Scope) -> SQL {
        """
        -- name: exchangeRates
        SELECT currency, billionths_per_euro, source, nullif(valid_from, '-infinity') AS valid_from
        FROM (
            SELECT newest.* FROM (SELECT DISTINCT currency FROM repricer.currency_decimals) c
            CROSS JOIN LATERAL (
                SELECT e.currency, e.billionths_per_euro, e.source, e.valid_from, e.revision
                FROM repricer.exchange_rates e
                WHERE e.currency = c.currency
                    AND e.valid_from <= \(timestamp: scope.newestAt)::timestamptz
                ORDER BY e.valid_from DESC, e.revision DESC LIMIT 1) newest
            UNION ALL
            SELECT e.currency, e.billionths_per_euro, e.source, e.valid_from, e.revision
            FROM repricer.exchange_rates e
            WHERE \(timestamp: scope.newestAt)::timestamptz IS NULL
                OR e.valid_from > \(timestamp: scope.after)::timestamptz) r
        ORDER BY r.valid_from, r.revision, currency
        """
    }
}

extension RuleQueries {
    private static func threshold(_ row: Row) throws -> RuleSet.Threshold {
        guard let kind = PeriodKind(rawValue: try row.text("period_kind")) else {
            throw FactsError.unreadable("period_kind of a consent threshold")
        }
        return RuleSet.Threshold(
            storefront: try row.text("storefront"), currency: try row.text("currency"),
            kind: kind, amount: try row.int64("amount_milliunits"),
            validFrom: try validFrom(row), source: try source(row))
    }

    private static func alwaysConsent(_ row: Row) throws -> RuleSet.AlwaysConsent {
        RuleSet.AlwaysConsent(
            storefront: try row.text("storefront"), isRequired: try row.bool("is_required"),
            validFrom: try validFrom(row), source: try source(row))
    }

    private static func currency(_ row: Row) throws -> RuleSet.CurrencyRule {
        RuleSet.CurrencyRule(
            currency: Currency(
                code: try row.text("currency"), decimals: try row.int("decimals")),
            validFrom: try validFrom(row), source: try source(row))
    }

    private static func exchangeRate(_ row: Row) throws -> RuleSet.ExchangeRate? {
        // Nil is impossible: the table takes positive rates only.
        try Rate(billionths: row.int64("billionths_per_euro")).map {
            RuleSet.ExchangeRate(
                currency: try row.text("currency"), perEuro: $0, validFrom: try validFrom(row),
                source: try row.text("source"))
        }
    }

    private static func validFrom(_ row: Row) throws -> Instant? {
        try row.millisecondsOrNil("valid_from").map(Instant.init(milliseconds:))
    }

    private static func source(_ row: Row) throws -> RuleSource {
        RuleSource(rawValue: try row.text("source")) ?? .unknown
    }
}
