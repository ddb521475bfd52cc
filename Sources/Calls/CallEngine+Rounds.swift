import ServiceKit

extension CallEngine {
    /// Does one round after another until the service is cancelled, then waits for the calls in flight. They are not
    /// cancelled with the service.
    package func run(
        failure: String, idleWait: Duration, count: @escaping @Sendable () -> Void = {},
        _ step: @escaping @Sendable (CallsOut) async throws -> Int
    ) async {
        let out = CallsOut()
        await withTaskCancellationHandler {
            await Rounds(log: log, failure: failure, failureWait: idleWait, count: count).run {
                if let failure = out.takeFailure() { throw failure }
                guard out.quietFor == .zero else { return idleWait }
                return try await step(out) == 0 ? idleWait : .zero
            }
        } onCancel: {
            out.stop()
        }
        await drain(out)
    }

    /// Waits for the calls in flight when the service ends. A call that is still out afterwards is taken over once its
    /// lease has ended.
    package func drain(_ out: CallsOut) async {
        // The service is cancelled, and a cancelled task could not wait.
        let isSettled = await Task { await out.allSettled(within: limits.drainFor) }.value
        guard !isSettled else { return }
        log.warning("calls without an answer are left", ["calls": "\(out.count)"])
    }

    /// Does one round and waits until its calls are settled. Tests drive services by hand with it.
    package func settled(_ step: (CallsOut) async throws -> Int) async throws -> Int {
        let out = CallsOut()
        let done: Int
        do {
            done = try await step(out)
        } catch {
            _ = await out.allSettled()
            throw error
        }
        _ = await out.allSettled()
        if let failure = out.takeFailure() { throw failure }
        return done
    }
}

extension CallPermitSource {
    /// The permits for Get All Subscription Statuses that status checks share.
    package static func statuses(
        _ engine: CallEngine, perSecond: Double, wait: @escaping Wait
    ) -> CallPermitSource {
        CallPermitSource(
            pool: engine.pool, endpoint: "status", perSecond: perSecond, clock: engine.clock,
            wait: wait)
    }
}
