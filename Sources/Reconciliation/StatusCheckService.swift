import ServiceKit

/// Reads the statuses that others wait for, within seconds. Every replica does so: a check is claimed by one.
package struct StatusCheckService: Service {
    package enum Subject: String, Sendable {
        /// What V1 notifications hint at.
        case hinted
        /// What a lost database may have called: calls of these subscriptions wait for their statuses.
        case restored
    }

    package let name: String
    private let reconciler: Reconciler
    private let subject: Subject
    /// Real time between two questions for what is asked for.
    private let every: Duration
    private static let failureWait: Duration = .seconds(10)

    package init(_ reconciler: Reconciler, _ subject: Subject, every: Duration) {
        name = "\(subject.rawValue)-checks"
        self.reconciler = reconciler
        self.subject = subject
        self.every = every
    }

    package func run() async throws {
        let dependencies = reconciler.dependencies
        let outage = Outage(
            log: dependencies.log, level: .warning, failure: "statuses not read")
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
        switch subject {
        case .hinted: try await reconciler.check(StatusCheckQueries.List(.legacy))
        case .restored: try await reconciler.check(.restored)
        }
    }
}
