import Foundation
import Notifications
import SandboxStore
import ServiceKit
import Synchronization

/// A year of a simulated store, its customers and the people who change prices, told through the product's own parts.
package actor World {
    package struct Shape: Sendable {
        package var seed: UInt64
        package var subscriptions: Int
        package var days: Int64

        package init(seed: UInt64, subscriptions: Int, days: Int64) {
            self.seed = seed
            self.subscriptions = subscriptions
            self.days = days
        }
    }

    /// A part of the service did not come back from its turn.
    private struct Stuck: Error, CustomStringConvertible {
        var part: String
        var step: Int

        var description: String { "\(part) did not come back from its turn of step \(step)" }
    }

    /// 1 March 2026.
    static let start: Int64 = 1_772_323_200_000
    /// At the end nothing goes wrong for so long, and everything has to come to rest.
    private static let calmDays: Int64 = 16
    private static let calmStep = 20 * 3_600_000 as Int64
    /// Real time, of a machine that may be crowded: a turn waits for the database alone.
    private static let turnMax: Duration = .seconds(120)
    /// Rounds of all parts in one step, while one of them finds something to do.
    private static let roundsMax = 4

    private let shape: Shape
    private let clock: WorldClock
    private let store: SimulatedStore
    private let wire: Wire
    private let database: SimulationDatabase
    /// Two processes of the service share the work, and sometimes do it at the same time.
    private var replicas: [Workers]
    private let log: LogWatch
    private let people: People
    private let post: Post
    private var deaths = 0
    /// What failed where nothing was made to fail.
    private var failures: [String] = []
    private var troubles: [String: Int] = [:]
    private var isCalm = false
    /// Whether every part works until nothing is left to do.
    private var isLast = false
    private var steps = 0
    /// When the history was last read to its end.
    private var wholeAt = World.start

    package init(_ shape: Shape, socket: String, folder: String) async throws {
        self.shape = shape
        clock = WorldClock(Self.start)
        store = try SimulatedStore(
            .init(
                seed: shape.seed, subscriptions: shape.subscriptions, start: Self.start,
                until: Self.start + shape.days * day), folder: folder, clock: clock)
        wire = Wire(store, clock: clock, seed: shape.seed)
        database = try await SimulationDatabase.make(socket, seed: shape.seed)
        log = LogWatch(customers: store.customers)
        replicas = [
            try Workers(database, store, wire, clock, log: log),
            try Workers(database, store, wire, clock, log: log),
        ]
        people = People(database, clock, shape, productID: store.productID)
        post = Post(seed: shape.seed)
    }

    /// Lives through all of it; returns what the auditor reads.
    package func live() async throws -> String {
        let database = database
        // What cannot be cut was gone already.
        wire.onCut { try? await database.cut() }
        _ = try await replicas[0].months.prepareOnce()
        for payload in store.firstPayloads { try await take(payload) }
        _ = try await replicas[0].turn(of: .projector)
        let end = Self.start + shape.days * day
        while clock.nowMilliseconds() < end - Self.calmDays * day { try await step() }
        try await comeToRest(until: end)
        let text = try await told()
        for workers in replicas { await workers.pool.close() }
        await people.close()
        try await database.drop()
        return text
    }

    private func step() async throws {
        steps += 1
        var dice = Dice(shape.seed, "step", String(steps))
        clock.advance(by: dice.pick(4...96) * 3_600_000)
        beginOutage()
        try await store.tick()
        try await post.deliver(store, at: clock.nowMilliseconds()) { [self] in try await take($0) }
        if steps % 25 == 0 { _ = try await replicas[0].months.prepareOnce() }
        try await people.act()
        try await workFor(dice)
        // What never arrives comes with the history, so that goes before the auditor's patience.
        let isLate = clock.nowMilliseconds() - wholeAt > Self.historyDays * day
        if isLate || dice.chance(500) { try await reconcile(Int(dice.pick(0...1)), whole: isLate) }
    }

    /// The most days between two readings of the whole history. With the step that follows, and the days that a
    /// notification may take, they stay below what the auditor calls late (`POST` in `forecasts.py`).
    private static let historyDays: Int64 = 4
    private static let readingsMax = 20

    /// Reads the history, which may break off. Where the whole is wanted, it is read again until it was read to its end.
    private func reconcile(_ place: Int, whole: Bool) async throws {
        for _ in 0..<(whole ? Self.readingsMax : 1) {
            let isWhole = Mutex(false)
            _ = try await survives("reconciler", place, isAlone: true) { workers in
                guard let run = try await workers.reconciler.runOnce() else { return true }
                if let failure = run.failure { throw failure }
                isWhole.withLock { $0 = true }
                return true
            }
            guard !isWhole.withLock({ $0 }) else {
                wholeAt = clock.nowMilliseconds()
                return
            }
        }
    }

    /// Every part has its turns, in an order of chance, with seconds between them in which waits and leases end.
    private func workFor(_ given: Dice) async throws {
        var dice = given
        for round in 0..<Self.roundsMax {
            var isBusy = false
            for part in Workers.Part.allCases.shuffled(using: &dice) {
                let who = dice.pick(0...5)
                let isTurn = dice.chance(part.turnsPerMille)
                guard isLast || isTurn && (round == 0 || part.isDriven) else { continue }
                isBusy = try await turn(of: part, who) || isBusy
                clock.advance(by: dice.pick(1...40) * 1000)
            }
            guard isBusy else { return }
        }
    }

    /// Either process, or both at once.
    private func turn(of part: Workers.Part, _ who: Int64) async throws -> Bool {
        let places = who > 3 ? [0, 1] : [Int(who) % 2]
        return try await withThrowingTaskGroup(of: Bool.self) { group in
            for place in places {
                group.addTask {
                    try await self.survives(part.rawValue, place, isAlone: places.count == 1) {
                        try await $0.turn(of: part)
                    }
                }
            }
            var isBusy = false
            while let one = try await group.next() { isBusy = one || isBusy }
            return isBusy
        }
    }

    /// Now and then the store answers everybody alike for some minutes.
    private func beginOutage() {
        var dice = Dice(shape.seed, "outage", String(steps))
        let kinds: [Wire.Fault] = [
            .error503, .tooMany, .oddRefusal, .refusedConnection, .lostBefore,
        ]
        guard dice.chance(80), let fault = kinds.randomElement(using: &dice) else { return }
        wire.begin(fault, until: clock.nowMilliseconds() + dice.pick(1...15) * 60_000)
    }

    private func comeToRest(until end: Int64) async throws {
        wire.calm()
        await post.calm()
        isCalm = true
        for payload in await post.rest() { try await take(payload) }
        while clock.nowMilliseconds() < end {
            steps += 1
            clock.advance(by: Self.calmStep)
            try await store.tick()
            try await post.deliver(store, at: clock.nowMilliseconds()) { [self] in
                try await take($0)
            }
            await people.resumeAll()
            let dice = Dice(shape.seed, "rest", String(steps))
            try await workFor(dice)
            try await reconcile(0, whole: false)
        }
        // Nothing more happens in the store: what it has said is read to the end.
        isLast = true
        for _ in 0..<3 {
            let dice = Dice(shape.seed, "rest", "last")
            try await workFor(dice)
            try await post.deliver(store, at: clock.nowMilliseconds()) { [self] in
                try await take($0)
            }
        }
    }

    private func take(_ payload: String) async throws {
        switch await replicas[0].intake.take(payload) {
        case .stored: break
        case .refused(let refusal): failures.append("refused a notification: \(refusal.code)")
        case .outdated(let why): failures.append("refused this program: \(why)")
        case .unavailable(let why):
            // A forwarder sends it again.
            note("intake: \(why)")
            try await takeAgain(payload)
        }
    }

    private func takeAgain(_ payload: String) async throws {
        for _ in 0..<20 {
            if case .stored = await replicas[1].intake.take(payload) { return }
        }
        failures.append("a notification was not taken in")
    }

    private func note(_ trouble: String) { troubles[String(trouble.prefix(120)), default: 0] += 1 }

    private enum End: Sendable {
        case done(Bool)
        case died, stuck
        case failed(String)
    }

    /// Lets a part of the service work, which may die of it: then the process is gone, and another begins. Returns whether
    /// more may be to do.
    private func survives(
        _ name: String, _ place: Int, isAlone: Bool,
        _ body: @escaping @Sendable (Workers) async throws -> Bool
    ) async throws -> Bool {
        let workers = replicas[place]
        switch await end(of: workers, body) {
        case .done(let isBusy): return isBusy
        case .failed(let why):
            note("\(name): \(why)")
            // Two at once may be in each other's way, and try again.
            if isCalm, isAlone { failures.append("\(name) failed in quiet times: \(why)") }
        case .died:
            deaths += 1
            await workers.pool.close()
            workers.process.bury()
            replicas[place] = try Workers(database, store, wire, clock, log: log)
            // Its leases end.
            clock.advance(by: 15_000)
        case .stuck: throw Stuck(part: name, step: steps)
        }
        return true
    }

    private func end(
        of workers: Workers, _ body: @escaping @Sendable (Workers) async throws -> Bool
    ) async -> End {
        let (ends, continuation) = AsyncStream.makeStream(of: End.self)
        workers.process.onDeath { continuation.yield(.died) }
        Task {
            do {
                continuation.yield(.done(try await body(workers)))
            } catch {
                continuation.yield(.failed("\(error)"))
            }
        }
        let watch = Task {
            try await Task.sleep(for: Self.turnMax)
            continuation.yield(.stuck)
        }
        defer { watch.cancel() }
        var iterator = ends.makeAsyncIterator()
        return await iterator.next() ?? .stuck
    }

    private struct Told: Encodable {
        var seed: UInt64
        var subscriptions: Int
        var days: Int64
        var steps: Int
        var deaths: Int
        var outcomes: [String: Int]
        var troubles: [String: Int]
        var failures: [String]
        var deeds: [People.Deed]
        var wire: [Wire.Line]
    }

    private func told() async throws -> String {
        failures += log.leaks
        let told = Told(
            seed: shape.seed, subscriptions: shape.subscriptions, days: shape.days, steps: steps,
            deaths: deaths, outcomes: wire.faultCounts, troubles: troubles, failures: failures,
            deeds: await people.deeds, wire: wire.lines)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        let own = String(decoding: try encoder.encode(told), as: UTF8.self)
        return "{\"world\":\(own),\"store\":\(try await store.truth()),"
            + "\"database\":\(try await Snapshot.json(database))}"
    }
}
