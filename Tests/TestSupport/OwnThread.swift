import ServiceKit
package import Testing

/// Runs what may block, or computes for long, on a thread of its own.
package func onOwnThread<T: Sendable>(
    _ body: @Sendable () async throws -> T
) async throws -> T {
    let executor = ThreadExecutor(name: "test")
    defer { executor.shutdown() }
    return try await withTaskExecutorPreference(executor) { try await body() }
}

/// Gives each test of the suite a thread of its own.
///
/// Tests run side by side on Swift's shared threads, of which there is one a core: a test that computes for a second, or
/// waits for a process, holds up all others there. Child tasks share the test's thread, so it must not block for them.
package struct OwnThreadTrait: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await onOwnThread { try await function() }
    }
}

extension Trait where Self == OwnThreadTrait {
    /// A thread of its own for each test.
    package static var ownThread: OwnThreadTrait { OwnThreadTrait() }
}
