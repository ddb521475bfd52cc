import Synchronization
import Testing

@testable import Notifications

@Suite struct ArrivalBatcherTests {
    static func arrival(_ id: String, bytes: Int = 1) -> Arrival {
        Arrival(
            notificationUUID: id, understood: true,
            evidence: .whole(String(repeating: "p", count: bytes)))
    }

    @Test func store_whenArrivalIsAlone_commitsAtOnce() async throws {
        let store = MemoryStore()
        let batcher = ArrivalBatcher { batch throws(ArrivalError) in try store.commit(batch) }

        #expect(try await batcher.store(Self.arrival("a")))
        #expect(try await !batcher.store(Self.arrival("a")))
        #expect(store.state.withLock { $0.batches } == [1, 1])
    }

    @Test func store_whenManyComeDuringACommit_commitsThemTogetherInBoundedBatches() async throws {
        let store = MemoryStore()
        let gate = Gate()
        let batcher = ArrivalBatcher { batch throws(ArrivalError) in
            if batch.first?.notificationUUID == "first" { await gate.wait() }
            return try store.commit(batch)
        }

        let new = try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask { try await batcher.store(Self.arrival("first")) }
            await gate.untilReached()
            for index in 0..<250 {
                group.addTask { try await batcher.store(Self.arrival("\(index)")) }
            }
            while await batcher.waitingCount < 250 { await Task.yield() }
            gate.open()
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }

        #expect(new == 251)
        #expect(store.state.withLock { $0.batches } == [1, 100, 100, 50])
    }

    @Test func store_whenOneValueIsRefused_storesTheOthers() async throws {
        let store = MemoryStore()
        let gate = Gate()
        let batcher = ArrivalBatcher { batch throws(ArrivalError) in
            if batch.first?.notificationUUID == "first" { await gate.wait() }
            return try store.commit(batch)
        }

        let refused = await withTaskGroup(of: ArrivalError?.self) { group in
            for id in ["first", "b", "unstorable", "c"] {
                group.addTask {
                    do throws(ArrivalError) {
                        _ = try await batcher.store(Self.arrival(id))
                        return nil
                    } catch {
                        return error
                    }
                }
                if id == "first" { await gate.untilReached() }
            }
            while await batcher.waitingCount < 3 { await Task.yield() }
            gate.open()
            var errors: [ArrivalError] = []
            for await error in group { if let error { errors.append(error) } }
            return errors
        }

        #expect(refused == [.refused("a value")])
        #expect(store.state.withLock { $0.ids } == ["first", "b", "c"])
    }

    @Test func store_whenDatabaseIsAway_tellsEveryone() async throws {
        let store = MemoryStore()
        store.state.withLock { $0.isAway = true }
        let batcher = ArrivalBatcher { batch throws(ArrivalError) in try store.commit(batch) }

        await #expect(throws: ArrivalError.unavailable("away")) {
            _ = try await batcher.store(Self.arrival("a"))
        }
        store.state.withLock { $0.isAway = false }
        #expect(try await batcher.store(Self.arrival("a")))
    }

    @Test func store_whenABatchIsDisturbed_storesItsArrivalsOneByOne() async throws {
        let store = MemoryStore()
        let gate = Gate()
        let batcher = ArrivalBatcher { batch throws(ArrivalError) in
            if batch.first?.notificationUUID == "first" { await gate.wait() }
            if batch.count > 1 { throw .disturbed("deadlock") }
            return try store.commit(batch)
        }

        let new = try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask { try await batcher.store(Self.arrival("first")) }
            await gate.untilReached()
            for id in ["b", "c", "d"] {
                group.addTask { try await batcher.store(Self.arrival(id)) }
            }
            while await batcher.waitingCount < 3 { await Task.yield() }
            gate.open()
            return try await group.reduce(into: []) { $0.append($1) }
        }

        #expect(new == [true, true, true, true])
        #expect(store.state.withLock { $0.batches } == [1, 1, 1, 1])
    }

    @Test func store_whenTheDatabaseHangs_tellsEverybodyInTimeAndGoesOnAfterwards() async throws {
        let store = MemoryStore()
        let gate = Gate()
        var limits = ArrivalBatcher.Limits()
        limits.commitDeadline = .milliseconds(50)
        let batcher = ArrivalBatcher(limits: limits) { batch throws(ArrivalError) in
            if batch.first?.notificationUUID == "first" { await gate.wait() }
            return try store.commit(batch)
        }

        let errors = await withTaskGroup(of: ArrivalError?.self) { group in
            for id in ["first", "b", "c"] {
                group.addTask {
                    do throws(ArrivalError) {
                        _ = try await batcher.store(Self.arrival(id))
                        return nil
                    } catch {
                        return error
                    }
                }
                if id == "first" { await gate.untilReached() }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        let next = try await Self.storedInTime(batcher)
        gate.open()

        let hanging = ArrivalError.unavailable("the database did not answer within 0.05 seconds")
        #expect(errors.contains(hanging))
        #expect(errors.allSatisfy { $0 == nil || $0 == hanging })
        #expect(next)
    }

    /// Another one each time: a busy machine exceeds the short deadline now and then.
    private static func storedInTime(_ batcher: ArrivalBatcher) async throws -> Bool {
        for number in 0..<200 {
            do throws(ArrivalError) {
                return try await batcher.store(arrival("next-\(number)"))
            } catch {
                guard case .unavailable = error else { throw error }
            }
        }
        return false
    }

    @Test(arguments: [(3, 1 << 20, 3), (1000, 10, 2), (1000, 0, 1)])
    func store_whenTooMuchWaits_turnsTheRestAway(
        _ waitingMax: Int, _ bytesMax: Int, _ letIn: Int
    ) async throws {
        let store = MemoryStore()
        let gate = Gate()
        var limits = ArrivalBatcher.Limits()
        (limits.waitingMax, limits.waitingBytesMax) = (waitingMax, bytesMax)
        let batcher = ArrivalBatcher(limits: limits) { batch throws(ArrivalError) in
            if batch.first?.notificationUUID == "first" { await gate.wait() }
            return try store.commit(batch)
        }

        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { _ = try await batcher.store(Self.arrival("first", bytes: 5)) }
            await gate.untilReached()
            for index in 0..<letIn {
                group.addTask { _ = try await batcher.store(Self.arrival("\(index)", bytes: 5)) }
            }
            while await batcher.waitingCount < letIn { await Task.yield() }
            await #expect(throws: ArrivalError.unavailable("\(letIn) arrivals wait already")) {
                _ = try await batcher.store(Self.arrival("more", bytes: 5))
            }
            gate.open()
            try await group.waitForAll()
        }

        #expect(store.state.withLock { $0.ids.count } == letIn + 1)
    }
}

/// Holds one task until it is opened.
final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var isReached = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    func wait() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                state.isReached = true
                if !state.isOpen { state.waiter = continuation }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }

    func untilReached() async {
        while !state.withLock({ $0.isReached }) { await Task.yield() }
    }

    func open() {
        let waiter = state.withLock { state in
            state.isOpen = true
            return state.waiter
        }
        waiter?.resume()
    }
}
