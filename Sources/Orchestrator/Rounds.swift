import ServiceKit

/// Does one round after another until cancelled; one that found nothing to do, or failed, is followed by a wait.
struct Rounds: Sendable {
    var log: Log
    /// What failed, and that it is tried again; one line of the log.
    var failure: String
    var idleWait: Duration
    /// Counts a failed round.
    var count: @Sendable () -> Void = {}

    func run(_ round: () async throws -> Int) async {
        while !Task.isCancelled {
            do {
                if try await round() == 0 { try await Task.sleep(for: idleWait) }
            } catch is CancellationError {
                return
            } catch {
                log.error(failure, ["error": String(describing: error)])
                count()
                // A cancelled sleep ends the loop above.
                try? await Task.sleep(for: idleWait)
            }
        }
    }
}
