internal import AppStore
package import ServiceKit

/// What became of one payload.
package enum IntakeOutcome: Hashable, Sendable {
    /// Durable. `isNew` is false for one that was known; `understood` is false for evidence only.
    case stored(isNew: Bool, understood: Bool)
    case refused(NotificationRefusal)
    /// Not stored; the sender should come again.
    case unavailable(String)
}

/// The one way in for notifications, over HTTP and from files: verify, store, say what became of
/// it.
package final class NotificationIntake: Sendable {
    /// What may become of a payload, in `repricer_notifications_total`: stored, or refused with a code.
    private static let outcomes =
        ["new", "duplicate", "not_understood", "unavailable", "unstorable_value"]
        + NotificationError.codes + Envelope.codes

    private let check: NotificationCheck
    private let turnstile = Turnstile()
    private let batcher: ArrivalBatcher
    private let clock: any WallClock
    private let metrics: Metrics
    // Kept at hand: what is written for each notification is not looked up by name.
    private let verifyTime: Timing
    private let storeTime: Timing
    private let stored: Counter
    private let duplicates: Counter

    /// `commit` is the store's `storeArrivals` but in tests.
    package init(
        check: @escaping NotificationCheck, clock: any WallClock, metrics: Metrics,
        limits: ArrivalBatcher.Limits = ArrivalBatcher.Limits(),
        commit: @escaping ArrivalBatcher.Commit
    ) {
        self.check = check
        batcher = ArrivalBatcher(limits: limits, commit: commit)
        self.clock = clock
        self.metrics = metrics
        verifyTime = metrics.timing("repricer_notification_verify_seconds")
        storeTime = metrics.timing("repricer_notification_store_seconds")
        stored = metrics.counter("repricer_notifications_total", labels: ["outcome": "new"])
        duplicates = metrics.counter(
            "repricer_notifications_total", labels: ["outcome": "duplicate"])
        metrics.declareCounter(
            "repricer_notifications_total", "Payloads received, by what became of them.",
            labels: ["outcome": Self.outcomes])
        metrics.declareCounter(
            "repricer_unknown_parts_total",
            "Types, subtypes, fields, values and shapes that are not known, in new notifications.",
            labels: ["kind": UnknownPart.Kind.allCases.map(\.rawValue)])
        metrics.declareTiming(
            "repricer_notification_verify_seconds", "Time to verify one payload.")
        metrics.declareTiming(
            "repricer_notification_store_seconds", "Time until one payload is durable.")
    }

    package convenience init(
        check: @escaping NotificationCheck, clock: any WallClock, metrics: Metrics,
        store: NotificationStore
    ) {
        self.init(check: check, clock: clock, metrics: metrics) {
            batch throws(ArrivalError) in
            try await store.storeArrivals(batch, receivedAt: clock.nowMilliseconds())
        }
    }

    /// Returns `stored` only once the payload is durable.
    ///
    /// It verifies on the thread that calls: some 0.5 ms of computation, for which a connection of
    /// the receiver has a thread of its own. A hop to other threads would cost more than it spares.
    /// `seen` is shown what was verified, before it is stored.
    package func take(
        _ signedPayload: String, seen: (Arrival) -> Void = { _ in }
    ) async -> IntakeOutcome {
        count(await judge(signedPayload, seen))
    }

    /// Stores what was checked elsewhere; returns `stored` only once it is durable.
    func keep(_ arrival: Arrival) async -> IntakeOutcome {
        count(await store(arrival))
    }

    @discardableResult
    func count(_ outcome: IntakeOutcome) -> IntakeOutcome {
        switch outcome {
        case .stored(isNew: true, understood: true): stored.increment()
        case .stored(isNew: false, _): duplicates.increment()
        case .stored(isNew: true, understood: false): count("not_understood")
        case .refused(let refusal): count(refusal.code)
        case .unavailable: count("unavailable")
        }
        return outcome
    }

    private func count(_ outcome: String) {
        metrics.increment("repricer_notifications_total", labels: ["outcome": outcome])
    }

    private func judge(
        _ signedPayload: String, _ seen: (Arrival) -> Void
    ) async -> IntakeOutcome {
        let start = ContinuousClock.now
        let arrival: Arrival
        do throws(NotificationRefusal) {
            defer { verifyTime.observe(seconds: (.now - start) / .seconds(1)) }
            arrival = try turnstile.pass { () throws(NotificationRefusal) in
                try check(signedPayload, clock.nowMilliseconds())
            }
        } catch {
            return .refused(error)
        }
        seen(arrival)
        let verifiedAt = ContinuousClock.now
        let outcome = await store(arrival)
        storeTime.observe(seconds: (.now - verifiedAt) / .seconds(1))
        return outcome
    }

    private func store(_ arrival: Arrival) async -> IntakeOutcome {
        do throws(ArrivalError) {
            let isNew = try await batcher.store(arrival)
            if isNew { count(arrival.unknown) }
            return .stored(isNew: isNew, understood: arrival.understood)
        } catch {
            switch error {
            case .refused(let why):
                return .refused(
                    NotificationRefusal(.malformed, code: "unstorable_value", message: why))
            case .unavailable, .disturbed: return .unavailable(error.description)
            }
        }
    }

    /// By kind alone: names come from outside, and would make labels without end.
    private func count(_ unknown: [String]) {
        for part in unknown {
            let kind = String(part.prefix { $0 != ":" })
            metrics.increment("repricer_unknown_parts_total", labels: ["kind": kind])
        }
    }
}
