import Dispatch
import Glibc

/// Signals that end the process, as a stream instead of a handler.
package enum Signals {
    /// SIGTERM and SIGINT as they arrive. While the stream exists they do not kill the process.
    package static func terminations() -> AsyncStream<Int32> {
        stream(of: [SIGTERM, SIGINT])
    }

    /// The given signals as they arrive. They are handled from the return of this function on, so that none is lost;
    /// before that each has its default action, which is restored when the stream ends.
    package static func stream(of signals: [Int32]) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            let queue = DispatchQueue(label: "repricer.signals")
            // Dispatch sources may be used from any thread, but their protocol is not marked Sendable.
            let listening = DispatchGroup()
            nonisolated(unsafe) let sources = signals.map { number in
                let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
                source.setEventHandler { continuation.yield(number) }
                listening.enter()
                source.setRegistrationHandler { listening.leave() }
                source.resume()
                return source
            }
            listening.wait()
            continuation.onTermination = { _ in
                for source in sources { source.cancel() }
                for number in signals { signal(number, SIG_DFL) }
            }
        }
    }

    /// Ignores a SIGHUP that arrives before anything handles it, instead of letting it end the process.
    package static func ignoreHangUps() {
        signal(SIGHUP, SIG_IGN)
    }

    /// Writing to a closed socket or pipe then fails with EPIPE instead of ending the process.
    package static func ignoreBrokenPipes() {
        signal(SIGPIPE, SIG_IGN)
    }
}
