import Calls
import Facts
import Synchronization

/// What one process finds to do, and what it remembers of that.
///
/// A transaction that stays open for hours keeps every index entry of finished work alive, and a search from the
/// beginning of an index then steps over all of them. So when such a search gets slow, the next ones begin at the first
/// live entry that the last one found, and full searches take at most a twentieth of the time. Work that becomes due
/// before that entry waits for a full search.
final class DueWork: Sendable {
    /// While searches take no longer than this, each searches everything.
    private static let cheap: Duration = .milliseconds(3)
    private static let share = 20
    private static let pauseMax: Duration = .seconds(10)
    /// By how many milliseconds a row may be written later than its instants say.
    private static let writingTime: Int64 = 30_000

    struct Found: Sendable {
        /// While everything is paused, nothing is claimed and nothing is sent again.
        var controls: ServiceControlQueries.Everything
        var open: StoreCallQueries.Waiting
        /// The due queues, the earliest deadline first.
        var due: [DueQueries.Due]
    }

    private struct Memory {
        /// The deadline before which a queue has no change, by queue; nil where none is known.
        var floors: [DueQueries.Queue: Int64?] = [:]
        var wakeFloor: Int64?
        var leaseFloor: Int64?
        var everythingAt: ContinuousClock.Instant?
        /// Whether another session held changes that were to be woken.
        var areHeld = false
        var isPaused = false
        /// Whether only a probe was wanted when it last searched.
        var isProbing = false
        /// It is read only once, because a database may be spread only while no service runs.
        var layout: DatabaseLayout?

        /// A queue that was found twice begins with its earlier deadline.
        mutating func noteFloors(of due: [DueQueries.Due]) {
            floors = Dictionary(due.map { ($0.queue, $0.floor) }) { first, second in
                first.flatMap { one in second.map { min(one, $0) } }
            }
        }
    }

    private let memory = Mutex(Memory())
    private let engine: CallEngine
    private let kind: PriceChangeKind

    init(engine: CallEngine, kind: PriceChangeKind) {
        self.engine = engine
        self.kind = kind
    }

    /// Wakes what is due and searches what there is to do, as a rule in one round trip. `isThorough` searches
    /// everything, whatever it costs.
    func search(wakes: Int, isThorough: Bool) async throws -> Found {
        try await engine.pool.read { connection in
            if let clock = engine.sharedClock, !clock.isKnown { try clock.follow(connection) }
            let wasProbing = memory.withLock { $0.isProbing }
            let found = try search(
                wakes: wakes, isThorough: isThorough, isProbing: wasProbing, on: connection)
            let isProbing = engine.isProbing(kind.kind, found.controls)
            memory.withLock { $0.isProbing = isProbing }
            guard isProbing != wasProbing, !found.due.isEmpty else { return found }
            // The queues were searched with the former value of `isProbing`.
            return try search(
                wakes: wakes, isThorough: isThorough, isProbing: isProbing, on: connection)
        }
    }

    func search(
        wakes: Int, isThorough: Bool, isProbing: Bool = false,
        on connection: isolated DatabaseConnection
    ) throws -> Found {
        let now = engine.clock.nowMilliseconds()
        let realNow = engine.realClock.nowMilliseconds()
        let started = ContinuousClock.now
        let layout = try layout(on: connection)
        let known = memory.withLock { $0 }
        var everything = isThorough || known.everythingAt.map { $0 <= started } ?? true
        let floors = everything ? nil : known
        func queues(from floors: Memory?) -> Question<[DueQueries.Due]> {
            earliest(from: floors, now: now, realNow: realNow, isProbing: isProbing)
        }
        // While everything is paused, nobody searches for changes.
        let isSearched = layout == .whole && !known.isPaused
        let (sleeping, controls, openAtFirst, dueAtFirst, _) = try connection.ask(
            DueQueries.sleeping(from: floors?.wakeFloor, now: now, limit: wakes),
            ServiceControlQueries.everything, engine.waiting(kind, from: floors?.leaseFloor),
            isSearched ? queues(from: floors) : .answered([]),
            engine.sharedClock?.following ?? .answered(()))
        var (open, due) = (openAtFirst, dueAtFirst)
        let isPaused = controls.isHeld
        let searches = !isPaused && layout == .whole
        let allDue = searches ? queues(from: nil) : .answered([])
        var wokenAtFirst: Int?
        if !sleeping.isEmpty, !known.areHeld {
            // Nearly always everything wakes, so one round trip wakes it and searches.
            let woken: Int
            (woken, open, due) = try connection.ask(
                DueQueries.waking(sleeping, now: now), engine.waiting(kind), allDue)
            wokenAtFirst = woken
        }
        let waking = try wake(
            sleeping, wokenAtFirst, from: floors?.wakeFloor, wakes: wakes, on: connection)
        // A woken change may have a deadline before the floor of its queue.
        if waking.woken > 0 { everything = true }
        if waking.woken > wokenAtFirst ?? 0 {
            (open, due) = try connection.ask(engine.waiting(kind), allDue)
        } else if wokenAtFirst == nil, known.isPaused, searches {
            due = try connection.ask(queues(from: floors))
        }
        if layout == .spread, !isPaused {
            let busy = try connection.ask(DueQueries.busyBuckets)
            due = try connection.ask(
                DueQueries.earliest(
                    inEach: busy, now: now, realNow: realNow, isProbing: isProbing))
        }
        if isPaused { due = [] }
        let took = ContinuousClock.now - started
        memory.withLock { memory in
            memory.isPaused = isPaused
            memory.areHeld = waking.held > 0
            if !isPaused {
                memory.noteFloors(of: due)
            }
            // A change that another session holds stays asleep, and must be found again.
            if waking.isComplete {
                memory.wakeFloor = now - Self.writingTime
            }
            let written = realNow - Self.writingTime
            memory.leaseFloor = min(open.firstLease ?? written, written)
            guard everything else { return }
            memory.everythingAt =
                took <= Self.cheap || isPaused
                ? nil : ContinuousClock.now + min(took * Self.share, Self.pauseMax)
        }
        return Found(controls: controls, open: open, due: due)
    }

    /// Wakes these changes. Where other sessions hold some of them, it wakes as many later ones instead. Returns how
    /// many it woke, how many are held, and whether all others are awake.
    ///
    /// - Parameter wokenAtFirst: How many of the first ones are awake already; nil: nobody has tried.
    private func wake(
        _ first: [DueQueries.Sleeping], _ wokenAtFirst: Int?, from floor: Int64?, wakes: Int,
        on connection: isolated DatabaseConnection
    ) throws -> (woken: Int, held: Int, isComplete: Bool) {
        let now = engine.clock.nowMilliseconds()
        var sleeping = first
        var known = wokenAtFirst
        var (woken, held, page) = (0, 0, wakes)
        while !sleeping.isEmpty {
            let count = try known ?? connection.ask(DueQueries.waking(sleeping, now: now))
            known = nil
            woken += count
            held += sleeping.count - count
            if sleeping.count < page { break }
            if woken >= wakes { return (woken, held, false) }
            // Many may be held, so each page is twice as long as the one before, up to what one statement may take.
            page = min(page * 2, wakes * 16)
            sleeping = try connection.ask(
                DueQueries.sleeping(from: floor, now: now, limit: page, passing: held))
        }
        return (woken, held, held == 0)
    }

    private func layout(on connection: isolated DatabaseConnection) throws -> DatabaseLayout {
        if let layout = memory.withLock({ $0.layout }) { return layout }
        let layout = try DatabaseLayout.read(on: connection)
        memory.withLock { $0.layout = layout }
        return layout
    }

    private func earliest(
        from floors: Memory?, now: Int64, realNow: Int64, isProbing: Bool
    ) -> Question<[DueQueries.Due]> {
        guard let floors else {
            return DueQueries.earliest(now: now, realNow: realNow, isProbing: isProbing)
        }
        return DueQueries.earliest(
            floors.floors.map { (queue: $0.key, floor: $0.value) }, now: now, realNow: realNow,
            isProbing: isProbing)
    }
}

/// The order in which due queues are served.
struct DueOrder: Sendable {
    /// The due queues of a bucket, the earliest deadline first.
    struct Turn: Sendable {
        var due: [DueQueries.Due]
        /// It takes only changes with a deadline until then (UTC milliseconds); nil takes all.
        var until: Int64?
        /// The probe that it makes, where its batch is halted.
        var probe: Probe?

        /// The batch whose guard has not seen enough answers: the turn is of its queues alone.
        var sampling: String? {
            due.first.flatMap { $0.isSampling && probe == nil ? $0.queue.batchID : nil }
        }

        var bucket: Int { due.first?.queue.bucket ?? -1 }
    }

    /// Changes whose deadlines lie this close together count as equally urgent, in milliseconds.
    static let closeMin: Int64 = 60_000
    /// One part in this many of the time left counts as close. So a change that is due in sixteen days may be overtaken
    /// by one that is due a day later.
    static let closeShare: Int64 = 16
    /// As many as there are buckets.
    static let places = 64

    /// The turns that are about as urgent as the most urgent change come first. The others follow and use the permits
    /// that are left. While there is time, each lane starts at its own `place`, one of `places`. Lanes start far apart,
    /// because a bucket that was served moves to the end, and its neighbours move to its place.
    ///
    /// A probe of each halted batch comes before all else. It costs one call, and shows whether many may go on.
    static func turns(_ all: [DueQueries.Due], now: Int64, place: Int) -> [Turn] {
        // Each queue of the batch may send the probe, because the first one may hold nothing that can be called. Of
        // those that have not probed, the one with the latest deadline comes first: those with the earliest caused the
        // halt, and some of them may be refused rightly.
        let probes = all.compactMap { one in one.probe.map { (place: $0, due: one) } }
            .sorted { $0.place.comes(before: $1.place) }
            .map { _, one in
                Turn(
                    due: [one], until: nil,
                    probe: one.haltedBy.map { _ in .batch(one.queue.batchID) })
            }
        let open = all.filter { $0.probe == nil }
        // Overdue changes come after the others, because their next deadline is a renewal later.
        let overdue = open.filter { $0.sendBy < now }
        let inTime = open.filter { $0.sendBy >= now }
        let due = inTime.isEmpty ? overdue : inTime
        guard let first = due.first?.sendBy else { return probes }
        let close = max(closeMin, (first - now) / closeShare)
        let until = max(first, now) + close
        let urgent = byBucket(due.filter { $0.sendBy <= until })
        // Where time is short, all lanes begin with the most urgent turn. A lane that finds it taken tries the next.
        let start = close == closeMin ? 0 : urgent.count * (place % places) / places
        return probes + (urgent[start...] + urgent[..<start]).map { Turn(due: $0, until: until) }
            + byBucket(due).map { Turn(due: $0, until: nil) }
            + (inTime.isEmpty ? [] : byBucket(overdue).map { Turn(due: $0, until: nil) })
    }

    private static func byBucket(_ due: [DueQueries.Due]) -> [[DueQueries.Due]] {
        var places: [Place: Int] = [:]
        var turns: [[DueQueries.Due]] = []
        for one in due {
            let place = Place(one)
            if let index = places[place] {
                turns[index].append(one)
            } else {
                places[place] = turns.count
                turns.append([one])
            }
        }
        return turns
    }

    /// What one claim may take together.
    private struct Place: Hashable {
        var bucket: Int
        var sampling: String?

        init(_ due: DueQueries.Due) {
            bucket = due.queue.bucket
            sampling = due.isSampling ? due.queue.batchID : nil
        }
    }
}
