package import Ledger
import ServiceKit
import Synchronization

/// Verifies on a few threads of its own: neither the threads that accept, nor those that wait for
/// the database, nor Swift's shared pool pays for it.
package final class VerificationCrew: Sendable {
    /// Payloads waiting or under way; beyond it the sender is asked to come again.
    package static let waitingMax = 1024

    private let workers: [VerificationWorker]
    private let load: Mutex<(next: Int, waiting: Int)>

    /// `threads` is best the number of cores.
    package init(threads: Int, check: @escaping NotificationCheck) {
        workers = (0..<max(1, threads)).map {
            VerificationWorker(name: "verify-\($0)", check: check)
        }
        load = Mutex((next: 0, waiting: 0))
    }

    /// The arrival, or why it is refused; nil when too many wait already.
    package func verify(_ signedPayload: String, now: Int64) async -> Result<
        Arrival, NotificationRefusal
    >? {
        let turn: Int? = load.withLock { load in
            guard load.waiting < Self.waitingMax else { return nil }
            load.waiting += 1
            load.next = (load.next + 1) % workers.count
            return load.next
        }
        guard let turn else { return nil }
        defer { load.withLock { $0.waiting -= 1 } }
        return await workers[turn].verify(signedPayload, now: now)
    }
}

private actor VerificationWorker {
    private let executor: ThreadExecutor
    private let check: NotificationCheck

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(name: String, check: @escaping NotificationCheck) {
        executor = ThreadExecutor(name: name)
        self.check = check
    }

    func verify(_ signedPayload: String, now: Int64) -> Result<Arrival, NotificationRefusal> {
        do throws(NotificationRefusal) {
            return .success(try check(signedPayload, now))
        } catch {
            return .failure(error)
        }
    }
}
