import Facts
import Postgres
import Pricing
import TestSupport
import Testing

/// A call as another process left it in the ledger.
struct OpenCall: Sendable, CustomTestStringConvertible {
    enum Kind: String, CaseIterable { case change, cancel, renewalExtension }

    enum Stage: String, CaseIterable {
        /// Its holder waits for the answer.
        case out
        /// No answer came; the next step is soon.
        case unknown
        /// No answer came, and nobody has gone on with it for more than two minutes.
        case forgotten
    }

    var kind: Kind
    var stage: Stage
    /// Began so many milliseconds of the business clock after now.
    var began: Int64 = 0
    var id = "019a0000-0000-7000-8000-00000000abcd"

    var testDescription: String { "\(kind) \(stage)" }

    static func all(besides kind: Kind, in stages: [Stage]) -> [OpenCall] {
        Kind.allCases.filter { $0 != kind }.flatMap { kind in
            stages.map { OpenCall(kind: kind, stage: $0) }
        }
    }
}

extension DeliveryHarness {
    func leave(_ call: OpenCall, of id: String) async throws {
        let state = call.stage == .out ? "sending" : "unknown"
        let real = realClock.nowMilliseconds()
        let lease: Int64? =
            switch call.stage {
            case .out: real + 10_000
            case .unknown: real + 5_000
            case .forgotten: real - 121_000
            }
        let next = call.stage == .out ? nil : lease
        let began = now.milliseconds + call.began
        let kind: StoreCall.Kind =
            switch call.kind {
            case .change: .priceChange
            case .cancel: .cancel
            case .renewalExtension: .renewalExtension
            }
        let flight = (lease ?? real) + 90_000
        try await write([
            """
            INSERT INTO repricer.store_calls (bucket, subject, call_id, kind, carries, intent, state,
                lease_owner, lease_until, in_flight_until, next_attempt_at, prepared_at)
            VALUES (repricer.bucket_of(\(id)), \(id), \(uuid: call.id), \(kind.rawValue),
                ARRAY[\(uuid: call.id)]::uuid[], '{}', \(state), \(uuid: call.id),
                \(timestamp: lease), \(timestamp: flight), \(timestamp: next), \(timestamp: began))
            """
        ])
    }

    /// Its outcome is known now.
    func close(_ call: OpenCall) async throws {
        try await write([
            """
            UPDATE repricer.store_calls SET state = 'answered', settled_at = prepared_at
            WHERE call_id = \(uuid: call.id)
            """
        ])
    }

    private func write(_ statements: [SQL]) async throws {
        let owner = try await TestDatabase.connect()
        _ = try await owner.pipeline(statements)
        await owner.close()
    }

    func pass(_ duration: Duration) {
        clock.advance(by: duration)
        realClock.advance(by: duration)
    }
}
