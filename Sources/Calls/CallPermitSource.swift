package import Facts
package import Pricing
package import ServiceKit

/// The permits of one endpoint, which all replicas share.
///
/// In production, the database's clock decides which permits are free, and this process waits for them on its monotonic
/// clock. In a rehearsal both use the virtual clock, so that the rates hold in virtual time.
package struct CallPermitSource: Sendable {
    /// A wait in real time. Tests move their clocks instead.
    package typealias Wait = @Sendable (Duration) async throws -> Void

    /// The shortest wait between two requests for permits.
    private static let pauseMin: Duration = .milliseconds(10)
    /// The longest wait between two requests, so that the early end of a silence is noticed.
    private static let pauseMax: Duration = .seconds(1)
    /// How far ahead permits are reserved, in real time. A pause or a silence stops every call that is further ahead
    /// than this.
    package static let horizon: Duration = .milliseconds(650)
    /// The same for bulk work, such as a list of a million statuses. It is shorter, so that urgent work still finds
    /// permits beyond it.
    package static let bulkHorizon: Duration = .milliseconds(250)
    /// How much time of a lease's permits is left when the next lease is requested. A claim may take that long before
    /// permits are missed. A claim costs the same for ten calls as for twenty.
    private static let ahead: Duration = .milliseconds(250)

    /// How often this process looks for a silence that another process was asked for.
    private static let silenceWatchEvery: Duration = .milliseconds(50)

    /// In microseconds. Permits that lie closer together than a process can keep are never missed. Apple has no rate
    /// beyond ten thousand a second, so such a rate is as good as no limit.
    private static let spacingMin: Int64 = 100

    let pool: DatabasePool
    package let endpoint: String
    /// Calls a second; nil for no limit, which only benchmarks of the other steps use.
    package let perSecond: Double?
    let clock: any WallClock
    /// The longest silence that callers wait out. A longer one throws `LongSilence`.
    let silenceMax: Duration
    private var horizon: Duration
    package let wait: Wait
    private let permitClock = PermitClock()
    private let missed = MissedPermits()
    private let silence = Silence()
    private let asked = AskedToWait()

    package init(
        pool: DatabasePool, endpoint: String, perSecond: Double?, clock: any WallClock,
        silenceMax: Duration = .seconds(3600), horizon: Duration = CallPermitSource.horizon,
        wait: @escaping Wait = CallPermitSource.sleep
    ) {
        self.pool = pool
        self.endpoint = endpoint
        self.perSecond = perSecond
        self.clock = clock
        self.silenceMax = silenceMax
        self.horizon = horizon
        self.wait = wait
    }

    /// Sleeps as exactly as the machine can.
    package static let sleep: Wait = { try await Alarm.shared.wait(for: $0) }

    /// The same permits, reserved less far ahead, for bulk work that can wait.
    package var forBulk: CallPermitSource {
        var source = self
        source.horizon = Self.bulkHorizon
        return source
    }

    private var isReal: Bool { clock is SystemClock }

    private var rate: CallRate {
        let perSecond = perSecond ?? .greatestFiniteMagnitude
        guard !isReal else {
            return CallRate(
                endpoint: endpoint, perSecond: perSecond, horizonMicros: horizon.microseconds)
        }
        // It reserves as far ahead as the horizon in real time, however fast the clock runs, and a second where the
        // clock is stopped.
        let second = max(1e-9, clock.realDuration(of: .seconds(1)).seconds)
        return CallRate(
            endpoint: endpoint, perSecond: perSecond,
            horizonMicros: Int64(max(1, min(1 / second, 1e9)) * 1_000_000))
    }

    /// Reserves up to `wanted` permits, perhaps none. Inside a transaction the lease locks the endpoint's row until
    /// the transaction ends.
    package func lease(
        _ wanted: Int, on connection: isolated DatabaseConnection
    ) throws -> CallPermits {
        guard perSecond != nil else { return unlimited(wanted) }
        guard isReal else {
            let lease = try RateQueries.lease(
                rate, wanted: wanted, nowMicros: clock.nowMilliseconds() &* 1000, on: connection)
            return CallPermits(lease, asked: .now, tolerance: nil, real: real, wait: wait)
        }
        if permitClock.isNew(at: .now) {
            let micros = try RateQueries.clockMicros(on: connection)
            _ = permitClock.instant(of: micros, answered: .now)
        }
        var lease = try RateQueries.lease(
            rate, wanted: wanted, missed: missed.takeAll(), nowMicros: nil, on: connection)
        let answered = ContinuousClock.now
        let asked = permitClock.instant(of: lease.nowMicros, answered: answered)
        if let asked {
            lease.permits = permitClock.inOrder(
                lease.permits, nowMicros: lease.nowMicros, asked: asked, gapMicros: rate.gapMicros)
        } else {
            // Nobody can tell when these permits are due, so they are not used.
            missed.add(lease.permits)
            lease.permits = []
        }
        return CallPermits(
            lease, asked: asked ?? answered,
            tolerance: rate.spacingMicros >= Self.spacingMin ? CallPermits.tolerance : nil,
            missed: missed, wait: wait)
    }

    /// Reserves up to `wanted` permits, perhaps none.
    package func lease(_ wanted: Int) async throws -> CallPermits {
        guard perSecond != nil else { return unlimited(wanted) }
        return try await pool.read { try lease(wanted, on: $0) }
    }

    /// The most calls that one lease can hold.
    package var permitsAhead: Int {
        guard let perSecond else { return .max }
        let ahead = perSecond * Double(rate.horizonMicros) / 1_000_000
        return max(1, Int(min(ahead.rounded(.up), 1_000_000)))
    }

    private func unlimited(_ wanted: Int) -> CallPermits {
        CallPermits(
            RateQueries.Lease(permits: Array(repeating: 0, count: max(0, wanted))),
            asked: .now, tolerance: nil, wait: wait)
    }

    private func real(_ interval: Duration) -> Duration {
        isReal ? interval : clock.realDuration(of: interval)
    }

    /// Releases the permits that no call will use: those beyond the first `used` and beyond those already handed out.
    package func returnUnused(_ permits: CallPermits, used: Int) -> DatabaseStatement {
        RateQueries.returnUnused(rate, permits.lease, used: permits.keep(used))
    }

    /// Waits for a permit of the lease, or of another lease where those were missed, or where the App Store asked for
    /// silence since.
    package func take(from permits: CallPermits) async throws {
        guard try await permits.take(), !permits.isSilenced, silenced == nil else {
            return try await takeOne()
        }
    }

    /// Waits until one call may be made.
    package func takeOne() async throws {
        while true {
            // Where this process knows of a silence, it need not ask the database.
            while let left = silence.left(at: now) {
                try await pause(blockedFor: left, delayMicros: 0)
            }
            let permits = try await lease(1)
            if try await permits.take(), silenced == nil { return }
            try await pause(after: permits)
        }
    }

    private var now: Instant { Instant(milliseconds: clock.nowMilliseconds()) }

    /// Waits a moment before the next question. Throws where the App Store asked for a long silence.
    package func pause(after permits: CallPermits) async throws {
        guard permits.granted == 0 else { return }
        let lease = permits.lease
        try await pause(
            blockedFor: lease.blockedUntil.map { $0 &- lease.nowMicros / 1000 },
            delayMicros: lease.nextMicros &- lease.nowMicros)
    }

    /// How long before its first permit a lease is requested. With a rehearsal's clock that is half the horizon.
    private var ahead: Duration {
        isReal ? Self.ahead : real(.microseconds(rate.horizonMicros / 2))
    }

    /// Waits until the permits of the lease are nearly used up, because claims of one call each would cost more than
    /// the calls.
    package func pace(after permits: CallPermits) async throws {
        guard perSecond != nil else { return }
        let end = permits.end - ahead
        let early = end - ContinuousClock.now
        if early > .zero { try await wait(min(early, Self.pauseMax)) }
    }

    /// Waits for the first free permit, which the last lease placed after `delayMicros`.
    /// `blockedFor` is what is left of a silence by the clock of the lease, in milliseconds.
    func pause(blockedFor: Int64?, delayMicros: Int64) async throws {
        guard let left = blockedFor else {
            // It wakes early, so that it can reserve the permit before the permit's instant has passed.
            let early = real(.microseconds(delayMicros)) - ahead
            return try await wait(min(max(early, Self.pauseMin), Self.pauseMax))
        }
        let silence = real(.milliseconds(max(0, left) + 1))
        guard silence <= silenceMax else {
            throw LongSilence(
                until: Instant(milliseconds: clock.nowMilliseconds()).advanced(by: left))
        }
        try await wait(min(max(silence, Self.pauseMin), Self.pauseMax))
    }

    /// Why this process may send no call now, whatever permits it holds; nil where it may.
    package var silenced: SilenceReason? { silence.reason(at: now) }

    /// How much longer the endpoint is silent for every replica, in real time; nil where it is not.
    package func silenceLeft() async throws -> Duration? {
        let lease = try await lease(0).lease
        return lease.blockedUntil.map {
            real(.milliseconds(max(0, $0 &- lease.nowMicros / 1000)))
        }
    }

    /// Silences this process at once, before the others are told.
    func silenceHere(until: Instant, for reason: SilenceReason) {
        silence.note(until: until, for: reason)
    }

    /// Polls until the last of these permits has come whether another process was asked for silence. If one was, this
    /// process sends none of its calls either, though they hold permits from before the silence.
    package func watchSilences(while permits: CallPermits) async {
        guard isReal, perSecond != nil, permits.granted > 0 else { return }
        while ContinuousClock.now < permits.end {
            do {
                try await Alarm.shared.wait(for: Self.silenceWatchEvery)
                let left = try await pool.read { try RateQueries.silence(of: endpoint, on: $0) }
                // Permits follow the database's clock, so the silence must follow it too.
                guard let left else { continue }
                silenceHere(
                    until: Instant(milliseconds: clock.nowMilliseconds() &+ left), for: .silenced)
            } catch {
                // Without the database there is no further lease, and these permits are used up within the horizon.
                return
            }
        }
    }

    /// The longest silence, in real time, after an error that only one subscription got.
    private static let aloneMax: Duration = .seconds(60)

    /// Silences every replica where the answer to a status read asks for it, by a 429 or by `Retry-After` of another
    /// error. An error with `Retry-After` may be about one subscription. So while only one subscription got it,
    /// replicas wait for a minute at most.
    package func heed(_ answer: StoreAnswer, of subject: String) async throws {
        switch answer {
        case .throttled(let until, _): try await block(until: until, for: .rateLimited)
        case .unknown(_, let reply):
            guard let wait = reply.retryAfter, wait > .zero else { return }
            let isAlone = asked.isAlone(subject)
            let until = now.advanced(by: (isAlone ? min(wait, Self.aloneMax) : wait).milliseconds)
            try await block(until: until, for: .askedToWait)
        case .answered: asked.forget()
        case .refused, .notSent: break
        }
    }

    /// Silences every replica after a 429, where the App Store asks for it, or for a halt.
    package func block(until: Instant, for reason: SilenceReason = .rateLimited) async throws {
        silenceHere(until: until, for: reason)
        let now = clock.nowMilliseconds()
        try await pool.write(
            RateQueries.block(
                endpoint: endpoint, milliseconds: max(0, until.milliseconds &- now),
                now: isReal ? nil : now))
    }
}

extension Duration {
    fileprivate var microseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds &* 1_000_000 &+ attoseconds / 1_000_000_000_000
    }
}

/// The App Store asked for a longer silence than its caller waits for.
package struct LongSilence: Error, Hashable, CustomStringConvertible {
    package var until: Instant

    package var description: String {
        "the App Store asked for silence until \(until.text); run it again then"
    }
}
