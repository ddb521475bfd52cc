/// Wakes tasks at their instants, and runs those that prefer it, all on one thread.
///
/// For waits that end many times a second: `Task.sleep` makes a timer of its own for each, and arming and taking it
/// down costs several times what the sleeping thread here does. A task that prefers this executor goes on without
/// another thread being woken; it must not block.
package final class Alarm: TaskExecutor, JobRunner {
    /// The one of this process.
    package static let shared = Alarm(name: "alarm")

    private let queue: JobQueue

    /// Makes the alarm. Its thread starts with the first wait.
    init(name: String) {
        queue = JobQueue(name: name)
    }

    deinit {
        queue.stop()
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        queue.append(UnownedJob(job), runner: self)
    }

    func run(_ job: UnownedJob) {
        // It runs as no serial executor, because a task would leave that one at its every call.
        job.runSynchronously(on: asUnownedTaskExecutor())
    }

    /// How many tasks wait.
    var waiting: Int { queue.sleeperCount }

    /// Waits for this time, and not at all when `time` is not positive.
    ///
    /// Throws `CancellationError` as soon as the task is cancelled.
    package func wait(for time: Duration) async throws {
        try Task.checkCancellation()
        guard time > .zero else { return }
        guard queue.start() == 0 else { return try await Task.sleep(for: time) }
        let id = queue.newSleeper()
        let wakesAt = JobQueue.now().addingClamped(time.nanoseconds)
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                queue.insert(.init(id: id, wakesAt: wakesAt, continuation: continuation))
                // It was cancelled before it stood in the list, and its handler has found nobody to wake.
                if Task.isCancelled { queue.cancel(id) }
            }
        } onCancel: {
            queue.cancel(id)
        }
    }
}

extension Duration {
    /// The duration in whole nanoseconds, clamped instead of overflowing.
    fileprivate var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        return whole.addingClamped(attoseconds / 1_000_000_000)
    }
}
