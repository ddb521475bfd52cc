/// Reads at once, then every `interval`, and whenever `reloads` says so, until cancelled.
///
/// - Parameters:
///   - interval: Between two readings; real time.
///   - reloads: Each element makes it read at once: SIGHUP in the service.
package func keepReading(
    every interval: Duration, and reloads: @escaping @Sendable () -> AsyncStream<Int32>,
    _ read: @escaping @Sendable () -> Void
) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
            for await _ in reloads() { read() }
        }
        while true {
            read()
            try await Task.sleep(for: interval)
        }
    }
}
