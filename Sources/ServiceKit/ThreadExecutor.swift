/// Runs jobs one after another on its own thread.
///
/// It is for code that blocks (libpq, OpenSSL, sockets): Swift's shared pool has one thread per core, and blocked ones
/// stall the whole process. It can be an actor's executor or a task's preference.
package final class ThreadExecutor: SerialExecutor, TaskExecutor, JobRunner {
    private let queue: JobQueue

    /// The thread starts with the first job and ends at `shutdown()`, or with the last reference.
    package init(name: String) {
        queue = JobQueue(name: name)
    }

    /// An executor whose thread already runs; nil when the system refuses another thread.
    ///
    /// Use it for threads that untrusted peers cause: without a thread the server refuses only their connection. An
    /// executor from plain `init` ends the process at its first job where no thread can be started.
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
