/// Runs jobs one after another on a thread of its own.
///
/// It is for code that blocks (libpq, OpenSSL, sockets): Swift's shared pool has one thread a core, and a blocked one
/// stalls the whole process. It can be an actor's executor or a task's preference.
package final class ThreadExecutor: SerialExecutor, TaskExecutor, JobRunner {
    private let queue: JobQueue

    /// The thread starts with the first job and ends at `shutdown()`, or with the last reference.
    package init(name: String) {
        queue = JobQueue(name: name)
    }

    /// An executor whose thread already runs; nil when the system refuses another thread.
    ///
    /// For threads that strangers cause: without one their connection is refused, and nobody else
    /// suffers. A plain `init` treats that shortage as fatal at the first job.
    package static func started(name: String) -> ThreadExecutor? {
        let executor = ThreadExecutor(name: name)
        return executor.queue.start() == 0 ? executor : nil
    }

    deinit {
        queue.stop()
    }

    /// Lets the thread end once its queue is empty; a job that comes later still runs.
    package func shutdown() {
        queue.stop()
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        queue.append(UnownedJob(job), runner: self)
    }

    package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }

    package func asUnownedTaskExecutor() -> UnownedTaskExecutor {
        UnownedTaskExecutor(ordinary: self)
    }

    func run(_ job: UnownedJob) {
        job.runSynchronously(
            isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
    }
}
