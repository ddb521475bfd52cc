/// Reads at once, then every `interval` and at each element of `reloads`, until cancelled.
///
/// - Parameters:
///   - interval: The real time between two readings.
///   - reloads: Each element causes a reading at once: SIGHUP in the service.
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
