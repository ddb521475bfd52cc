/// Does one round after another until it is cancelled. A round that failed is followed by a wait, and tried again.
package struct Rounds: Sendable {
    package typealias Wait = @Sendable (Duration) async throws -> Void

    package var log: Log
    package var level: Log.Level
    /// The line of the log for a failure, which says that it is tried again. There is one until it works again.
    package var failure: String
    package var failureWait: Duration
    package var wait: Wait
    /// Counts a failed round.
    package var count: @Sendable () -> Void

    package init(
        log: Log, level: Log.Level = .error, failure: String, failureWait: Duration,
        wait: @escaping Wait = { try await Task.sleep(for: $0) },
        count: @escaping @Sendable () -> Void = {}
    ) {
        self.log = log
        self.level = level
        self.failure = failure
        self.failureWait = failureWait
        self.wait = wait
        self.count = count
    }

    /// - Parameter round: It returns how long to wait before the next one, in the time of `wait`.
    package func run(_ round: () async throws -> Duration) async {
        let outage = Outage(log: log, level: level, failure: failure)
        while !Task.isCancelled {
            do {
                let pause = try await round()
                outage.end()
                if pause > .zero { try await wait(pause) }
            } catch is CancellationError where Task.isCancelled {
                return
            } catch {
                // Also where a part of the round was cancelled, since another one had failed.
                outage.note(error)
                count()
                // A wait that is cancelled ends it.
                guard (try? await wait(failureWait)) != nil else { return }
            }
        }
    }
}
