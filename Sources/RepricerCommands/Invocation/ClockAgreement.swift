import HTTP
import JSON
import ServiceKit

extension Configuration {
    /// The product's clock: the machine's, or the rehearsal's.
    ///
    /// A virtual clock without an origin takes that of the simulated App Store, so that both share one time.
    func makeClock(dependencies: Dependencies) async throws -> any WallClock {
        try check(.clock)
        guard let clock else { return dependencies.realClock }
        if clock.origin != nil { return clock.clock(real: dependencies.realClock) }
        let shared = try await SharedClock.ask(
            baseURL: required(apiBaseURL, .apiBaseURL), caFile: apiCAFile)
        guard shared.start == clock.start, shared.rate == clock.rate else {
            let theirs = shared.clock(real: dependencies.realClock).specification
            throw CommandFailure(
                .failed,
                "the App Store at \(apiBaseURL ?? "") runs on the clock \(theirs); give --clock that"
            )
        }
        return shared.clock(real: dependencies.realClock)
    }
}

/// The clock of an appstore-sandbox.
enum SharedClock {
    static func ask(baseURL: String, caFile: String?) async throws -> VirtualClock.Parsed {
        let answer: [UInt8]
        do throws(HTTPClientError) {
            let response = try await HTTPClient.get("/sandbox/clock", baseURL, caFile: caFile)
            guard response.status == 200 else {
                throw HTTPClientError(.malformedResponse, "status \(response.status)")
            }
            answer = response.body
        } catch {
            throw CommandFailure(
                .unavailable,
                "\(baseURL)/sandbox/clock gives no origin for the clock: \(error.reason); "
                    + "start appstore-sandbox, or write START@RATE@ORIGIN")
        }
        let told = JSONDocument.read(answer)?["specification"]?.text
        // Any unreadable answer is the one failure that is reported below.
        guard let parsed = told.flatMap({ try? VirtualClock.parse($0) }), parsed.origin != nil
        else {
            throw CommandFailure(
                .failed,
                "\(baseURL)/sandbox/clock answers without a clock START@RATE@ORIGIN; "
                    + "write the origin into --clock")
        }
        return parsed
    }
}

extension HTTPClient {
    /// Asks once.
    static func get(
        _ target: String, _ baseURL: String, caFile: String?
    ) async throws(HTTPClientError) -> HTTPResponse {
        let client = try HTTPClient(
            baseURL: baseURL, extraCAFile: caFile, limits: .forOneQuestion)
        defer { client.close() }
        return try await client.send(HTTPRequest(method: "GET", target: target))
    }
}

extension HTTPClientLimits {
    /// It uses one connection, for ten seconds at most.
    static var forOneQuestion: HTTPClientLimits {
        var limits = HTTPClientLimits()
        limits.connectionsMax = 1
        limits.requestDeadline = .seconds(10)
        return limits
    }
}
