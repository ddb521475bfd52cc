import AppStore
import Calls
import HTTP
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import Pricing

/// A price call takes its permit with its connection open, from the round to the socket. A handshake that began only then
/// would make it miss its instant wherever Apple is far away.
@Suite(.database) struct ReadyCallTests {
    private typealias Harness = DeliveryHarness

    /// Sees what is done while a connection is held open.
    private final class Wire: HTTPSending {
        @TaskLocal static var isReady = false
        let sentReady = Mutex([Bool]())
        let waitedReady = Mutex([Bool]())

        func prepare(_ count: Int) async {}

        func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T {
            await Self.$isReady.withValue(true) { await work() }
        }

        func send(
            _ request: HTTPRequest, leavingBefore: ContinuousClock.Instant?
        ) async throws(HTTPClientError) -> HTTPResponse {
            sentReady.withLock { $0.append(Self.isReady) }
            return HTTPResponse(status: 500)
        }
    }

    @Test func priceCall_waitsForItsPermit_andLeaves_withItsConnectionOpen() async throws {
        let harness = try await Harness.make()
        let wire = Wire()
        for id in ["1", "2", "3"] { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ["1", "2", "3"].enumerated().map { Harness.row($1, line: $0 + 2) })
        let scheduler = harness.scheduler(
            calls: try harness.liveCalls(wire), perSecond: 4,
            wait: { _ in wire.waitedReady.withLock { $0.append(Wire.isReady) } })

        while wire.sentReady.withLock({ $0.count }) < 3 { _ = try await scheduler.round() }

        #expect(wire.sentReady.withLock { $0.prefix(3) } == [true, true, true])
        #expect(wire.waitedReady.withLock { $0.contains(true) })
        await harness.close()
    }
}
