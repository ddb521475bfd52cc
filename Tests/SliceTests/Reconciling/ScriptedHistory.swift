import HTTP
import Notifications
import Pricing
import Reconciliation
import Synchronization

@testable import AppStore

/// A notification history by Apple's rules: twenty a page, tokens that belong to their question.
final class ScriptedHistory: HistoryCalls {
    enum Fault: Sendable {
        case away
        case throttled(until: Instant)
        case expiredToken
        case noToken
        case sameToken
        case refused(Int)
    }

    struct Entry: Sendable {
        var payload: String
        var at: Int64
        var hasFailed = false
    }

    struct Asked: Sendable {
        var request: NotificationHistoryRequest
        var token: String?
    }

    private struct State {
        var entries: [Entry] = []
        var faults: [Int: Fault] = [:]
        var asked: [Asked] = []
    }

    private let state = Mutex(State())
    /// Whether the first and the last millisecond of a span count; Apple does not say.
    let countsEdges: Bool

    init(_ entries: [Entry] = [], countsEdges: Bool = true, faults: [Int: Fault] = [:]) {
        self.countsEdges = countsEdges
        state.withLock {
            $0.entries = entries
            $0.faults = faults
        }
    }

    var asked: [Asked] { state.withLock { $0.asked } }

    func add(_ entry: Entry) { state.withLock { $0.entries.append(entry) } }

    /// The call with this number, from 0, ends so.
    func fail(_ call: Int, _ fault: Fault) { state.withLock { $0.faults[call] = fault } }

    func history(
        _ request: NotificationHistoryRequest, paginationToken: String?
    ) async -> CallOutcome<NotificationHistoryPage> {
        let reply = StoreReply(HTTPResponse(status: 200, body: []))
        return state.withLock { state in
            let fault = state.faults[state.asked.count]
            state.asked.append(Asked(request: request, token: paginationToken))
            var page = page(of: state.entries, request, paginationToken)
            switch fault {
            case .away: return .notSent(reason: "connection refused")
            case .throttled(let until): return .throttled(until: until, reply)
            case .expiredToken:
                return .refused(code: .paginationTokenExpired, message: "", reply)
            case .refused(let code):
                return .refused(code: APIErrorCode(rawValue: code), message: "no", reply)
            case .noToken:
                page?.hasMore = true
                page?.paginationToken = nil
            case .sameToken:
                page?.hasMore = true
                page?.paginationToken = "again"
            case nil: break
            }
            guard let page else {
                return .refused(code: .invalidPaginationToken, message: "", reply)
            }
            return .answered(page, reply)
        }
    }

    private func page(
        of entries: [Entry], _ request: NotificationHistoryRequest, _ token: String?
    ) -> NotificationHistoryPage? {
        let question = "\(request.startAt.milliseconds)-\(request.endAt.milliseconds)"
        let parts = token?.split(separator: "/").map(String.init)
        if let parts, parts.first != question, token != "again" { return nil }
        let first = parts?.last.flatMap { Int($0) } ?? 0
        let edge: Int64 = countsEdges ? 0 : 1
        let found = entries.filter { entry in
            entry.at >= request.startAt.milliseconds + edge
                && entry.at <= request.endAt.milliseconds - edge
                && (entry.hasFailed || !request.onlyFailures)
        }
        let next = first + 20
        return NotificationHistoryPage(
            entries: found[min(first, found.count)..<min(next, found.count)].map {
                NotificationHistoryPage.Entry(signedPayload: $0.payload, sendAttempts: [])
            },
            unreadable: 0, hasMore: found.count > next,
            paginationToken: found.count > next ? "\(question)/\(next)" : nil)
    }
}

/// An intake that keeps payloads by their text; `forged` ones are refused.
final class ScriptedIntake: HistoryIntake {
    private struct State {
        var stored: [String] = []
        var closesAfter = Int.max
    }

    private let state = Mutex(State())

    var stored: [String] { state.withLock { $0.stored } }

    /// The database goes away after so many payloads; `Int.max` brings it back.
    func close(after count: Int) { state.withLock { $0.closesAfter = count } }

    func take(_ signedPayload: String) async -> IntakeOutcome {
        state.withLock { state in
            if state.stored.count >= state.closesAfter { return .unavailable("away") }
            if signedPayload.hasPrefix("forged") {
                return .refused(.init(.forbidden, code: "jws_chain", message: "as scripted"))
            }
            let isNew = !state.stored.contains(signedPayload)
            if isNew { state.stored.append(signedPayload) }
            return .stored(isNew: isNew, understood: true)
        }
    }
}
