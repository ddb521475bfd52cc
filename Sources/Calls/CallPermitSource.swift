package import Facts
package import Pricing
package import ServiceKit

/// The calls of one endpoint that all replicas share.
///
/// On the machine's clock, slots are reserved by the database's and kept by the monotonic one. In a rehearsal they
/// are the virtual clock's, so that it keeps the rates of its own time.
package struct CallPermitSource: Sendable {
    /// Waits in real time. Tests move their clocks instead.
    package typealias Wait = @Sendable (Duration) async throws -> Void

    /// Between two asks for calls; an App Store that asked for silence is asked about no more often.
    private static let pauseMin: Duration = .milliseconds(10)
    private static let pauseMax: Duration = .seconds(1)
    /// Real time. A pause, or a silence asked for, holds for every call that is further away.
    private static let horizon: Duration = .milliseconds(650)
    /// Of the slots that a lease holds so much time is left when the next one is asked for: what a claim may take
    /// before slots are missed. A claim costs the same for ten calls as for twenty.
    private static let ahead: Duration = .milliseconds(250)

    /// Microseconds. Slots that lie closer together than a process can keep are not missed: a rate beyond ten
    /// thousand a second is none of Apple's, and as good as no limit.
    private static let spacingMin: Int64 = 100

    let pool: DatabasePool
    package let endpoint: String
    /// nil: no limit. Only for measuring what the rest of the road takes.
    package let perSecond: Int?
    let clock: any WallClock
    /// A longer silence ends the run instead of being waited out.
    let silenceMax: Duration
    package let wait: Wait
    private let permitClock = PermitClock()
    private let missed = MissedPermits()
    private let silence = Silence()

    package init(
        pool: DatabasePool, endpoint: String, perSecond: Int?, clock: any WallClock,
        silenceMax: Duration = .seconds(3600), wait: @escaping Wait = CallPermitSource.sleep
    ) {
        self.pool = pool
        self.endpoint = endpoint
        self.perSecond = perSecond
        self.clock = clock
        self.silenceMax = silenceMax
        self.wait = wait
    }

    /// Sleeps as exactly as the machine can.
    package static let sleep: Wait = { try await Alarm.shared.wait(for: $0) }

    private var isReal: Bool { clock is SystemClock }

    private var rate: CallRate {
        let perSecond = perSecond ?? .max
        guard !isReal else {
            return CallRate(
                endpoint: endpoint, perSecond: perSecond, horizonMicros: Self.horizon.microseconds)
        }
        // As far ahead as the horizon in real time, however fast the clock runs; a second where it stands still.
        let second = max(1e-9, clock.realDuration(of: .seconds(1)).seconds)
        return CallRate(
            endpoint: endpoint, perSecond: perSecond,
            horizonMicros: Int64(max(1, min(1 / second, 1e9)) * 1_000_000))
    }

    /// Reserves up to `wanted` slots, perhaps none. A lease inside a transaction holds the endpoint's row until
    /// its end.
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
            lease.slots = permitClock.inOrder(
                lease.slots, nowMicros: lease.nowMicros, asked: asked, gapMicros: rate.gapMicros)
        } else {
            // Nobody can tell when its slots are: they are not used.
            missed.add(lease.slots)
            lease.slots = []
        }
        return CallPermits(
            lease, asked: asked ?? answered,
            tolerance: rate.spacingMicros >= Self.spacingMin ? CallPermits.tolerance : nil,
            missed: missed, wait: wait)
    }

    /// Reserves up to `wanted` slots, perhaps none.
    package func lease(_ wanted: Int) async throws -> CallPermits {
        guard perSecond != nil else { return unlimited(wanted) }
        return try await pool.read { try lease(wanted, on: $0) }
    }

    /// How many calls a lease can hold at most.
    package var slotsAhead: Int {
        guard let perSecond else { return .max }
        let ahead = Double(perSecond) * Double(rate.horizonMicros) / 1_000_000
        return max(1, Int(min(ahead.rounded(.up), 1_000_000)))
    }

    private func unlimited(_ wanted: Int) -> CallPermits {
        CallPermits(
            RateQueries.Lease(slots: Array(repeating: 0, count: max(0, wanted))),
            asked: .now, tolerance: nil, wait: wait)
    }

    private func real(_ interval: Duration) -> Duration {
        isReal ? interval : clock.realDuration(of: interval)
    }

    /// Gives back the slots that no call will use: beyond the first `used`, and beyond those already handed out.
    package func returnUnused(_ slots: CallPermits, used: Int) -> DatabaseStatement {
        RateQueries.returnUnused(rate, slots.lease, used: slots.keep(used))
    }

    /// Waits for a slot of the lease, or of another one where those were missed.
    package func take(from slots: CallPermits) async throws {
        if try await !slots.take() { try await takeOne() }
    }

    /// Waits until one call may be made.
    package func takeOne() async throws {
        while true {
            let slots = try await lease(1)
            if try await slots.take() { return }
            try await pause(after: slots)
        }
    }

    /// Waits a moment before asking again; throws where the App Store asked for a long silence.
    package func pause(after slots: CallPermits) async throws {
        guard slots.granted == 0 else { return }
        try await pause(
            blockedUntil: slots.lease.blockedUntil,
            delayMicros: slots.lease.nextMicros &- slots.lease.nowMicros)
    }

    /// How long before its slots a lease is asked for. A rehearsal's clock may need half a horizon.
    private var ahead: Duration {
        isReal ? Self.ahead : real(.microseconds(rate.horizonMicros / 2))
    }

    /// Waits until the slots of the lease are nearly used up: claims of one call each would cost more than the calls.
    package func pace(after slots: CallPermits) async throws {
        guard perSecond != nil else { return }
        let end = slots.end - ahead
        let early = end - ContinuousClock.now
        if early > .zero { try await wait(min(early, Self.pauseMax)) }
    }

    /// `delayMicros` until the first free slot, as the last lease told.
    func pause(blockedUntil: Int64?, delayMicros: Int64) async throws {
        guard let until = blockedUntil else {
            // Before the slot, so that it is reserved while it is still to come.
            let early = real(.microseconds(delayMicros)) - ahead
            return try await wait(min(max(early, Self.pauseMin), Self.pauseMax))
        }
        let silence = real(.milliseconds(max(0, until - clock.nowMilliseconds()) + 1))
        guard silence <= silenceMax else {
            throw LongSilence(until: Instant(milliseconds: until))
        }
        try await wait(min(max(silence, Self.pauseMin), Self.pauseMax))
    }

    /// Why no call of this process leaves now, whatever slots it holds; nil: one may.
    package var silenced: SilenceReason? {
        silence.reason(at: Instant(milliseconds: clock.nowMilliseconds()))
    }

    /// Silences this process at once, before the others are told.
    func hush(until: Instant, for reason: SilenceReason) { silence.note(until: until, for: reason) }

    /// Silence for every replica: a 429, an App Store that asks for it, or a halt.
    package func block(until: Instant, for reason: SilenceReason = .rateLimited) async throws {
        hush(until: until, for: reason)
        _ = try await pool.withConnection { connection in
            try await connection.pipeline([
                RateQueries.block(endpoint: endpoint, until: until.milliseconds)
            ])
        }
    }
}

extension Duration {
    fileprivate var microseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds &* 1_000_000 &+ attoseconds / 1_000_000_000_000
    }
}

/// The App Store asked for a silence longer than its caller waits.
package struct LongSilence: Error, Hashable, CustomStringConvertible {
    package var until: Instant

    package var description: String {
        "the App Store asked for silence until \(until.text); run it again then"
    }
}
