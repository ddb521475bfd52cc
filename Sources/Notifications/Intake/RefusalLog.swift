package import ServiceKit
internal import Synchronization

/// Logs a line for a refused payload, but at most `linesMax` a minute, so that forgeries cannot fill the disk. The next
/// written line says how many were left out. The metrics count them all.
package final class RefusalLog: Sendable {
    package static let linesMax = 20
    private static let window = Duration.seconds(60)

    private struct State {
        var windowEndsAt: ContinuousClock.Instant?
        var written = 0
        var suppressed = 0
    }

    private let log: Log
    private let state = Mutex(State())

    package init(log: Log) {
        self.log = log
    }

    /// `now` is real time, because the fast clock of a rehearsal must not allow more lines.
    package func note(
        _ refusal: NotificationRefusal, now: ContinuousClock.Instant = .now
    ) {
        let suppressed = state.withLock { state -> Int? in
            if state.windowEndsAt.map({ now >= $0 }) ?? true {
                state.windowEndsAt = now + Self.window
                state.written = 0
            }
            guard state.written < Self.linesMax else {
                state.suppressed += 1
                return nil
            }
            state.written += 1
            defer { state.suppressed = 0 }
            return state.suppressed
        }
        guard let suppressed else { return }
        log.notice(
            "notification refused",
            [
                "code": refusal.code, "why": refusal.message,
                "suppressed_before": "\(suppressed)",
            ])
    }
}
