package import HTTP
package import ServiceKit
internal import Synchronization

/// Watches the file of a shared secret, so that a new secret needs no restart.
///
/// It reads the file each time, because a modification time can be wrong. A file that cannot be read is reported once,
/// and the former secret stays, so that no sender is refused while the file is being written.
package final class SecretWatch: Service {
    package enum Outcome: Hashable, Sendable {
        case unchanged, replaced
        /// The file is unusable for this reason. The former secret stays.
        case refused(String)
    }

    package let name: String
    private let label: String
    private let secret: SharedSecret
    private let read: @Sendable () throws -> String
    private let interval: Duration
    private let reloads: @Sendable () -> AsyncStream<Int32>
    private let log: Log
    private let metrics: Metrics
    /// What was reported last, so that one fault makes one line.
    private let reported = Mutex<String?>(nil)

    /// - Parameters:
    ///   - label: The secret's name in the log and in `repricer_secret_stale`.
    ///   - secret: The secret in use, made from the same file before.
    ///   - interval: The time between two readings.
    ///   - reloads: Each element makes it read at once; in the service it is SIGHUP.
    ///   - read: Returns the file's text, and throws where it is unusable. The error is logged, so it must not contain
    ///     the secret.
    package init(
        label: String, secret: SharedSecret, interval: Duration = .seconds(5),
        reloads: @escaping @Sendable () -> AsyncStream<Int32>, log: Log, metrics: Metrics,
        read: @escaping @Sendable () throws -> String
    ) {
        name = "secret \(label)"
        self.label = label
        self.secret = secret
        self.interval = interval
        self.reloads = reloads
        self.log = log
        self.metrics = metrics
        self.read = read
        metrics.declareGauge(
            "repricer_secret_stale", "1 while the file of the secret is unusable.")
        metrics.set("repricer_secret_stale", labels: ["secret": label], to: 0)
    }

    package func run() async throws {
        try await keepReading(every: interval, and: reloads) { [self] in reload() }
    }

    /// Reads the file once, and uses the secret in it.
    @discardableResult
    package func reload() -> Outcome {
        // Only one read runs at a time, because an older one must not replace a newer one.
        reported.withLock { reported in
            do {
                let isOther = secret.replace(fileContent: try read())
                if reported != nil { log.notice("secret is readable again", ["secret": label]) }
                reported = nil
                metrics.set("repricer_secret_stale", labels: ["secret": label], to: 0)
                guard isOther else { return .unchanged }
                log.notice("secret replaced", ["secret": label])
                return .replaced
            } catch {
                let why = "\(error)"
                if reported != why {
                    log.error(
                        "secret unusable; the one from before stays",
                        ["secret": label, "why": why])
                }
                reported = why
                metrics.set("repricer_secret_stale", labels: ["secret": label], to: 1)
                return .refused(why)
            }
        }
    }
}
