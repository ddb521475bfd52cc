import Synchronization

/// Reads one report and passes its text on piece by piece, in order. `reporting` gets the number of rows read so far.
///
/// Throws a `ReportError`, or what `write` throws.
package func writeReport(
    _ query: ReportQuery, format: ReportFormat, from store: ReportStore,
    reporting: @escaping @Sendable (_ rows: Int64) -> Void = { _ in },
    write: @escaping @Sendable (String) throws -> Void
) async throws {
    let renderer = Shared(ReportRenderer(query, format: format))
    let count = Shared(Int64(0))
    try await store.read(
        query,
        columns: { columns in try write(renderer.state.withLock { $0.begin(columns) }) },
        page: { rows in
            let read = count.state.withLock { count in
                count += Int64(rows.count)
                return count
            }
            reporting(read)
            try write(renderer.state.withLock { $0.add(rows) })
        })
    try write(renderer.state.withLock { $0.end() })
}

/// One report as a table.
package func readTable(_ query: ReportQuery, from store: ReportStore) async throws -> ReportTable {
    let table = Shared(ReportTable(name: query.name, columns: [], rows: []))
    try await store.read(
        query,
        columns: { columns in table.state.withLock { $0.columns = columns } },
        page: { rows in
            let texts = rows.texts
            table.state.withLock { $0.rows += texts }
        })
    return table.state.withLock { $0 }
}

/// The connection's thread fills it while the caller waits, and nobody else holds the lock.
private final class Shared<State: Sendable>: Sendable {
    let state: Mutex<State>

    init(_ state: State) { self.state = Mutex(state) }
}
