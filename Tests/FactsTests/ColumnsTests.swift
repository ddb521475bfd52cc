import Postgres
import TestSupport
import Testing

@Suite(.database) struct ColumnsTests {
    /// Beside full columns, as the statements send them.
    @Test(arguments: [
        [nil, nil, nil], ["a", nil, nil], [nil, nil, "c"], [nil, "b", nil], ["a", "b", "c"],
    ])
    func sparseColumn_besideALongerOne_isReadAsItWas(values: [String?]) async throws {
        let connection = try await TestDatabase.connect()
        let rows = Array(values.enumerated())

        let read = try await connection.query(
            """
            SELECT t.place, t.value FROM unnest(\(rows.column { Int64($0.offset) })::bigint[],
                \(texts: rows.sparseColumn { $0.element })::text[],
                \(timestamps: rows.sparseColumn { _ in nil })::timestamptz[]) AS t (place, value, at)
            WHERE t.at IS NULL ORDER BY t.place
            """
        ).map { try $0.textOrNil("value") }
        await connection.close()

        #expect(read == values)
    }

    @Test func sparseColumn_withoutAnyValue_isEmpty() {
        #expect([1, 2, 3].sparseColumn { _ -> String? in nil }.isEmpty)
        #expect([Int]().sparseColumn { $0 }.isEmpty)
        #expect([1, 2, 3].sparseColumn { $0 > 1 ? $0 : nil } == [nil, 2, 3])
    }
}
