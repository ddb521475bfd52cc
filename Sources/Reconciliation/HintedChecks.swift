import ServiceKit

/// Reads the statuses that V1 notifications ask for, within seconds. Every replica does so: a check is claimed by one.
package struct HintedChecks: Service {
    package let name = "hinted-checks"
    private let reconciler: Reconciler
    /// Of real time, between two looks at what is asked for.
    private let every: Duration
    private static let failureWait: Duration = .seconds(10)

    package init(_ reconciler: Reconciler, every: Duration) {
        self.reconciler = reconciler
        self.every = every
    }

    package func run() async throws {
        let dependencies = reconciler.dependencies
        let outage = Outage(
            log: dependencies.log, level: .warning, failure: "hints not followed")
        while !Task.isCancelled {
            do {
                try await dependencies.wait(every)
                try await step()
                outage.end()
            } catch is CancellationError {
                return
            } catch {
                outage.note(error)
                try await dependencies.wait(Self.failureWait)
            }
        }
    }

    /// Reads what is asked for now.
    package func step() async throws {
        try await reconciler.checkHinted()
    }
}
