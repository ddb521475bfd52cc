/// Wakes tasks at their instants, and runs the tasks that prefer it as their executor, all on one thread.
///
/// It is for waits that end many times a second: `Task.sleep` makes a timer for each, and arming and removing one costs
/// several times as much as this sleeping thread. A task that prefers this executor continues without waking another
/// thread; it must not block.
package final class Alarm: TaskExecutor, JobRunner {
    /// The process's shared alarm.
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
        // It does not run as a serial executor, because a task would leave such an executor at each call.
        job.runSynchronously(on: asUnownedTaskExecutor())
    }

    /// The number of waiting tasks.
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
                // The task was cancelled before its sleeper was in the list, so the cancellation handler found nothing
                // to wake.
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
