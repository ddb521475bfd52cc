import Foundation
import Notifications
import SandboxStore
import ServiceKit
import Synchronization

/// A year of a simulated store, its customers and the people who change prices, told through the product's own parts.
actor World {
    struct Shape: Sendable {
        var seed: UInt64
        var subscriptions: Int
        var days: Int64
    }

    /// 1 March 2026.
    static let start: Int64 = 1_772_323_200_000
    /// At the end nothing goes wrong for so long, and everything has to come to rest.
    private static let calmDays: Int64 = 16

    private let shape: Shape
    private let clock: WorldClock
    private let store: SimulatedStore
    private let wire: Wire
    private let database: SimulationDatabase
    private var workers: Workers
    private let people: People
    private let post: Post
    private var deaths = 0
    /// What failed where nothing was made to fail.
    private var failures: [String] = []
    private var troubles: [String: Int] = [:]
    private var isCalm = false
    private var steps = 0

    init(_ shape: Shape, socket: String, folder: String) async throws {
        self.shape = shape
        clock = WorldClock(Self.start)
        store = try SimulatedStore(
            .init(
                seed: shape.seed, subscriptions: shape.subscriptions, start: Self.start,
                until: Self.start + shape.days * day), folder: folder, clock: clock)
        wire = Wire(store, clock: clock, seed: shape.seed)
        database = try await SimulationDatabase.make(socket, seed: shape.seed)
        workers = try Workers(database, store, wire, clock)
        people = People(database, clock, shape, productID: store.productID)
        post = Post(seed: shape.seed)
    }

    /// Lives through all of it; returns what the auditor reads.
    func live() async throws -> String {
        let database = database
        // What cannot be cut was gone already.
        wire.onCut { try? await database.cut() }
        _ = try await workers.months.prepareOnce()
        for payload in store.firstPayloads { try await take(payload) }
        try await workers.turn(of: 0)
        let end = Self.start + shape.days * day
        while clock.nowMilliseconds() < end - Self.calmDays * day { try await step() }
        try await comeToRest(until: end)
        let text = try await told()
        await workers.pool.close()
        await people.close()
        try await database.drop()
        return text
    }

    private func step() async throws {
        steps += 1
        var dice = Dice(shape.seed, "step", String(steps))
        clock.advance(by: dice.pick(4...96) * 3_600_000)
        wire.setOutage(outage())
        try await store.tick()
        try await post.deliver(store, at: clock.nowMilliseconds()) { [self] in try await take($0) }
        if steps % 10 == 0 { _ = try await workers.months.prepareOnce() }
        try await people.act()
        try await workFor(dice)
        if dice.chance(500) {
            await survives("reconciler") { workers in
                if let failure = try await workers.reconciler.runOnce()?.failure { throw failure }
            }
        }
    }

    /// Every part has its turns, in an order of chance, with seconds between them in which waits and leases end.
    private func workFor(_ given: Dice) async throws {
        var dice = given
        for _ in 0..<2 {
            for part in Array(0..<Workers.parts).shuffled(using: &dice) {
                await survives("part \(part)") { try await $0.turn(of: part) }
                clock.advance(by: dice.pick(1...40) * 1000)
            }
        }
    }

    /// Now and then the store answers everybody alike for some steps.
    private func outage() -> Wire.Fault? {
        var dice = Dice(shape.seed, "outage", String(steps / 3))
        guard dice.chance(60) else { return nil }
        return [.error503, .tooMany, .oddRefusal, .refusedConnection, .lostBefore].randomElement(
            using: &dice)
    }

    private func comeToRest(until end: Int64) async throws {
        wire.calm()
        await post.calm()
        isCalm = true
        for payload in await post.rest() { try await take(payload) }
        while clock.nowMilliseconds() < end {
            steps += 1
            clock.advance(by: 12 * 3_600_000)
            try await store.tick()
            try await post.deliver(store, at: clock.nowMilliseconds()) { [self] in
                try await take($0)
            }
            await people.resumeAll()
            let dice = Dice(shape.seed, "rest", String(steps))
            try await workFor(dice)
            await survives("reconciler") { workers in
                if let failure = try await workers.reconciler.runOnce()?.failure { throw failure }
            }
        }
        // Nothing more happens in the store: what it has said is read to the end.
        for _ in 0..<3 {
            let dice = Dice(shape.seed, "rest", "last")
            try await workFor(dice)
            try await post.deliver(store, at: clock.nowMilliseconds()) { [self] in
                try await take($0)
            }
        }
    }

    private func take(_ payload: String) async throws {
        switch await workers.intake.take(payload) {
        case .stored: break
        case .refused(let refusal): failures.append("refused a notification: \(refusal.code)")
        case .unavailable(let why):
            // A forwarder sends it again.
            note("intake: \(why)")
            try await takeAgain(payload)
        }
    }

    private func takeAgain(_ payload: String) async throws {
        for _ in 0..<20 {
            if case .stored = await workers.intake.take(payload) { return }
        }
        failures.append("a notification was not taken in")
    }

    private func note(_ trouble: String) { troubles[String(trouble.prefix(120)), default: 0] += 1 }

    private enum End: Sendable {
        case done, died
        case failed(String)
    }

    /// Lets a part of the service work, which may die of it: then the process is gone, and another begins.
    private func survives(
        _ name: String, _ body: @escaping @Sendable (Workers) async throws -> Void
    ) async {
        let workers = workers
        let (ends, continuation) = AsyncStream.makeStream(of: End.self)
        wire.onDeath { continuation.yield(.died) }
        Task {
            do {
                try await body(workers)
                continuation.yield(.done)
            } catch {
                continuation.yield(.failed("\(error)"))
            }
        }
        var iterator = ends.makeAsyncIterator()
        switch await iterator.next() {
        case .done, nil: return
        case .failed(let why):
            note("\(name): \(why)")
            if isCalm { failures.append("\(name) failed in quiet times: \(why)") }
        case .died:
            deaths += 1
            await workers.pool.close()
            do {
                self.workers = try Workers(database, store, wire, clock)
            } catch {
                failures.append("no new process: \(error)")
            }
            // Its leases end.
            clock.advance(by: 15_000)
        }
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
