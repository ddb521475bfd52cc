import Glibc

/// Wakes tasks at their instants, and runs those that prefer it, all on one thread.
///
/// For waits that end many times a second: `Task.sleep` makes a timer of its own for each, and arming and taking it
/// down costs several times what the sleeping thread here does. A task that prefers this executor goes on without
/// another thread being woken; it must not block.
///
/// Unchecked, because of the C mutex and condition: the variables are only touched between lock and unlock, and the
/// two pointers never change.
package final class Alarm: TaskExecutor, @unchecked Sendable {
    /// The one of this process.
    package static let shared = Alarm(name: "alarm")

    private struct Sleeper {
        let id: UInt64
        /// Of the monotonic clock, in nanoseconds.
        let wakesAt: Int64
        let continuation: CheckedContinuation<Void, any Error>
    }

    /// The next to wake stands last.
    private var sleepers: [Sleeper] = []
    private var jobs: [UnownedJob] = []
    private var nextID: UInt64 = 0
    private var hasThread = false
    private let name: String
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    /// The thread starts with the first wait, and stays: one alarm serves a whole process.
    package init(name: String) {
        self.name = name
        pthread_mutex_init(lock, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        // A step of the machine's clock moves no wait.
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(changed, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    /// Tasks that wait.
    package var waiting: Int { locked { sleepers.count } }

    /// Waits so long; at once when `time` is not positive.
    ///
    /// Throws `CancellationError` as soon as the task is cancelled.
    package func wait(for time: Duration) async throws {
        try Task.checkCancellation()
        guard time > .zero else { return }
        guard locked({ startThread() }) else { return try await Task.sleep(for: time) }
        let id = locked {
            nextID &+= 1
            return nextID
        }
        let wakesAt = Self.now().addingClamped(time.nanoseconds)
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                locked { insert(Sleeper(id: id, wakesAt: wakesAt, continuation: continuation)) }
                // Cancelled before it stood in the list: its handler has found nobody to wake.
                if Task.isCancelled { cancel(id) }
            }
        } onCancel: {
            cancel(id)
        }
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let hasThread = locked {
            jobs.append(job)
            return startThread()
        }
        // Without the lock, which the woken thread would only wait for.
        pthread_cond_signal(changed)
        // Without a thread the job could neither run nor fail: waiting for ever would be worse.
        precondition(hasThread, "cannot start a thread")
    }

    private func cancel(_ id: UInt64) {
        let found: Sleeper? = locked {
            guard let index = sleepers.lastIndex(where: { $0.id == id }) else { return nil }
            return sleepers.remove(at: index)
        }
        found?.continuation.resume(throwing: CancellationError())
    }

    /// Under the lock. Wakes the thread only when this one is the next.
    private func insert(_ sleeper: Sleeper) {
        var low = 0
        var high = sleepers.count
        while low < high {
            let middle = (low + high) / 2
            if sleepers[middle].wakesAt > sleeper.wakesAt {
                low = middle + 1
            } else {
                high = middle
            }
        }
        sleepers.insert(sleeper, at: low)
        if low == sleepers.count - 1 { pthread_cond_signal(changed) }
    }

    private func locked<T>(_ body: () -> T) -> T {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        return body()
    }

    private static func now() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }

    // MARK: The thread

    /// Under the lock; false when the system refuses a thread.
    private func startThread() -> Bool {
        guard !hasThread else { return true }
        hasThread = SystemThread.start(named: name) { self.loop() } == 0
        return hasThread
    }

    private func loop() {
        var jobs: [UnownedJob] = []
        while true {
            waitForWork(&jobs)?.continuation.resume()
            for job in jobs { job.runSynchronously(on: asUnownedTaskExecutor()) }
            jobs.removeAll(keepingCapacity: true)
        }
    }

    /// Waits until there is something to do: a sleeper whose instant has come, first of all, or the jobs in their order.
    /// `free` is empty, and comes back with the jobs.
    private func waitForWork(_ free: inout [UnownedJob]) -> Sleeper? {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        while true {
            if let next = sleepers.last, next.wakesAt <= Self.now() { return sleepers.removeLast() }
            if !jobs.isEmpty {
                swap(&jobs, &free)
                return nil
            }
            guard let next = sleepers.last else {
                pthread_cond_wait(changed, lock)
                continue
            }
            var until = timespec(
                tv_sec: Int(next.wakesAt / 1_000_000_000),
                tv_nsec: Int(next.wakesAt % 1_000_000_000))
            pthread_cond_timedwait(changed, lock, &until)
        }
    }
}

extension Duration {
    /// Whole nanoseconds; clamped instead of overflowing.
    fileprivate var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        return whole.addingClamped(attoseconds / 1_000_000_000)
    }
}
