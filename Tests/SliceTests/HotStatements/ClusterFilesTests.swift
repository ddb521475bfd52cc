import Foundation
import Postgres
import TestSupport
import Testing

/// On a Citus cluster some functions of the schema are replaced by others (`Deploy/citus`), which must do what the plain ones do.
/// A cluster refuses to be spread where a plain one changed; this tells it everywhere.
@Suite(.database) struct ClusterFilesTests {
    @Test func partOfAFunction_thatGatherReplaces_isStillInIt() async throws {
        let file = try Self.read("Deploy/citus/gather.sql")
        let old = try #require(file.firstMatch(of: /\$old\$(.*?)\$old\$;/.dotMatchesNewlines())?.1)
        let function = try #require(file.firstMatch(of: /pg_get_functiondef\('([^']+)'::/)?.1)

        let isThere = try await TestDatabase.withRollback { connection in
            try connection.query(
                """
                SELECT strpos(pg_get_functiondef(\(String(function))::regprocedure), \(String(old))) > 0 AS is_there
                """
            ).one().bool("is_there")
        }

        #expect(isThere, "make gather.sql do what \(function) does")
    }

    @Test func functions_thatSummariseReplaces_areThoseItWasMadeFor() async throws {
        let file = try Self.read("Deploy/citus/summarise.sql")
        let known = file.matches(of: /\('(\w+)', '([0-9a-f]{32})'\)/)
            .map { (name: String($0.1), md5: String($0.2)) }
        #expect(known.count == 2)

        for (name, md5) in known {
            let found = try await TestDatabase.withRollback { connection in
                try connection.query(
                    """
                    SELECT md5(p.prosrc) AS md5 FROM pg_proc p
                    WHERE p.pronamespace = 'repricer'::regnamespace AND p.proname = \(name)
                    """
                ).one().text("md5")
            }
            #expect(found == md5, "make summarise.sql do what \(name) does")
        }
    }

    private static func read(_ path: String) throws -> String {
        try String(contentsOfFile: RepositoryFiles.path(path), encoding: .utf8)
    }
}
