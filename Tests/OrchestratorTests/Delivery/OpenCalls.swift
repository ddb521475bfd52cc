import Ledger
import Orchestrator
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

    var testDescription: String { "\(kind) \(stage) \(began)" }

    static func all(besides kind: Kind, in stages: [Stage]) -> [OpenCall] {
        Kind.allCases.filter { $0 != kind }.flatMap { kind in
            stages.map { OpenCall(kind: kind, stage: $0) }
        }
    }
}

extension DeliveryWorld {
    private static let open = "019a0000-0000-7000-8000-00000000abcd"

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
        let statement: SQL =
            switch call.kind {
            case .change:
                """
                INSERT INTO repricer.price_change_requests (original_transaction_id, request_reference_id,
                    change_ids, transaction_id, call, state, lease_owner, lease_until, next_attempt_at, prepared_at)
                VALUES (\(id), \(uuid: Self.open), ARRAY[\(uuid: Self.open)]::uuid[], \(id), '{}', \(state),
                    \(uuid: Self.open), \(timestamp: lease), \(timestamp: next), \(timestamp: began))
                """
            case .cancel:
                """
                INSERT INTO repricer.cancel_requests (original_transaction_id, request_reference_id, parents,
                    transaction_id, call, state, lease_owner, lease_until, next_attempt_at, prepared_at)
                VALUES (\(id), \(uuid: Self.open), '{}', \(id), '{}', \(state), \(uuid: Self.open),
                    \(timestamp: lease), \(timestamp: next), \(timestamp: began))
                """
            case .renewalExtension:
                """
                INSERT INTO repricer.extension_calls (original_transaction_id, extension_id, extend_by_days,
                    reason_code, state, requested_by, requested_at, called_at, attempts, may_be_applied,
                    next_attempt_at, lease_owner, leased_until)
                VALUES (\(id), \(uuid: Self.open), 30, 3, \(state), 'test', \(timestamp: began),
                    \(timestamp: began), 1, \(next != nil), \(timestamp: lease),
                    \(uuid: next == nil ? Self.open : nil), \(timestamp: next == nil ? lease : nil))
                """
            }
        try await write([statement])
    }

    /// Its outcome is known now.
    func close(_ call: OpenCall) async throws {
        switch call.kind {
        case .change:
            try await write([
                """
                UPDATE repricer.price_change_requests SET state = 'answered', settled_at = prepared_at
                WHERE request_reference_id = \(uuid: Self.open)
                """
            ])
        case .cancel:
            try await write([
                """
                UPDATE repricer.cancel_requests SET state = 'answered', settled_at = prepared_at
                WHERE request_reference_id = \(uuid: Self.open)
                """
            ])
        case .renewalExtension:
            try await write([
                """
                UPDATE repricer.extension_calls SET state = 'refused', settled_at = called_at,
                    settled_by = 'answer' WHERE extension_id = \(uuid: Self.open)
                """
            ])
        }
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
