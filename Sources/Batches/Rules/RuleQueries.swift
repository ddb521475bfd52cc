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

    /// An import to be recorded. The database writes down who makes it.
    package struct NewImport: Sendable {
        package var revision: Int
        /// UTC milliseconds.
        package var importedAt: Int64
        package var file: String
        package var contentSHA256: String

        package init(revision: Int, importedAt: Int64, file: String, contentSHA256: String) {
            self.revision = revision
            self.importedAt = importedAt
            self.file = file
            self.contentSHA256 = contentSHA256
        }
    }

    package struct Import: Sendable, Equatable {
        package var revision: Int
        /// Nil: shipped with the product.
        package var importedAt: Instant?
        package var importedBy: String
        package var file: String
    }

    /// Rows a statement.
    static let rowsPerInsert = 10_000

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
            thresholds: try connection.query(thresholds(scope)).map(threshold),
            alwaysConsent: try connection.query(alwaysConsent(scope)).map(alwaysConsent),
            currencies: try connection.query(currencies(scope)).map(currency),
            exchangeRates: try connection.query(exchangeRates(scope)).compactMap(exchangeRate))
    }

    /// Records an import and its rows. Throws a unique violation when another import took the revision.
    package static func add(
        _ rules: RuleSet, as newImport: NewImport, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.execute(
            """
            -- name: insertRuleImport
            INSERT INTO repricer.rule_imports (revision, imported_at, file, content_sha256)
            VALUES (\(newImport.revision)::integer, \(timestamp: newImport.importedAt),
                \(newImport.file), \(newImport.contentSHA256))
            """)
        let revision = newImport.revision
        for rows in chunks(rules.thresholds) {
            _ = try connection.execute(insert(thresholds: rows, revision))
        }
        for rows in chunks(rules.alwaysConsent) {
            _ = try connection.execute(insert(alwaysConsent: rows, revision))
        }
        for rows in chunks(rules.currencies) {
            _ = try connection.execute(insert(currencies: rows, revision))
        }
        for rows in chunks(rules.exchangeRates) {
            _ = try connection.execute(insert(exchangeRates: rows, revision))
        }
        // Last: it holds the end of the audit trail until the commit.
        _ = try connection.query(
            """
            -- name: recordRulesImport
            SELECT repricer.record_rules_import(\(revision)::integer)
            """)
    }

    private static func chunks<Row>(_ rows: [Row]) -> [ArraySlice<Row>] {
        stride(from: 0, to: rows.count, by: rowsPerInsert).map {
            rows[$0..<min($0 + rowsPerInsert, rows.count)]
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
    private static func thresholds(_ scope: Scope) -> SQL {
        """
        -- name: consentThresholds
        SELECT storefront, currency, period_kind, amount_milliunits, source,
            nullif(valid_from, '-infinity') AS valid_from
        FROM repricer.consent_thresholds t
        WHERE \(timestamp: scope.newestAt)::timestamptz IS NULL
            OR t.valid_from > \(timestamp: scope.after)::timestamptz
            OR t.valid_from <= \(timestamp: scope.newestAt)::timestamptz AND NOT EXISTS (
                SELECT FROM repricer.consent_thresholds n
                WHERE n.storefront = t.storefront AND n.currency = t.currency
                    AND n.period_kind = t.period_kind
                    AND n.valid_from <= \(timestamp: scope.newestAt)::timestamptz
                    AND (n.valid_from, n.revision) > (t.valid_from, t.revision))
        ORDER BY t.valid_from, t.revision, storefront, currency, period_kind
        """
    }

    private static func alwaysConsent(_ scope: Scope) -> SQL {
        """
        -- name: alwaysConsentStorefronts
        SELECT storefront, is_required, source, nullif(valid_from, '-infinity') AS valid_from
        FROM repricer.always_consent_storefronts t
        WHERE \(timestamp: scope.newestAt)::timestamptz IS NULL
            OR t.valid_from > \(timestamp: scope.after)::timestamptz
            OR t.valid_from <= \(timestamp: scope.newestAt)::timestamptz AND NOT EXISTS (
                SELECT FROM repricer.always_consent_storefronts n
                WHERE n.storefront = t.storefront
                    AND n.valid_from <= \(timestamp: scope.newestAt)::timestamptz
                    AND (n.valid_from, n.revision) > (t.valid_from, t.revision))
        ORDER BY t.valid_from, t.revision, storefront
        """
    }

    private static func currencies(_ scope: Scope) -> SQL {
        """
        -- name: currencyDecimals
        SELECT currency, decimals, source, nullif(valid_from, '-infinity') AS valid_from
        FROM repricer.currency_decimals t
        WHERE \(timestamp: scope.newestAt)::timestamptz IS NULL
            OR t.valid_from > \(timestamp: scope.after)::timestamptz
            OR t.valid_from <= \(timestamp: scope.newestAt)::timestamptz AND NOT EXISTS (
                SELECT FROM repricer.currency_decimals n
                WHERE n.currency = t.currency
                    AND n.valid_from <= \(timestamp: scope.newestAt)::timestamptz
                    AND (n.valid_from, n.revision) > (t.valid_from, t.revision))
        ORDER BY t.valid_from, t.revision, currency
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
            throw LedgerError.unreadable("period_kind of a consent threshold")
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

extension RuleQueries {
    private static func insert(
        thresholds rows: ArraySlice<RuleSet.Threshold>, _ revision: Int
    ) -> SQL {
        """
        -- name: insertThresholds
        INSERT INTO repricer.consent_thresholds
            (storefront, currency, period_kind, valid_from, revision, amount_milliunits, source)
        SELECT t.storefront, t.currency, t.kind, coalesce(t.valid_from, '-infinity'),
            \(revision)::integer, t.amount, t.source
        FROM unnest(\(rows.map(\.storefront))::text[], \(rows.map(\.currency))::text[],
            \(rows.map(\.kind.rawValue))::text[],
            \(timestamps: rows.map(\.validFrom?.milliseconds))::timestamptz[],
            \(rows.map(\.amount))::bigint[], \(rows.map(\.source.rawValue))::text[])
            AS t (storefront, currency, kind, valid_from, amount, source)
        """
    }

    private static func insert(
        alwaysConsent rows: ArraySlice<RuleSet.AlwaysConsent>, _ revision: Int
    ) -> SQL {
        """
        -- name: insertAlwaysConsent
        INSERT INTO repricer.always_consent_storefronts
            (storefront, valid_from, revision, is_required, source)
        SELECT t.storefront, coalesce(t.valid_from, '-infinity'), \(revision)::integer,
            t.is_required, t.source
        FROM unnest(\(rows.map(\.storefront))::text[],
            \(timestamps: rows.map(\.validFrom?.milliseconds))::timestamptz[],
            \(bools: rows.map(\.isRequired))::boolean[], \(rows.map(\.source.rawValue))::text[])
            AS t (storefront, valid_from, is_required, source)
        """
    }

    private static func insert(
        currencies rows: ArraySlice<RuleSet.CurrencyRule>, _ revision: Int
    ) -> SQL {
        """
        -- name: insertCurrencies
        INSERT INTO repricer.currency_decimals (currency, valid_from, revision, decimals, source)
        SELECT t.currency, coalesce(t.valid_from, '-infinity'), \(revision)::integer, t.decimals,
            t.source
        FROM unnest(\(rows.map(\.currency.code))::text[],
            \(timestamps: rows.map(\.validFrom?.milliseconds))::timestamptz[],
            \(rows.map(\.currency.decimals))::integer[], \(rows.map(\.source.rawValue))::text[])
            AS t (currency, valid_from, decimals, source)
        """
    }

    private static func insert(
        exchangeRates rows: ArraySlice<RuleSet.ExchangeRate>, _ revision: Int
    ) -> SQL {
        """
        -- name: insertExchangeRates
        INSERT INTO repricer.exchange_rates
            (currency, valid_from, revision, billionths_per_euro, source)
        SELECT t.currency, coalesce(t.valid_from, '-infinity'), \(revision)::integer, t.rate,
            t.source
        FROM unnest(\(rows.map(\.currency))::text[],
            \(timestamps: rows.map(\.validFrom?.milliseconds))::timestamptz[],
            \(rows.map(\.perEuro.billionths))::bigint[], \(rows.map(\.source))::text[])
            AS t (currency, valid_from, rate, source)
        """
    }
}
