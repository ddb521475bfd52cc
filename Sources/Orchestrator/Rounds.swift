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

    /// The same for rounds with calls that are not cancelled with them. Those that are out when the service is cancelled
    /// get so long to end; what is still out then is left, and taken over once its lease has ended.
    func run(
        drainFor limit: Duration, _ round: @escaping @Sendable () async throws -> Int
    ) async {
        let (ends, end) = AsyncStream.makeStream(of: Bool.self)
        let work = Task {
            await run(round)
            end.yield(true)
        }
        let isDone = await withTaskCancellationHandler {
            // A cancelled task could not wait.
            await Task { await ends.first { _ in true } }.value
        } onCancel: {
            work.cancel()
            Task {
                try await Task.sleep(for: limit)
                end.yield(false)
            }
        }
        if isDone == false { log.warning("calls without an answer are left") }
    }
}
