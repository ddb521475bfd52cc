/// Looks at once, then every `interval`, and whenever `reloads` says so, until cancelled.
///
/// - Parameters:
///   - interval: Between two looks; real time.
///   - reloads: Each element makes it look at once: SIGHUP in the service.
package func keepLooking(
    every interval: Duration, and reloads: @escaping @Sendable () -> AsyncStream<Int32>,
    _ look: @escaping @Sendable () -> Void
) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
            for await _ in reloads() { look() }
        }
        while true {
            look()
            try await Task.sleep(for: interval)
        }
    }
}
