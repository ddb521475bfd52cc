import ServiceKit

/// Reads the statuses for which other work waits within seconds. Every replica runs it, and one of them claims each
/// check.
package struct StatusCheckService: Service {
    package enum Subject: String, Sendable {
        /// The statuses of subscriptions with a V1 notification.
        case hinted
        /// The statuses of subscriptions that a lost database may have called. Calls of these subscriptions wait for
        /// them.
        case restored
        /// The statuses of subscriptions with a call to make and a renewal that passed unheard. The call waits for them.
        case unheard
    }

    package let name: String
    private let reconciler: Reconciler
    private let subject: Subject
    /// The real time between two searches for due checks.
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

    /// Makes the checks that are due now.
    package func step() async throws {
        switch subject {
        case .hinted: try await reconciler.check(StatusCheckQueries.List(.legacy))
        case .restored: try await reconciler.check(.restored)
        case .unheard: try await reconciler.check(.unheard)
        }
    }
}
