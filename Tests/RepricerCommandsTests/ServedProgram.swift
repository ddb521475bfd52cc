import TestSupport
import Testing

extension Program {
    /// `repricer serve --only receiver`.
    static func receiver(
        roots: String, database: String, _ more: [String: String] = [:]
    ) throws -> Program {
        try Program(
            built("repricer"), ["serve", "--only", "receiver"],
            environment: [
                "REPRICER_DATABASE_URL": database, "REPRICER_BUNDLE_ID": "com.example.app",
                "REPRICER_ENVIRONMENT": "Sandbox", "REPRICER_API_BASE_URL": "http://127.0.0.1:9",
                "REPRICER_ROOT_CERTIFICATES": roots,
                "REPRICER_LISTEN": "127.0.0.1:0", "REPRICER_PAGES_LISTEN": "127.0.0.1:0",
            ].merging(more) { _, new in new })
    }

    /// Read from what it says, once it serves.
    func port() async throws -> Int {
        let said = try await said(until: "message=serving")
        let match = try #require(said.firstMatch(of: /message=listening port=([0-9]+)/))
        return try #require(Int(match.1))
    }
}
