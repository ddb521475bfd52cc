import Synchronization

/// Reads one report and hands its text over as it grows; the pieces in order make the whole.
///
/// Throws a `ReportError`, or what `write` throws.
package func writeReport(
    _ query: ReportQuery, format: ReportFormat, from store: ReportStore,
    write: @escaping @Sendable (String) throws -> Void
) async throws {
    let renderer = SharedRenderer(query, format: format)
    try await store.read(
        query,
        columns: { columns in try write(renderer.state.withLock { $0.begin(columns) }) },
        page: { rows in try write(renderer.state.withLock { $0.add(rows) }) })
    try write(renderer.state.withLock { $0.end() })
}

/// One report as one text, for small ones.
package func render(
    _ query: ReportQuery, format: ReportFormat, from store: ReportStore
) async throws -> String {
    let text = SharedText()
    try await writeReport(query, format: format, from: store) { piece in
        text.state.withLock { $0 += piece }
    }
    return text.state.withLock { $0 }
}

/// One report as a table.
package func readTable(_ query: ReportQuery, from store: ReportStore) async throws -> ReportTable {
    let table = SharedTable(query.name)
    try await store.read(
        query,
        columns: { columns in table.state.withLock { $0.columns = columns } },
        page: { rows in table.state.withLock { $0.rows += rows } })
    return table.state.withLock { $0 }
}

// The connection's thread fills these while the caller waits; nobody else holds the locks.
private final class SharedRenderer: Sendable {
    let state: Mutex<ReportRenderer>

    init(_ query: ReportQuery, format: ReportFormat) {
        state = Mutex(ReportRenderer(query, format: format))
    }
}

private final class SharedText: Sendable {
    let state = Mutex("")
}

private final class SharedTable: Sendable {
    let state: Mutex<ReportTable>

    init(_ name: ReportName) {
        state = Mutex(ReportTable(name: name, columns: [], rows: []))
    }
}
