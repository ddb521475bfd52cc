import AppStore
import Foundation
import HTTP
import SandboxStore
import ServiceKit
import Synchronization

/// The road between the product and the store, with all that goes wrong on it, and a log of what passed.
///
/// What becomes of a call depends on the seed, the subscription and how many calls of the kind it had, so the order in
/// which calls of different subscriptions arrive changes nothing.
final class Wire: Sendable {
    enum Fault: String, CaseIterable, Sendable {
        case refusedConnection, lostBefore, lostAfter, error500, error503, errorAfter, tooMany
        case oddRefusal, garbage, hollow, diesBefore, diesAfter, cutDatabase
    }

    /// One attempt as the wire saw it. Written at both ends, so that what was out at a time can be told.
    struct Line: Encodable, Sendable {
        var sequence: Int
        var at: Int64
        var endpoint: String
        var subject: String
        var reference: String?
        /// nil: the beginning of the attempt.
        var outcome: String?
        /// What the store itself answered, where it was asked.
        var status: Int?
    }

    private struct State {
        var lines: [Line] = []
        var counts: [String: Int] = [:]
        var isCalm = false
        var outage: (fault: Fault, until: Int64)?
        var cut: (@Sendable () async -> Void)?
    }

    private let store: SimulatedStore
    private let clock: WorldClock
    private let seed: UInt64
    private let state = Mutex(State())

    init(_ store: SimulatedStore, clock: WorldClock, seed: UInt64) {
        self.store = store
        self.clock = clock
        self.seed = seed
    }

    var lines: [Line] { state.withLock { $0.lines } }
    var faultCounts: [String: Int] {
        state.withLock { $0.lines }.reduce(into: [:]) { counts, line in
            if let outcome = line.outcome { counts[outcome, default: 0] += 1 }
        }
    }

    /// From now on nothing goes wrong.
    func calm() { state.withLock { ($0.isCalm, $0.outage) = (true, nil) } }

    /// What every call meets until an instant. It ends by itself: who is told to wait does so within one turn.
    func begin(_ fault: Fault, until: Int64) { state.withLock { $0.outage = (fault, until) } }

    func onCut(_ cut: @escaping @Sendable () async -> Void) { state.withLock { $0.cut = cut } }

    /// Carries one request of a process.
    func send(
        _ request: HTTPRequest, of process: SimulatedProcess
    ) async throws(HTTPClientError) -> HTTPResponse {
        guard !process.isDead else { throw SimulatedProcess.gone }
        let call = Call(request)
        let sequence = note(call, outcome: nil, status: nil, after: nil)
        let fault = fault(of: call)
        let now = clock.nowMilliseconds()
        func ends(_ outcome: String, _ status: Int? = nil) {
            note(call, outcome: outcome, status: status, after: sequence)
        }
        switch fault {
        case .refusedConnection:
            ends("notSent")
            throw HTTPClientError(.cannotConnect, "simulated")
        case .lostBefore:
            ends("lost")
            throw HTTPClientError(.timedOut, "simulated", requestMayHaveArrived: true)
        case .error500, .error503:
            ends("lost", fault == .error500 ? 500 : 503)
            return .json(fault == .error500 ? 500 : 503, "{\"errorCode\":5000001}")
        case .tooMany:
            ends("refused", 429)
            var response = HTTPResponse.json(429, "{\"errorCode\":4290000}")
            response.headers["Retry-After"] = String(now + 20_000)
            return response
        case .oddRefusal:
            ends("refused", 400)
            return .json(400, "{\"errorCode\":4000999,\"errorMessage\":\"not understood\"}")
        case .diesBefore:
            ends("died")
            process.die()
            try await process.stopIfDead()
        case .lostAfter, .errorAfter, .garbage, .hollow, .diesAfter, .cutDatabase, nil: break
        }
        let response = await store.handle(request)
        if fault == .diesAfter { process.die() }
        if process.isDead {
            ends("died", response.status)
            try await process.stopIfDead()
        }
        return try await answer(fault, response, ends)
    }

    private func answer(
        _ fault: Fault?, _ response: HTTPResponse, _ ends: (String, Int?) -> Void
    ) async throws(HTTPClientError) -> HTTPResponse {
        switch fault {
        case .lostAfter:
            ends("lost", response.status)
            throw HTTPClientError(.connectionLost, "simulated", requestMayHaveArrived: true)
        case .errorAfter:
            ends("lost", response.status)
            return .json(500, "{\"errorCode\":5000000}")
        case .garbage:
            ends("lost", response.status)
            return .text(200, "<html>gateway</html>\u{0}{")
        case .hollow:
            ends("lost", response.status)
            return .json(200, "{\"signedRenewalInfo\":null,\"data\":{}}")
        case .cutDatabase:
            let cut = state.withLock { $0.cut }
            await cut?()
        case .refusedConnection, .lostBefore, .error500, .error503, .tooMany, .oddRefusal,
            .diesBefore, .diesAfter, nil:
            break
        }
        ends(response.status < 300 ? "answered" : "refused", response.status)
        return response
    }

    private func fault(of call: Call) -> Fault? {
        let now = clock.nowMilliseconds()
        let (count, isCalm, outage) = state.withLock { state in
            let key = "\(call.endpoint) \(call.subject)"
            let count = state.counts[key, default: 0]
            state.counts[key] = count + 1
            return (count, state.isCalm, state.outage)
        }
        if isCalm { return nil }
        if let outage, now < outage.until { return outage.fault }
        var dice = Dice(seed, "wire", call.endpoint, call.subject, String(count))
        guard dice.chance(160) else { return nil }
        // Statuses and history are read again; their faults are those of any answer.
        return Fault.allCases.randomElement(using: &dice)
    }

    @discardableResult
    private func note(_ call: Call, outcome: String?, status: Int?, after: Int?) -> Int {
        let now = clock.nowMilliseconds()
        return state.withLock { state in
            let sequence = after ?? state.lines.count
            state.lines.append(
                Line(
                    sequence: sequence, at: now, endpoint: call.endpoint, subject: call.subject,
                    reference: call.reference, outcome: outcome, status: status))
            return sequence
        }
    }
}

/// What a request asks for, read from its path and body.
private struct Call {
    var endpoint: String
    var subject: String
    var reference: String?

    init(_ request: HTTPRequest) {
        let path = request.path.split(separator: "/").map(String.init)
        subject = path.last ?? ""
        endpoint =
            path.contains("changePrice") || path.contains("cancel")
            ? path.dropLast().last ?? ""
            : path.contains("extend") ? "extend" : path.dropFirst(2).first ?? ""
        let body = String(decoding: request.body, as: UTF8.self)
        for key in ["\"requestReferenceId\":\"", "\"requestIdentifier\":\""] {
            guard let range = body.range(of: key) else { continue }
            reference = String(body[range.upperBound...].prefix { $0 != "\"" })
        }
    }
}
