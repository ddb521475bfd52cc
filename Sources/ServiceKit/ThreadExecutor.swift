import Glibc
import Synchronization

/// Runs jobs one after another on a thread of its own.
///
/// For code that blocks (libpq, OpenSSL, sockets): Swift's shared pool has one thread a core, and a
/// blocked one stalls the whole process. Use it as an actor's executor or as a task's preference.
package final class ThreadExecutor: SerialExecutor, TaskExecutor, Sendable {
    package let name: String
    private let queue: JobQueue

    /// The thread starts with the first job and ends at `shutdown()`, or with the last reference.
    package init(name: String) {
        self.name = name
        queue = JobQueue(name: name)
    }

    /// An executor whose thread already runs; nil when the system refuses another thread.
    ///
    /// For threads that strangers cause: without one their connection is refused, and nobody else
    /// suffers. A plain `init` treats that shortage as fatal at the first job.
    package static func started(name: String) -> ThreadExecutor? {
        let executor = ThreadExecutor(name: name)
        return executor.queue.start() ? executor : nil
    }

    deinit {
        queue.stop()
    }

    /// Lets the thread end once its queue is empty; a job that comes later still runs.
    package func shutdown() {
        queue.stop()
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        queue.append(UnownedJob(job), executor: self)
    }

    package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }

    package func asUnownedTaskExecutor() -> UnownedTaskExecutor {
        UnownedTaskExecutor(ordinary: self)
    }

    fileprivate func run(_ job: UnownedJob) {
        job.runSynchronously(
            isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
    }
}

/// Jobs waiting for one thread.
///
/// Unchecked, because of the C mutex and condition: `jobs`, `isStopping` and `hasThread` are only
/// touched between lock and unlock, and the two pointers never change until `deinit`, which runs
/// when neither the executor nor the thread holds the queue any more.
private final class JobQueue: @unchecked Sendable {
    // Each entry keeps its executor alive until the job has run: the runtime's reference is unowned.
    private var jobs: [(job: UnownedJob, executor: ThreadExecutor)] = []
    private var isStopping = false
    private var hasThread = false
    private let name: String
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let wake = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    init(name: String) {
        self.name = name
        pthread_mutex_init(lock, nil)
        pthread_cond_init(wake, nil)
    }

    deinit {
        pthread_cond_destroy(wake)
        pthread_mutex_destroy(lock)
        wake.deallocate()
        lock.deallocate()
    }

    func append(_ job: UnownedJob, executor: ThreadExecutor) {
        pthread_mutex_lock(lock)
        jobs.append((job, executor))
        let needsThread = !hasThread
        hasThread = true
        pthread_mutex_unlock(lock)
        // Without the lock, which the woken thread would only wait for.
        pthread_cond_signal(wake)
        guard needsThread else { return }
        let code = createThread()
        // Without a thread the job could neither run nor fail: waiting for ever would be worse.
        precondition(code == 0, "cannot start a thread: \(String(cString: strerror(code)))")
    }

    /// Starts the thread before the first job; false when the system refuses it.
    func start() -> Bool {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        guard !hasThread else { return true }
        hasThread = createThread() == 0
        return hasThread
    }

    func stop() {
        pthread_mutex_lock(lock)
        isStopping = true
        pthread_cond_signal(wake)
        pthread_mutex_unlock(lock)
    }

    /// The next batch in order; nil when the thread should end.
    private func take() -> [(job: UnownedJob, executor: ThreadExecutor)]? {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        while jobs.isEmpty {
            if isStopping {
                hasThread = false
                return nil
            }
            pthread_cond_wait(wake, lock)
        }
        defer { jobs = [] }
        return jobs
    }

    /// The thread keeps the queue.
    private func createThread() -> Int32 {
        SystemThread.start(named: name) {
            while let batch = self.take() {
                for entry in batch { entry.executor.run(entry.job) }
            }
        }
    }
}
