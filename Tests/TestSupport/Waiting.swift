/// Asks until the answer is yes: every few milliseconds, for a minute, or longer where a test has to wait for more than
/// a machine that stands still.
///
/// - Throws: `NeverCame` when the time is over, and at once what `isTrue` throws.
package func eventually(
    _ what: String = "what the test waits for", within time: Duration = .seconds(60),
    _ isTrue: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + time
    var pause = Duration.milliseconds(1)
    while try await !isTrue() {
        guard ContinuousClock.now < deadline else { throw NeverCame(what: what) }
        try await Task.sleep(for: pause)
        pause = min(pause * 2, .milliseconds(20))
    }
}

/// What a test waited for in vain.
package struct NeverCame: Error, CustomStringConvertible {
    package var what: String

    package init(what: String) { self.what = what }

    package var description: String { "\(what) never came" }
}
