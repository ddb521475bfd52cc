import HTTP
import TestSupport
import Testing

struct HealthRoutesTests {
    private static let probe = HTTPRequest(method: "GET", target: "/readyz")

    private static func readiness(_ routes: HealthRoutes) async throws -> (Int, String) {
        let answer = try #require(await routes.answer(probe))
        return (answer.1.status, String(decoding: answer.1.body, as: UTF8.self))
    }

    /// However many probes ask: each is answered in time, and few go on asking.
    @Test func readyz_whileTheDatabaseHangs_saysSoInTime_toEveryProbe() async throws {
        let (hangs, end) = AsyncStream.makeStream(of: Void.self)
        let routes = HealthRoutes(within: .milliseconds(5)) {
            for await _ in hangs {}
            return nil
        }

        for _ in 0..<20 {
            let (status, why) = try await Self.readiness(routes)
            #expect(status == 503)
            #expect(why.hasPrefix("the database has not answered within "))
        }
        end.finish()
        try await eventually { try await Self.readiness(routes).0 == 200 }
    }

    @Test func readyz_whenTheProcessIsAboutToEnd_isRefusedWithoutAQuestion() async throws {
        let routes = HealthRoutes {
            Issue.record("nobody needs to know")
            return nil
        }
        routes.leave()

        let (status, why) = try await Self.readiness(routes)
        #expect(status == 503)
        #expect(why == "draining\n")
    }
}
