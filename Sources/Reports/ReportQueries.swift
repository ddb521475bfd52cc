import Facts
package import Postgres
import ServiceKit

/// Reads the views of schema `report`: each report is one snapshot, read page by page.
package struct ReportStore: Sendable {
    /// How many rows are fetched at a time. Only these are in memory, whatever the size of the report.
    package static let pageRows = 1000

    private let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// The id of the batch that `text` names, as every command finds it.
    package func batchID(_ text: String, of name: ReportName) async throws -> String {
        guard name.hasBatches else { throw ReportError.hasNoBatches(name) }
        let all: [NamedBatch]
        do {
            all = try await pool.withTransaction { connection in
                try connection.query(
                    """
                    -- name: listNamedBatches
                    SELECT batch_id, batch_name, batch_state FROM report.batch_summary
                    ORDER BY submitted_at, batch_id
                    """
                ).map { row in
                    NamedBatch(
                        batchID: try row.text("batch_id"), name: try row.text("batch_name"),
                        state: try row.text("batch_state"))
                }
            }
        } catch let error as PostgresError {
            throw reportError(error, of: name)
        }
        do {
            return try NamedBatch.choose(text, among: all).batchID
        } catch {
            switch error {
            case .unknown: throw ReportError.unknownBatch(text)
            case .ambiguous(let sentence): throw ReportError.ambiguousBatch(sentence)
            }
        }
    }

    /// How many rows the batch has, or all batches have together.
    package func rows(ofBatch batchID: String?) async throws -> Int64 {
        do {
            return try await pool.withTransaction { connection in
                try connection.query(
                    """
                    -- name: countRowsOfBatches
                    SELECT coalesce(sum(rows), 0)::bigint AS rows FROM report.batch_summary
                    WHERE \(uuid: batchID)::uuid IS NULL OR batch_id = \(uuid: batchID)::uuid
                    """
                ).one().int64("rows")
            }
        } catch let error as PostgresError {
            throw reportError(error, of: .batchSummary)
        }
    }

    /// What each report and each of its columns means.
    package func describe(_ names: [ReportName]) async throws -> [ReportDescription] {
        try await pool.withTransaction { connection in
            try names.map { name in
                let meaning = try connection.query(
                    """
                    -- name: describeReport
                    SELECT coalesce(obj_description(c.oid), '') AS meaning FROM pg_class c
                    JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname = 'report' AND c.relkind = 'v' AND c.relname::text = \(name.rawValue)
                    """
                ).first?.text("meaning")
                guard let meaning else { throw ReportError.notReadable(name) }
                return ReportDescription(
                    name: name, meaning: meaning,
                    columns: try reportColumns(name, on: connection))
            }
        }
    }

    /// Passes on the columns once, then the rows page by page.
    ///
    /// Throws a `ReportError`, or what the two closures throw.
    package func read(
        _ query: ReportQuery,
        columns: @escaping @Sendable ([ReportColumn]) throws -> Void,
        page: @escaping @Sendable (ReportPage) throws -> Void
    ) async throws {
        if let batchID = query.batchID {
            guard query.name.hasBatches else { throw ReportError.hasNoBatches(query.name) }
            guard batchID.isUUID else { throw ReportError.unknownBatch(batchID) }
        }
        do {
            if query.asOf != nil {
                guard query.name.hasPast else { throw ReportError.hasNoPast(query.name) }
                try await requireGathered()
                try await requirePast(query)
            }
            try await pool.withTransaction(.repeatableRead) { connection in
                try await readSnapshot(query, on: connection, columns: columns, page: page)
            }
        } catch let error as PostgresError {
            throw reportError(error, of: query.name)
        }
    }

    /// Refuses the report where the tables are spread over a cluster and reports do not read them through the
    /// coordinator (`Deploy/citus/gather.sql`). Functions with parameters must not read spread tables directly: one was
    /// seen to return no rows.
    private func requireGathered() async throws {
        let isAskable = try await pool.withTransaction { connection in
            guard try DatabaseLayout.read(on: connection) == .spread else { return true }
            let rows = try connection.query(
                """
                -- name: hasGathered
                SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'gathered') AS is_there
                """)
            return try rows.first?.bool("is_there") ?? false
        }
        guard isAskable else {
            throw ReportError.failed(
                "this Citus cluster can't tell what was known at an instant; have its owner run Deploy/citus/gather.sql, "
                    + "ask a plain copy of it (Deploy/citus/copy), or leave --as-of out")
        }
    }

    /// Refuses a future instant, and waits for transactions that were recording at the instant. Both must come before
    /// the report's snapshot.
    private func requirePast(_ query: ReportQuery) async throws {
        try await pool.withTransaction { connection in
            _ = try connection.query(
                """
                -- name: requirePast
                SELECT 1 FROM report.batch_summary_as_of(\(query.asOfText)::timestamptz, \(uuid: noBatch)::uuid)
                """)
        }
    }
}

/// An id that no batch has, because the function is only called for its refusal.
private let noBatch = "00000000-0000-0000-0000-000000000000"

private func readSnapshot(
    _ query: ReportQuery, on connection: isolated PostgresConnection,
    columns: ([ReportColumn]) throws -> Void, page: @Sendable (ReportPage) throws -> Void
) async throws {
    // All rows are read, so the plan must be optimal for all rows, not for the first one. JIT is off, because no report
    // runs long enough to repay it. The memory suffices to sort a batch of 100,000 rows and join it with its figures.
    _ = try connection.query(
        """
        -- name: setReportPlan
        SELECT set_config('cursor_tuple_fraction', '1', true), set_config('jit', 'off', true),
            set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true),
            set_config('work_mem', greatest(s.setting::integer, 65536)::text, true)
        FROM pg_settings s WHERE s.name = 'work_mem'
        """)
    if query.asOf != nil {
        _ = try connection.query(
            """
            -- name: setRecordersAwaited
            SELECT set_config('repricer.recorders_awaited', 'yes', true)
            """)
    }
    if let judgedAt = query.judgedAt {
        _ = try connection.query(
            """
            -- name: setReportInstant
            SELECT set_config('repricer.as_of', \(RFC3339.format(judgedAt)), true)
            """)
    }
    if let currency = query.reportingCurrency {
        _ = try connection.query(
            """
            -- name: setReportingCurrency
            SELECT set_config('repricer.reporting_currency', \(currency), true)
            """)
    }
    if let batchID = query.batchID {
        let found = try connection.query(
            """
            -- name: findReportedBatch
            SELECT batch_id FROM report.batch_summary WHERE batch_id = \(uuid: batchID)
            """)
        guard !found.isEmpty else { throw ReportError.unknownBatch(batchID) }
    }
    let known = try reportColumns(query.name, on: connection)
    guard !known.isEmpty else { throw ReportError.notReadable(query.name) }
    try columns(known)
    _ = try connection.execute(declareCursor(query, columns: known))
    let fetch: SQL = """
        -- name: fetchReportRows
        FETCH FORWARD \(unsafe: "\(ReportStore.pageRows)") FROM report_rows
        """
    var next = try connection.query(fetch)
    while !next.isEmpty {
        // One page is written while the server makes the next one.
        let rows = ReportPage(next, columns: known)
        async let written: Void = write(rows, to: page)
        next = try connection.query(fetch)
        try await written
    }
}

/// Hands one page over, away from the connection's thread.
private func write(
    _ rows: ReportPage, to page: @Sendable (ReportPage) throws -> Void
) async throws {
    try page(rows)
}

private func reportColumns(
    _ name: ReportName, on connection: isolated PostgresConnection
) throws -> [ReportColumn] {
    let rows = try connection.query(
        """
        -- name: listReportColumns
        SELECT a.attname::text AS name, format_type(a.atttypid, NULL) AS type,
            coalesce(col_description(c.oid, a.attnum), '') AS meaning
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'report' AND c.relkind = 'v' AND c.relname::text = \(name.rawValue)
        ORDER BY a.attnum
        """)
    return try rows.map { row in
        ReportColumn(
            name: try row.text("name"), kind: columnKind(try row.text("type")),
            meaning: try row.text("meaning"))
    }
}

private func columnKind(_ type: String) -> ReportColumn.Kind {
    switch type {
    case "bigint", "integer", "smallint": .integer
    case "boolean": .boolean
    case "timestamp with time zone": .instant
    case "date": .day
    case "text[]": .list
    case "uuid": .id
    default: .text
    }
}

/// Declares the cursor of a report. Its cells have the form in which the report shows them, and instants the form that
/// `ReportPage` reads.
private func declareCursor(_ query: ReportQuery, columns: [ReportColumn]) -> SQL {
    let cells = columns.map { column in
        let name = "\"\(column.name)\""
        return switch column.kind {
        case .day: "to_char(\(name), 'YYYY-MM-DD') AS \(name)"
        case .boolean: "\(name)::text AS \(name)"
        case .id, .instant, .integer, .list, .text: name
        }
    }
    let start: SQL = """
        -- name: declareReportRows
        DECLARE report_rows NO SCROLL CURSOR FOR
        SELECT \(unsafe: cells.joined(separator: ", "))
        """
    let end: SQL =
        "ORDER BY \(unsafe: order(of: query.name, columns)) LIMIT \(query.rowsMax)::bigint"
    var conditions: [SQL] = []
    var source: SQL = "report.\(unsafe: query.name.rawValue) v"
    if let asOf = query.asOfText {
        source =
            "report.\(unsafe: query.name.rawValue)_as_of(\(asOf)::timestamptz, \(uuid: query.batchID)::uuid) v"
    } else if let batchID = query.batchID {
        conditions.append("v.batch_id = \(uuid: batchID)")
    }
    if let currency = query.currency { conditions.append("v.currency = \(currency)") }
    if let storefront = query.storefront { conditions.append("v.storefront = \(storefront)") }
    if let from = query.occurredFrom { conditions.append("v.occurred_at >= \(timestamp: from)") }
    if let before = query.occurredBefore {
        conditions.append("v.occurred_at < \(timestamp: before)")
    }
    let chosen = conditions.dropFirst().reduce(
        conditions.first.map { "WHERE \(fragment: $0)" } ?? ""
    ) {
        "\(fragment: $0) AND \(fragment: $1)" as SQL
    }
    return "\(fragment: start) FROM \(fragment: source) \(fragment: chosen) \(fragment: end)"
}

/// Texts are compared byte by byte. So a report has the same order on every server, and sorts faster than by the rules
/// of a language.
private func order(of name: ReportName, _ columns: [ReportColumn]) -> String {
    let collated = columns.filter { $0.kind == .text || $0.kind == .list }.map(\.name)
    let terms = name.order.split(separator: ",").map { term in
        let words = term.split(separator: " ").map(String.init)
        let isCollated = words.first.map { collated.contains($0) } ?? false
        let collation = isCollated ? ["COLLATE \"C\""] : []
        return "v." + (words.prefix(1) + collation + words.dropFirst()).joined(separator: " ")
    }
    return terms.joined(separator: ", ")
}

private func reportError(_ error: PostgresError, of name: ReportName) -> ReportError {
    switch error.sqlState {
    case .insufficientPrivilege?, .undefinedTable?, .undefinedSchema?: return .notReadable(name)
    case .invalidParameterValue?: return .notYet(error.message ?? error.summary)
    case .numericValueOutOfRange?: return .tooLarge(name, error.message ?? error.summary)
    default: break
    }
    let isAway = error.isConnectionLoss || error.code == .poolTimedOut
    guard isAway else { return .failed(error.description) }
    let why = (error.message ?? error.summary).split(whereSeparator: \.isNewline)
        .map { $0.drop { $0.isWhitespace } }.joined(separator: "; ")
    return .unavailable(why)
}
