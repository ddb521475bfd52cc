import AppStore
import Facts
import Pricing
import ServiceKit

/// Halts the whole service where calls are refused alike, whatever the subscription and the batch, and lets it go on
/// once a call is answered again. The halt is stored before anything else, and logged at error level.
struct ServiceHalt: Sendable {
    let pool: DatabasePool
    let clock: any WallClock
    let log: Log
    let metrics: Metrics

    /// - Parameters:
    ///   - subject: The last subject that was refused alike.
    ///   - streak: The refusals of calls of `kind`.
    func haltAll(
        because refusal: StoreRefusal, _ subject: String, by kind: StoreCall.Kind,
        _ streak: RefusalStreak?
    ) async throws {
        let now = clock.nowMilliseconds()
        let text = Self.reason(refusal, subject, streak)
        let isNew = try await pool.withTransaction {
            try ServiceControlQueries.haltService(
                reason: text, at: now, by: kind, since: streak?.since.milliseconds, on: $0)
        }
        guard isNew else { return }
        log.error(
            "service halted: calls are refused alike, whatever the subscription",
            ["code": refusal.codeAndName, "subscription": subject])
        metrics.increment("repricer_service_halts_total")
    }

    /// Whether the code at the start of the reason is about our key. Then any answered call shows that the key is good.
    /// Any other code, and a bare HTTP status from a proxy before the App Store, may be about one endpoint alone.
    static func isAboutKey(_ reason: String) -> Bool {
        code(reason).map { APIErrorCode(rawValue: $0).isAboutKey } ?? false
    }

    /// The code at the beginning of the reason.
    static func code(_ reason: String) -> Int? {
        Int(reason.prefix { $0.isASCII && $0.isNumber })
    }

    /// Halts calls of a kind that has no batches.
    func halt(
        _ kind: StoreCall.Kind, because refusal: StoreRefusal, _ subject: String,
        _ streak: RefusalStreak?
    ) async throws {
        let now = clock.nowMilliseconds()
        let text = Self.reason(refusal, subject, streak)
        let isNew = try await pool.withTransaction {
            try ServiceControlQueries.halt(
                kind, reason: text, at: now, since: streak?.since.milliseconds, on: $0)
        }
        guard isNew else { return }
        log.error(
            "calls of a kind halted: they are refused alike, whatever the subscription",
            ["kind": kind.rawValue, "code": refusal.codeAndName, "subscription": subject])
        metrics.increment("repricer_kind_halts_total", labels: ["kind": kind.rawValue])
    }

    /// Ends the halt of a kind, because the App Store takes its calls again.
    func recover(_ kind: StoreCall.Kind) async throws {
        let now = clock.nowMilliseconds()
        let isNew = try await pool.withTransaction {
            try ServiceControlQueries.recover(kind, at: now, on: $0)
        }
        if isNew {
            log.notice(
                "calls of a kind recovered: they are answered again", ["kind": kind.rawValue])
        }
    }

    /// Notes the answer with which the latest probe was refused; `kind` is nil for the service.
    func note(
        _ refusal: StoreRefusal, of subject: String, _ kind: StoreCall.Kind?
    ) async throws {
        let note = ServiceControlQueries.noteHaltAnswer(
            kind, "\(refusal.codeAndName) for \(subject)")
        try await pool.write(note)
    }

    /// Throttles calls of the kind: the next one leaves at `until`.
    func throttle(_ kind: StoreCall.Kind, until: Instant, answer: String) async throws {
        let throttle = ServiceControlQueries.throttle(
            kind, until: until.milliseconds, answer: answer, at: clock.nowMilliseconds())
        try await pool.write(throttle)
    }

    /// Ends the throttle, because calls of the kind are answered again.
    func endThrottle(_ kind: StoreCall.Kind) async throws {
        _ = try await pool.withTransaction {
            try ServiceControlQueries.endThrottle(kind, on: $0)
        }
    }

    /// Notes, for people who ask, that no call of the kind can leave.
    func noteUnreached(_ kind: StoreCall.Kind, answer: String) async throws {
        try await pool.write(
            ServiceControlQueries.noteUnreached(kind, answer: answer, at: clock.nowMilliseconds()))
    }

    func endUnreached(_ kind: StoreCall.Kind) async throws {
        try await pool.write(ServiceControlQueries.endUnreached(kind))
    }

    private static func reason(
        _ refusal: StoreRefusal, _ subject: String, _ streak: RefusalStreak?
    ) -> String {
        "\(refusal.codeAndName): \(refusal.met(by: streak)), the last of them \(subject)"
    }

    /// Ends the halt of the service, because the App Store takes calls again.
    func recover() async throws {
        let now = clock.nowMilliseconds()
        let isNew = try await pool.withTransaction {
            try ServiceControlQueries.recoverService(at: now, on: $0)
        }
        if isNew { log.notice("service recovered: calls are answered again") }
    }
}
