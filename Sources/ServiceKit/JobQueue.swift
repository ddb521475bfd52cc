import Glibc

/// An executor, which runs a job on the queue's thread.
protocol JobRunner: AnyObject, Sendable {
    func run(_ job: UnownedJob)
}

/// The work of one thread: jobs, and sleepers with their instants.
///
/// Unchecked, because of the C mutex and condition: the variables are only touched between lock and
/// unlock, and the two pointers never change until `deinit`, which runs when neither the executor nor
/// the thread holds the queue any more.
final class JobQueue: @unchecked Sendable {
    struct Sleeper {
        let id: UInt64
        /// The instant by the monotonic clock, in nanoseconds.
        let wakesAt: Int64
        let continuation: CheckedContinuation<Void, any Error>
    }

    private enum Work {
        case wake(Sleeper)
        case run([(job: UnownedJob, runner: any JobRunner)])
    }

    // Each entry keeps its runner alive until the job has run: the runtime's reference is unowned.
    private var jobs: [(job: UnownedJob, runner: any JobRunner)] = []
    /// The next one to wake is last.
    private var sleepers: [Sleeper] = []
    private var nextID: UInt64 = 0
    private var isStopping = false
    private var hasThread = false
    /// Whether the thread waits. A busy thread looks for work again before it waits, so it need not be woken.
    private var isIdle = false
    private let name: String
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    init(name: String) {
        self.name = name
        pthread_mutex_init(lock, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        // By the monotonic clock, so that a step of the machine's clock moves no wait.
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(changed, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(changed)
        pthread_mutex_destroy(lock)
        changed.deallocate()
        lock.deallocate()
    }

    private func locked<T>(_ body: () -> T) -> T {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        return body()
    }

    static func now() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }

    func append(_ job: UnownedJob, runner: any JobRunner) {
        let code = locked {
            jobs.append((job, runner))
            // The thread is signalled under the lock. Once the lock is released, the thread may have run the job, and
            // the job may have held the last reference to the executor: then the queue and its condition are gone.
            if isIdle { pthread_cond_signal(changed) }
            return startThread()
        }
        Self.demandThread(code)
    }

    /// Ends the process where no thread can be started: the jobs could neither run nor fail, and waiting for ever would
    /// be worse.
    private static func demandThread(_ code: Int32) {
        precondition(code == 0, "cannot start a thread: \(String(cString: strerror(code)))")
    }

    /// Starts the thread before the first job. Returns 0, or the system's error number where it refuses a thread.
    func start() -> Int32 { locked { startThread() } }

    func stop() {
        locked {
            isStopping = true
            pthread_cond_signal(changed)
        }
    }

    var sleeperCount: Int { locked { sleepers.count } }

    func newSleeper() -> UInt64 {
        locked {
            nextID &+= 1
            return nextID
        }
    }

    /// Inserts a sleeper, and wakes the thread only where this sleeper is the next to wake.
    func insert(_ sleeper: Sleeper) {
        let code = locked {
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
            // The thread runs, unless the executor was shut down meanwhile.
            return startThread()
        }
        Self.demandThread(code)
    }

    func cancel(_ id: UInt64) {
        let found: Sleeper? = locked {
            guard let index = sleepers.lastIndex(where: { $0.id == id }) else { return nil }
            return sleepers.remove(at: index)
        }
        found?.continuation.resume(throwing: CancellationError())
    }

    /// The next work: first a sleeper whose instant has come, otherwise the jobs in their order; nil when the thread
    /// should end. It waits until there is any.
    private func take() -> Work? {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        while true {
            isIdle = false
            if let next = sleepers.last, next.wakesAt <= Self.now() {
                return .wake(sleepers.removeLast())
            }
            if !jobs.isEmpty {
                defer { jobs = [] }
                return .run(jobs)
            }
            if let next = sleepers.last {
                let (seconds, rest) = next.wakesAt.quotientAndRemainder(dividingBy: 1_000_000_000)
                var until = timespec(tv_sec: Int(seconds), tv_nsec: Int(rest))
                isIdle = true
                pthread_cond_timedwait(changed, lock, &until)
            } else if isStopping {
                hasThread = false
                return nil
            } else {
                isIdle = true
                pthread_cond_wait(changed, lock)
            }
        }
    }

    /// Starts the thread, under the lock. Returns 0, or the system's code when it refuses a thread. The thread keeps
    /// the queue alive.
    private func startThread() -> Int32 {
        guard !hasThread else { return 0 }
        var thread = pthread_t()
        let kept = Unmanaged.passRetained(self)
        let code = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<JobQueue>.fromOpaque(argument).takeRetainedValue().loop()
                return nil
            }, kept.toOpaque())
        if code == 0 { pthread_detach(thread) } else { kept.release() }
        hasThread = code == 0
        return code
    }

    private func loop() {
        nameThread()
        while let work = take() {
            switch work {
            case .wake(let sleeper): sleeper.continuation.resume()
            case .run(let batch): for entry in batch { entry.runner.run(entry.job) }
            }
        }
    }

    /// Shows the name in `top -H`; a failure is harmless.
    ///
    /// It writes a file, because Swift imports neither the GNU call nor prctl.
    private func nameThread() {
        guard let file = fopen("/proc/thread-self/comm", "we") else { return }
        fputs(String(name.prefix(15)), file)
        fclose(file)
    }
}
