import Facts
import Postgres
import TestSupport
import Testing

/// Whose an extension was is said once for all buckets and once for one; both say the same.
@Suite(.database) struct AttributedExtensionTests {
    @Test func ofOneBucket_isTheViewWithThatBucket() async throws {
        let connection = try await TestDatabase.connect()
        _ = try await connection.execute(
            """
            CREATE TEMPORARY VIEW of_bucket AS
            \(fragment: AttributedExtensionQueries.inBucket("7::smallint"))
            """)

        let rows = try await connection.query(
            """
            SELECT pg_get_viewdef('of_bucket'::regclass, true) AS one,
                regexp_replace(pg_get_viewdef('repricer.attributed_extensions'::regclass, true),
                    '\\.bucket = [a-z]\\.bucket', '.bucket = 7::smallint', 'g') AS every
            """)
        let row = try rows.one()

        let every = try row.text("every")
        #expect(every.hasSuffix(" ON true;"))
        #expect(try row.text("one") == every.dropLast() + "\n  WHERE e.bucket = 7::smallint;")
        await connection.close()
    }
}
