/// Repeats rounds until it is cancelled. After a failed round it waits for `failureWait` and tries again.
package struct Rounds: Sendable {
    package typealias Wait = @Sendable (Duration) async throws -> Void

    package var log: Log
    package var level: Log.Level
    /// The log message of a failure, which says that the round is retried. It is logged once per outage.
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

    /// - Parameter round: It returns how long to wait before the next one, by the clock of `wait`.
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
                // A `CancellationError` also comes here while this task is not cancelled: a part of the round was
                // cancelled because another part had failed.
                outage.note(error)
                count()
                // A cancelled wait ends the loop.
                guard (try? await wait(failureWait)) != nil else { return }
            }
        }
    }
}
