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

/// Where webhooks go. An HTTPS client posts them; tests script theirs.
package protocol WebhookPosting: Sendable {
    func post(_ message: WebhookMessage) async -> WebhookAnswer
}

/// Delivers the events of the outbox: one after another for each subscription, many subscriptions side by side, from
/// any number of replicas. An event that fails is tried again with growing waits for three days, and delays its own
/// subscription alone. A receiver may get an event twice, when its answer was lost; the id shows it.
package struct WebhookSender: Service {
    package let name = "webhooks"
    private let pool: DatabasePool
    private let target: Target?
    private let realClock: any WallClock
    private let sharedClock: SharedClock?
    private let log: Log
    private let metrics: Metrics
    private let limits: Limits
    /// The receiver is away: no event of a round arrives.
    private let outage: Outage
    /// Events are given up. One line says so, for after three days of a receiver that is away there are thousands.
    private let loss: Outage

    package struct Target: Sendable {
        package var posting: any WebhookPosting
        /// Asked for each delivery, because the file of the secret may be replaced.
        package var secret: @Sendable () -> [UInt8]

        package init(posting: any WebhookPosting, secret: @escaping @Sendable () -> [UInt8]) {
            self.posting = posting
            self.secret = secret
        }
    }

    package struct Limits: Sendable {
        package var eventsPerRound = 16
        /// The lease of one event, which is longer than a request may take.
        package var leaseFor: Duration = .seconds(20)
        /// How long after the lease an event may leave. An event whose turn comes later is left for another round.
        package var leavesWithin: Duration = .seconds(5)
        package var retry = Backoff(first: .seconds(1), max: .seconds(3600))
        package var triedFor: Duration = .seconds(3 * 86_400)
        /// How long delivered and abandoned events are kept.
        package var keptFor: Duration = .seconds(30 * 86_400)
        package var pruneEvery: Duration = .seconds(600)
        /// Pruning ends after this time, so that delivery does not wait for long, and goes on sooner.
        package var pruneFor: Duration = .seconds(5)
        package var pruneAgainAfter: Duration = .seconds(60)
        package var prunedPerTransaction = 1000
        /// A delivery sooner than this after a failure ends no outage: the receiver may take some events and not others.
        package var quietFor: Duration = .seconds(60)
        package var idleWait: Duration = .seconds(1)
        package var errorCharactersMax = 300

        package init() {}
    }

    /// Without a target nothing is sent, and what waits is abandoned after the three days.
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
        outage = Outage(
            log: log, level: .warning,
            failure: "the receiver of webhooks takes no event; each is tried again for three days",
            recovery: "the receiver of webhooks takes events again", quietFor: limits.quietFor)
        loss = Outage(
            log: log,
            failure: "a webhook is given up; `repricer outbox replay --given-up` sends it again",
            recovery: "webhooks are delivered again", quietFor: limits.quietFor)
    }

    package func run() async throws {
        var pruneAt = ContinuousClock.now
        await Rounds(
            log: log, failure: "delivering webhooks failed; trying again",
            failureWait: limits.idleWait
        ).run {
            if ContinuousClock.now >= pruneAt {
                let isDone = try await prune()
                pruneAt = .now + (isDone ? limits.pruneEvery : limits.pruneAgainAfter)
            }
            return try await round() == 0 ? limits.idleWait : .zero
        }
    }

    /// Delivers what is due once, and returns how many events were tried.
    package func round() async throws -> Int {
        guard let target else { return 0 }
        if let sharedClock {
            try await pool.read { try sharedClock.follow($0) }
        }
        let realNow = realClock.nowMilliseconds()
        let limits = limits
        let started = ContinuousClock.now
        let held = try await pool.withTransaction { connection in
            try WebhookQueries.takeDue(
                realNow: realNow, leaseUntil: realNow + limits.leaseFor.milliseconds,
                limit: limits.eventsPerRound, on: connection)
        }
        // This is not cancelled with the service, because an answer is stored before the process ends.
        try await Task {
            try await withThrowingTaskGroup(of: WebhookQueries.Fate.self) { group in
                for event in held {
                    group.addTask { try await deliver(event, to: target, started: started) }
                }
                var fates: [WebhookQueries.Fate] = []
                var failure: (any Error)?
                while let result = await group.nextResult() {
                    switch result {
                    case .success(let fate): fates.append(fate)
                    case .failure(let error): failure = failure ?? error
                    }
                }
                tell(fates)
                if let failure { throw failure }
            }
        }.value
        return held.count
    }

    private func deliver(
        _ event: WebhookQueries.ClaimedDelivery, to target: Target, started: ContinuousClock.Instant
    ) async throws -> WebhookQueries.Fate {
        let fate: WebhookQueries.Fate
        if ContinuousClock.now - started < limits.leavesWithin {
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
        guard now - event.dueSince < limits.triedFor.milliseconds else {
            return .abandoned(error: error)
        }
        var random = SystemRandomNumberGenerator()
        let delay = limits.retry.delay(attempt: event.attempts, random: &random)
        return .retried(at: now + delay.milliseconds, error: error)
    }

    private func tell(_ fates: [WebhookQueries.Fate]) {
        var (arrived, failed) = (false, nil as String?)
        for fate in fates {
            let label: String
            switch fate {
            case .delivered:
                label = "delivered"
                arrived = true
            case .retried(_, let error):
                label = "failed"
                if error != Self.noTurn { failed = failed ?? error }
            case .abandoned(let error):
                label = "given_up"
                failed = failed ?? error
                loss.note(error)
            }
            metrics.increment("repricer_webhooks_total", labels: ["result": label])
        }
        if arrived {
            outage.end()
            loss.end()
        } else if let failed {
            outage.note(failed)
        }
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
