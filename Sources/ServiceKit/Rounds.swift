/// Does one round after another until it is cancelled. A round that found nothing to do, or failed, is followed by a
/// wait.
package struct Rounds: Sendable {
    package var log: Log
    /// The line of the log for a failure, which says that it is tried again. There is one until it works again.
    package var failure: String
    package var idleWait: Duration
    /// Counts a failed round.
    package var count: @Sendable () -> Void

    package init(
        log: Log, failure: String, idleWait: Duration, count: @escaping @Sendable () -> Void = {}
    ) {
        self.log = log
        self.failure = failure
        self.idleWait = idleWait
        self.count = count
    }

    package func run(_ round: () async throws -> Int) async {
        let outage = Outage(log: log, failure: failure)
        while !Task.isCancelled {
            do {
                let done = try await round()
                outage.end()
                if done == 0 { try await Task.sleep(for: idleWait) }
            } catch is CancellationError {
                return
            } catch {
                outage.note(error)
                count()
                // A cancelled sleep ends the loop above.
                try? await Task.sleep(for: idleWait)
            }
        }
    }
}
