internal import AppStore
package import ServiceKit

/// The outcome for one payload.
package enum IntakeOutcome: Hashable, Sendable {
    /// It is durable. `isNew` is false for a duplicate, and `understood` is false for one that is only kept as
    /// evidence.
    case stored(isNew: Bool, understood: Bool)
    case refused(NotificationRefusal)
    /// It is not stored, and the sender should try again.
    case unavailable(String)
    /// It is not stored, because the database has been migrated for newer programs. The sender should try again,
    /// because another process may already be a newer one.
    case outdated(String)
}

/// The entry for all notifications, over HTTP and from files. It verifies and stores each, and returns the outcome.
package final class NotificationIntake: Sendable {
    /// The values of `outcome` in `repricer_notifications_total`: what became of a payload, or the code of its refusal.
    private static let outcomes =
        ["new", "duplicate", "not_understood", "unavailable", "unstorable_value"]
        + NotificationError.codes + Envelope.codes + LegacyIntake.codes + [IngestReader.lineTooLong]

    private let check: NotificationCheck
    private let turnstile = Turnstile()
    private let batcher: ArrivalBatcher
    private let clock: any WallClock
    private let metrics: Metrics
    // These are stored, because a lookup by name would cost time for every notification.
    private let verifyTime: Timing
    private let storeTime: Timing
    private let stored: Counter
    private let duplicates: Counter

    /// - Parameter commit: The store's `storeArrivals`, except in tests.
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
    /// It verifies on the calling thread, in some 0.5 ms. Each connection of the receiver has a thread, so another one
    /// would cost more than it saves. `seen` gets the verified arrival before it is stored.
    package func take(
        _ signedPayload: String, seen: (Arrival) -> Void = { _ in }
    ) async -> IntakeOutcome {
        count(await judge(signedPayload, seen))
    }

    /// Stores what another part has checked. Returns `stored` only once it is durable.
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
        case .unavailable, .outdated: count("unavailable")
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
            case .outdated(let why): return .outdated(why)
            }
        }
    }

    /// Counts unknown parts only by kind, because their names come from outside and would create labels without limit.
    private func count(_ unknown: [String]) {
        for part in unknown {
            let kind = String(part.prefix { $0 != ":" })
            metrics.increment("repricer_unknown_parts_total", labels: ["kind": kind])
        }
    }
}
