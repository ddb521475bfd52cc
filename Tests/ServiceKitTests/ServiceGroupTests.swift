import Glibc
import Testing

@testable import ServiceKit

/// Runs until cancelled, unless told otherwise.
private struct Worker: Service {
    enum End: Sendable {
        case whenCancelled, atOnce, never
        case failing(String)
        case failingWhenCancelled(String)
    }

    struct Failure: Error, Equatable {
        let text: String
    }

    let name: String
    var end = End.whenCancelled
    var stopsAtOnce = false
    let recorder: Recorder

    func run() async throws {
        recorder.add("start \(name)")
        let (forever, continuation) = AsyncStream.makeStream(of: Void.self)
        switch end {
        case .whenCancelled, .failingWhenCancelled:
            for await _ in forever {}
            recorder.add("stop \(name)")
            if case .failingWhenCancelled(let text) = end { throw Failure(text: text) }
            try Task.checkCancellation()
        case .atOnce: break
        case .failing(let text): throw Failure(text: text)
        case .never:
            await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
        }
        continuation.finish()
    }
}

/// Cancelled, it ends once all of these have been recorded, or after ten seconds.
private struct WaitingWorker: Service {
    let name = "waiting"
    let recorder: Recorder
    let lines: Set<String>

    init(recorder: Recorder, for lines: Set<String>) {
        self.recorder = recorder
        self.lines = lines
    }

    func run() async throws {
        recorder.add("start waiting")
        let (forever, continuation) = AsyncStream.makeStream(of: Void.self)
        for await _ in forever {}
        continuation.finish()
        let until = ContinuousClock.now + .seconds(10)
        while !lines.isSubset(of: recorder.all), .now < until { await Task.yield() }
        recorder.add("stop waiting")
    }
}

@Suite struct ServiceGroupTests {
    private let recorder = Recorder()

    private func group(_ workers: Worker...) -> ServiceGroup {
        ServiceGroup(workers, log: .silent, stopDeadline: .seconds(60))
    }

    private func worker(_ name: String, _ end: Worker.End = .whenCancelled) -> Worker {
        Worker(name: name, end: end, recorder: recorder)
    }

    private func run(
        _ group: ServiceGroup, started count: Int, stop: Bool = true, _ own: Recorder? = nil
    ) async -> Result<Void, any Error> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        let running = Task { try await group.run(until: stream) }
        while (own ?? recorder).all.count < count { await Task.yield() }
        if stop { continuation.yield() }
        return await running.result
    }

    @Test func group_onAStopSignal_stopsInReverseOrder() async throws {
        let result = await run(group(worker("a"), worker("b"), worker("c")), started: 3)

        try result.get()
        #expect(recorder.all.suffix(3) == ["stop c", "stop b", "stop a"])
    }

    @Test func group_whenAServiceFails_stopsTheOthersAndThrowsItsError() async {
        let result = await run(
            group(worker("a"), worker("b", .failing("broken")), worker("c")), started: 3,
            stop: false)

        #expect(throws: Worker.Failure(text: "broken")) { try result.get() }
        #expect(recorder.all.filter { $0.hasPrefix("stop") } == ["stop c", "stop a"])
    }

    @Test func group_whenAServiceEndsByItself_callsThatAnError() async {
        let result = await run(group(worker("a"), worker("b", .atOnce)), started: 2, stop: false)

        #expect(throws: ServiceGroupError.endedUnexpectedly(service: "b")) { try result.get() }
    }

    @Test func group_whenAServiceFailsWhileStopping_throwsItsError() async {
        let result = await run(
            group(worker("a"), worker("b", .failingWhenCancelled("late"))), started: 2)

        #expect(throws: Worker.Failure(text: "late")) { try result.get() }
        #expect(recorder.all.last == "stop a")
    }

    @Test func group_whenAServiceDoesNotStop_goesOnAfterItsDeadline() async {
        for _ in 0..<20 {
            let recorder = Recorder()
            let workers = [
                Worker(name: "a", recorder: recorder),
                Worker(name: "b", end: .never, recorder: recorder),
            ]
            let result = await run(
                ServiceGroup(workers, log: .silent, stopDeadline: .milliseconds(30)), started: 2,
                recorder)

            // A busy machine may let the other one miss its own 50 ms, too: then it is tried again.
            let late = #expect(throws: ServiceGroupError.self) { try result.get() }
            if late == .stopDeadlineExceeded(services: ["b", "a"]) { continue }
            #expect(late == .stopDeadlineExceeded(services: ["b"]))
            #expect(recorder.all.last == "stop a")
            return
        }
        Issue.record("a service that ends at once was late each time")
    }

    @Test func group_onAStopSignal_tellsThoseThatStopAtOnceBeforeAnotherHasDrained() async throws {
        let waiting = WaitingWorker(recorder: recorder, for: ["stop a", "stop c"])
        let workers: [any Service] = [
            Worker(name: "a", stopsAtOnce: true, recorder: recorder),
            Worker(name: "b", recorder: recorder),
            Worker(name: "c", stopsAtOnce: true, recorder: recorder), waiting,
        ]
        let result = await run(
            ServiceGroup(workers, log: .silent, stopDeadline: .seconds(5)), started: 4)

        try result.get()
        #expect(recorder.all.suffix(2) == ["stop waiting", "stop b"])
        #expect(Set(recorder.all.suffix(4).prefix(2)) == ["stop a", "stop c"])
    }

    @Test func group_whenItsTaskIsCancelled_stopsItsServices() async throws {
        let group = group(worker("a"), worker("b"))
        let running = Task { try await group.run(until: AsyncStream<Void> { _ in }) }
        while recorder.all.count < 2 { await Task.yield() }

        running.cancel()

        try await running.value
        #expect(recorder.all.suffix(2) == ["stop b", "stop a"])
    }

    @Test func group_startedAndStoppedManyTimes_neverHangs() async throws {
        for _ in 0..<100 {
            let recorder = Recorder()
            let workers = ["a", "b", "c"].map { Worker(name: $0, recorder: recorder) }
            let (stop, continuation) = AsyncStream.makeStream(of: Void.self)
            continuation.yield()
            try await ServiceGroup(workers, log: .silent, stopDeadline: .seconds(60))
                .run(until: stop)
            #expect(recorder.all.filter { $0.hasPrefix("stop") } == ["stop c", "stop b", "stop a"])
        }
    }

    @Test func signals_sentToTheProcess_arriveInTheStream() async {
        let signals = Signals.stream(of: [SIGWINCH])
        let first = Task { await signals.first { _ in true } }
        // The source needs a moment before it sees signals, so this harmless one is repeated.
        let sender = Task {
            while !Task.isCancelled {
                kill(getpid(), SIGWINCH)
                await Task.yield()
            }
        }

        #expect(await first.value == SIGWINCH)
        sender.cancel()
        await sender.value
    }
}
