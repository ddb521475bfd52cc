import Dispatch
import Glibc

/// Signals that end the process, as a stream instead of a handler.
package enum Signals {
    /// SIGTERM and SIGINT as they come; while the stream lives they no longer kill the process.
    package static func terminations() -> AsyncStream<Int32> {
        stream(of: [SIGTERM, SIGINT])
    }

    /// The named signals as they come; the default action is restored when the stream ends. Before it returns they are
    /// listened for: until then each acts as it does by default, and none is lost.
    package static func stream(of signals: [Int32]) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            let queue = DispatchQueue(label: "repricer.signals")
            // Dispatch sources may be used from any thread; their protocol just does not say so.
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

    /// A hang-up that nobody listens for yet is lost, instead of ending the process.
    package static func ignoreHangUps() {
        signal(SIGHUP, SIG_IGN)
    }

    /// Writing to a closed socket or pipe then fails with EPIPE instead of ending the process.
    package static func ignoreBrokenPipes() {
        signal(SIGPIPE, SIG_IGN)
    }
}
