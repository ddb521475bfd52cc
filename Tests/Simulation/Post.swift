import SandboxStore

/// The way of notifications to the receiver, and what goes wrong on it: refused and sent again, never there, twice, late,
/// in another order.
actor Post {
    private struct Waiting {
        var at: Int64
        var payload: String
    }

    private static let fewMax = 200
    private static let sideBySide = 32
    private let seed: UInt64
    private var attempts: [String: Int64] = [:]
    private var waiting: [Waiting] = []
    private var isCalm = false

    init(seed: UInt64) { self.seed = seed }

    /// From now on nothing goes wrong.
    func calm() { isCalm = true }

    /// Hands over what is due at an instant.
    func deliver(
        _ store: SimulatedStore, at now: Int64,
        to take: @escaping @Sendable (String) async throws -> Void
    ) async throws {
        var bag = waiting.filter { $0.at <= now }.map(\.payload)
        waiting.removeAll { $0.at <= now }
        var late: [(SimulatedStore.Delivery, Bool)] = []
        while let delivery = try await store.nextDelivery() {
            let attempt = attempts[delivery.uuid, default: 0]
            attempts[delivery.uuid] = attempt + 1
            var dice = Dice(seed, "post", delivery.uuid)
            let fate = isCalm ? 999 : dice.pick(0...999)
            let refusals = dice.pick(1...3)
            let isRefused = fate < 40 || (fate < 140 && attempt < refusals)
            if !isRefused {
                if fate < 200 {
                    waiting.append(
                        Waiting(at: now + dice.pick(1...10) * day, payload: delivery.payload))
                } else {
                    bag.append(delivery.payload)
                    if fate < 260 { bag.append(delivery.payload) }
                }
            }
            late.append((delivery, !isRefused))
        }
        for (delivery, isTaken) in late { try await store.settle(delivery, isTaken: isTaken) }
        var dice = Dice(seed, "order", String(now))
        if !isCalm { bag.shuffle(using: &dice) }
        // Few arrive one after the other, so that a small world goes the same way each time; many as many do.
        guard bag.count > Self.fewMax else {
            for payload in bag { try await take(payload) }
            return
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (place, payload) in bag.enumerated() {
                if place >= Self.sideBySide { try await group.next() }
                group.addTask { try await take(payload) }
            }
            try await group.waitForAll()
        }
    }

    /// What was kept back arrives now.
    func rest() -> [String] {
        defer { waiting = [] }
        return waiting.map(\.payload)
    }
}
