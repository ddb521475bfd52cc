package import Facts
package import ServiceKit

/// One event on its way to the receiver of webhooks.
package struct WebhookMessage: Sendable, Hashable {
    package var eventID: String
    package var type: String
    package var body: [UInt8]
    /// The value of `WebhookSignature.header`.
    package var signature: String
}

/// The result of a delivery. Only a 2xx counts as delivered. Everything else is tried again, a redirect too, because
/// it is not followed.
package enum WebhookAnswer: Sendable, Hashable {
    case status(Int)
    case failed(String)
}

/// Posts webhooks. An HTTPS client does it; tests script their own.
package protocol WebhookPosting: Sendable {
    func post(_ message: WebhookMessage) async -> WebhookAnswer
}

/// Delivers the events of the outbox: one after another for each subscription, many subscriptions in parallel, from any
/// number of replicas. A failed event is tried again with growing waits for three days. It delays only its own
/// subscription, even while a request hangs. A receiver may get an event twice, when its answer was lost; it can tell
/// by the id.
package struct WebhookSender: Service {
    package let name = "webhooks"
    private let pool: DatabasePool
    private let target: Target?
    private let realClock: any WallClock
    private let sharedClock: SharedClock?
    private let log: Log
    private let metrics: Metrics
    private let limits: Limits
    private let receiver: Receiver

    package struct Target: Sendable {
        package var posting: any WebhookPosting
        /// Read for each delivery, because the file of the secret may be replaced.
        package var secret: @Sendable () -> [UInt8]

        package init(posting: any WebhookPosting, secret: @escaping @Sendable () -> [UInt8]) {
            self.posting = posting
            self.secret = secret
        }
    }

    package struct Limits: Sendable {
        /// How many events are being delivered at a time. More are taken when a quarter of these places is free.
        package var atOnce = 32
        /// The lease of one event, which is longer than a request may take.
        package var leaseFor: Duration = .seconds(20)
        /// How long after it was leased an event may be sent. An event whose turn comes later is left for another
        /// round.
        package var leavesWithin: Duration = .seconds(5)
        package var retry = Backoff(first: .seconds(1), max: .seconds(3600))
        package var triedFor: Duration = .seconds(3 * 86_400)
        /// How often an event is tried at least, however old it is. With these waits that takes a quarter of an hour.
        package var attemptsMin = 10
        /// How long delivered and abandoned events are kept.
        package var keptFor: Duration = .seconds(30 * 86_400)
        package var pruneEvery: Duration = .seconds(600)
        /// Pruning stops after this time, so that delivery does not wait long, and then continues after
        /// `pruneAgainAfter`.
        package var pruneFor: Duration = .seconds(5)
        package var pruneAgainAfter: Duration = .seconds(60)
        package var prunedPerTransaction = 1000
        /// A failure sooner than this after a delivery says nothing about the receiver.
        package var awayAfter: Duration = .seconds(10)
        /// A delivery sooner than this after a failure does not end an outage.
        package var quietFor: Duration = .seconds(60)
        package var idleWait: Duration = .seconds(1)
        package var errorCharactersMax = 300

        package init() {}
    }

    /// Without a target nothing is sent, and waiting events are abandoned after the three days.
    package init(
        pool: DatabasePool, target: Target?, realClock: any WallClock = SystemClock(), log: Log,
        metrics: Metrics, limits: Limits = Limits()
    ) {
        self.pool = pool
        self.target = target
        sharedClock = realClock is SystemClock ? SharedClock() : nil
        self.realClock = sharedClock ?? realClock
        self.log = log
        self.metrics = metrics
        metrics.declareCounter(
            "repricer_webhooks_total", "Deliveries of events, by what became of them.",
            labels: ["result": ["delivered", "failed", "given_up"]])
        self.limits = limits
        receiver = Receiver(log: log, awayAfter: limits.awayAfter, quietFor: limits.quietFor)
    }

    package func run() async throws {
        async let pruning: Void = Rounds(
            log: log, failure: "old events of the outbox are not deleted; trying again",
            failureWait: limits.idleWait
        ).run { try await prune() ? limits.pruneEvery : limits.pruneAgainAfter }
        await Rounds(
            log: log, failure: "delivering webhooks failed; trying again",
            failureWait: limits.idleWait
        ).run { try await round() == 0 ? limits.idleWait : .zero }
        await pruning
    }

    private enum Step: Sendable {
        case settled(Result<WebhookQueries.Fate, any Error>)
        case timeToAsk
    }

    /// Delivers until no event is due or being delivered, or until it is cancelled. Returns how many were tried.
    package func round() async throws -> Int {
        guard let target else { return 0 }
        return try await withThrowingTaskGroup(of: Step.self) { group in
            var (tried, out) = (0, 0)
            var isTimed = false
            var failure: (any Error)?
            while true {
                if failure == nil, !Task.isCancelled, limits.atOnce - out >= limits.atOnce / 4 {
                    do {
                        for event in try await takeDue(limit: limits.atOnce - out) {
                            let takenAt = ContinuousClock.now
                            group.addTask { await settled(event, to: target, takenAt: takenAt) }
                            (tried, out) = (tried + 1, out + 1)
                        }
                    } catch { failure = error }
                }
                guard out > 0 else { break }
                // While an answer is awaited, others may become due.
                if !isTimed, !Task.isCancelled {
                    isTimed = true
                    group.addTask {
                        // A cancelled wait ends at once, and then the loop asks for no more events.
                        try? await Task.sleep(for: limits.idleWait)
                        return .timeToAsk
                    }
                }
                switch try await group.next() {
                case .timeToAsk?: isTimed = false
                case .settled(let result)?:
                    out -= 1
                    if case .failure(let error) = result { failure = failure ?? error }
                case nil: out = 0
                }
            }
            group.cancelAll()
            if let failure { throw failure }
            return tried
        }
    }

    private func takeDue(limit: Int) async throws -> [WebhookQueries.ClaimedDelivery] {
        if let sharedClock {
            try await pool.read { try sharedClock.follow($0) }
        }
        let realNow = realClock.nowMilliseconds()
        let leaseUntil = realNow + limits.leaseFor.milliseconds
        return try await pool.withTransaction { connection in
            try WebhookQueries.takeDue(
                realNow: realNow, leaseUntil: leaseUntil, limit: limit, on: connection)
        }
    }

    /// It is not cancelled with the service, because an answer is stored before the process ends.
    private func settled(
        _ event: WebhookQueries.ClaimedDelivery, to target: Target,
        takenAt: ContinuousClock.Instant
    ) async -> Step {
        .settled(await Task { try await deliver(event, to: target, takenAt: takenAt) }.result)
    }

    private func deliver(
        _ event: WebhookQueries.ClaimedDelivery, to target: Target, takenAt: ContinuousClock.Instant
    ) async throws -> WebhookQueries.Fate {
        let fate: WebhookQueries.Fate
        if ContinuousClock.now - takenAt < limits.leavesWithin {
            let body = Array(event.body.utf8)
            let answer = await target.posting.post(
                WebhookMessage(
                    eventID: event.eventID, type: event.type, body: body,
                    signature: WebhookSignature.value(
                        of: body, at: realClock.nowMilliseconds(), secret: target.secret())))
            fate = self.fate(of: event, answer)
        } else {
            fate = .retried(at: realClock.nowMilliseconds(), error: Self.noTurn)
        }
        let now = realClock.nowMilliseconds()
        try await pool.write(WebhookQueries.settle(event, fate, at: now))
        tell(fate)
        log.debug("webhook", ["event": event.eventID, "fate": "\(fate)"])
        return fate
    }

    private static let noTurn = "its turn did not come"

    private func fate(
        of event: WebhookQueries.ClaimedDelivery, _ answer: WebhookAnswer
    ) -> WebhookQueries.Fate {
        let error: String
        switch answer {
        case .status(let status) where (200...299).contains(status): return .delivered
        case .status(let status) where (300...399).contains(status):
            error = "answered \(status), a redirect: not followed"
        case .status(let status): error = "answered \(status)"
        case .failed(let reason): error = String(reason.prefix(limits.errorCharactersMax))
        }
        let now = realClock.nowMilliseconds()
        // An event that waited behind others may be as old, but was hardly tried itself.
        guard
            now - event.dueSince < limits.triedFor.milliseconds
                || event.attempts < limits.attemptsMin
        else {
            return .abandoned(error: error)
        }
        var random = SystemRandomNumberGenerator()
        let delay = limits.retry.delay(attempt: event.attempts, random: &random)
        return .retried(at: now + delay.milliseconds, error: error)
    }

    private func tell(_ fate: WebhookQueries.Fate) {
        let label: String
        switch fate {
        case .delivered:
            label = "delivered"
            receiver.tookOne()
        case .retried(_, let error):
            label = "failed"
            if error != Self.noTurn { receiver.failed(error) }
        case .abandoned(let error):
            label = "given_up"
            receiver.gaveUp(error)
        }
        metrics.increment("repricer_webhooks_total", labels: ["result": label])
    }

    /// Deletes old events, and abandons those for which no webhook is configured. Returns whether none is left.
    @discardableResult
    package func prune() async throws -> Bool {
        let now = realClock.nowMilliseconds()
        let limits = limits
        let end = ContinuousClock.now + limits.pruneFor
        if target == nil {
            try await pool.write(
                WebhookQueries.abandonUndelivered(
                    dueBefore: now - limits.triedFor.milliseconds, at: now))
        }
        while true {
            let gone = try await pool.withTransaction { connection in
                try WebhookQueries.prune(
                    before: now - limits.keptFor.milliseconds, limit: limits.prunedPerTransaction,
                    on: connection)
            }
            if gone < limits.prunedPerTransaction { return true }
            if ContinuousClock.now >= end || Task.isCancelled { return false }
        }
    }
}
