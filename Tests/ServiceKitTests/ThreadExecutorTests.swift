import Foundation
import Synchronization
import Testing

@testable import ServiceKit

private actor Counter {
    private nonisolated let executor: ThreadExecutor
    private var count = 0

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(_ executor: ThreadExecutor) {
        self.executor = executor
    }

    func increment() -> String {
        count += 1
        return threadName()
    }

    func total() -> Int { count }
}

private func threadName() -> String {
    (try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)) ?? "?"
}

@Suite struct ThreadExecutorTests {
    @Test func actor_onItsExecutor_runsOnThatThread() async {
        let counter = Counter(ThreadExecutor(name: "my-thread-name-is-long"))

        let names = await withTaskGroup(of: String.self) { group in
            for _ in 0..<500 { group.addTask { await counter.increment() } }
            return await group.reduce(into: Set()) { $0.insert($1) }
        }

        #expect(names == ["my-thread-name-\n"])
        #expect(await counter.total() == 500)
    }

    @Test func task_thatPrefersIt_runsOnThatThread() async {
        let executor = ThreadExecutor(name: "preferred")

        let names = await withTaskExecutorPreference(executor) {
            let before = threadName()
            await Task.yield()
            return [before, threadName()]
        }

        #expect(names == ["preferred\n", "preferred\n"])
    }

    @Test func executor_afterShutdown_stillRunsLateJobs() async {
        let executor = ThreadExecutor(name: "late")
        let counter = Counter(executor)
        for _ in 0..<50 {
            _ = await counter.increment()
            executor.shutdown()
        }

        #expect(await counter.total() == 50)
    }

    @Test func executor_startedBeforeItsFirstJob_runsIt() async throws {
        let executor = try #require(ThreadExecutor.started(name: "early"))

        let name = await withTaskExecutorPreference(executor) { threadName() }

        #expect(name == "early\n")
    }

    @Test func executors_inGreatNumber_leaveNoThreadBehind() async {
        for _ in 0..<300 {
            let counter = Counter(ThreadExecutor(name: "brief"))
            _ = await counter.increment()
        }

        // A thread needs a moment to end after its last reference is gone.
        var left = Int.max
        for _ in 0..<100_000 where left > 0 {
            left = threads(named: "brief\n")
            await Task.yield()
        }
        #expect(left == 0)
    }

    private func threads(named name: String) -> Int {
        let folder = "/proc/self/task"
        let ids = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return ids.count {
            (try? String(contentsOfFile: "\(folder)/\($0)/comm", encoding: .utf8)) == name
        }
    }
}
