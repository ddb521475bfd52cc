import Testing

@testable import ServiceKit

@Suite struct AlarmTests {
    private let alarm = Alarm(name: "test-alarm")

    @Test func wait_endsNoSoonerThanAsked() async throws {
        for milliseconds in [0, 1, 20] {
            let started = ContinuousClock.now

            try await alarm.wait(for: .milliseconds(milliseconds))

            #expect(ContinuousClock.now - started >= .milliseconds(milliseconds))
        }
        #expect(alarm.waiting == 0)
    }

    @Test func waits_whoseInstantIsPast_endAtOnce() async throws {
        try await alarm.wait(for: .zero)
        try await alarm.wait(for: .seconds(-5))
        #expect(alarm.waiting == 0)
    }

    @Test func aSoonerWait_beganLater_isNotHeldUpByALongerOne() async throws {
        let long = Task { try await alarm.wait(for: .seconds(3600)) }
        while alarm.waiting == 0 { await Task.yield() }

        try await alarm.wait(for: .milliseconds(1))

        #expect(alarm.waiting == 1)
        long.cancel()
        await #expect(throws: CancellationError.self) { try await long.value }
    }

    @Test func wait_whenCancelled_throwsWithoutItsInstant() async throws {
        let tasks = (0..<20).map { _ in Task { try await alarm.wait(for: .seconds(3600)) } }
        while alarm.waiting < 20 { await Task.yield() }

        for task in tasks { task.cancel() }

        for task in tasks {
            await #expect(throws: CancellationError.self) { try await task.value }
        }
        #expect(alarm.waiting == 0)
    }

    @Test func wait_ofACancelledTask_throwsAtOnce() async throws {
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            try await alarm.wait(for: .seconds(3600))
        }
        task.cancel()

        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(alarm.waiting == 0)
    }

    /// Begun and cancelled at the same moment, in any order: each ends, and none is left behind.
    @Test func waits_cancelledWhileTheyBegin_allEnd() async throws {
        let tasks = (0..<2000).map { index in
            Task { try await alarm.wait(for: index % 3 == 0 ? .microseconds(50) : .seconds(3600)) }
        }
        for task in tasks { task.cancel() }

        var cancelled = 0
        for task in tasks {
            if case .failure = await task.result { cancelled += 1 }
        }

        #expect(cancelled >= 1333)
        #expect(alarm.waiting == 0)
    }

    @Test func aThousandWaits_allEnd() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<1000 {
                group.addTask { try await alarm.wait(for: .microseconds(index * 37 % 5000)) }
            }
            try await group.waitForAll()
        }
        #expect(alarm.waiting == 0)
    }
}
