import ServiceKit

/// Reads within seconds the statuses for which others wait. Every replica does so, and one of them claims each check.
package struct StatusCheckService: Service {
    package enum Subject: String, Sendable {
        /// The statuses at which V1 notifications hint.
        case hinted
        /// The statuses of what a lost database may have called. Calls of these subscriptions wait for them.
        case restored
    }

    package let name: String
    private let reconciler: Reconciler
    private let subject: Subject
    /// The real time between two questions what is wanted.
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
        await Rounds(
            log: dependencies.log, level: .warning, failure: "statuses not read",
            failureWait: Self.failureWait, wait: dependencies.wait
        ).run {
            try await dependencies.wait(every)
            try await step()
            return .zero
        }
    }

    /// Reads what is wanted now.
    package func step() async throws {
        switch subject {
        case .hinted: try await reconciler.check(StatusCheckQueries.List(.legacy))
        case .restored: try await reconciler.check(.restored)
        }
    }
}
