package import JOSE
package import ServiceKit
internal import Synchronization

/// Watches the file or folder of the trusted roots, so that a change needs no restart.
///
/// It reads the few files each time, because modification times can be wrong. A file that cannot be read or is no
/// certificate is reported once, and the former roots stay.
package final class RootsWatch: Service {
    package enum Outcome: Hashable, Sendable {
        case unchanged
        /// Other roots are trusted from now on; the number says how many.
        case replaced(Int)
        /// The former roots stay.
        case refused(JOSEError)
    }

    package let name = "roots"
    private let path: String
    private let verifier: JWSVerifier
    private let interval: Duration
    private let reloads: @Sendable () -> AsyncStream<Int32>
    private let log: Log
    private let metrics: Metrics
    /// What was reported last, so that one fault makes one line.
    private let reported = Mutex<JOSEError?>(nil)

    /// - Parameters:
    ///   - path: The value of `REPRICER_ROOT_CERTIFICATES`.
    ///   - verifier: The verifier whose roots were loaded from there before.
    ///   - interval: The time between two readings.
    ///   - reloads: Each element makes it read at once; in the service it is SIGHUP.
    package init(
        path: String, verifier: JWSVerifier, interval: Duration = .seconds(5),
        reloads: @escaping @Sendable () -> AsyncStream<Int32>, log: Log, metrics: Metrics
    ) {
        self.path = path
        self.verifier = verifier
        self.interval = interval
        self.reloads = reloads
        self.log = log
        self.metrics = metrics
        metrics.declareGauge(
            "repricer_roots_stale", "1 while the files of the trusted roots are unusable.")
        metrics.set("repricer_roots_stale", to: 0)
        metrics.declareGauge(
            "repricer_certificate_expiry_timestamp_seconds",
            "When a certificate of the signing chain ends, in seconds since 1970.")
        metrics.onRender { [verifier] metrics in
            metrics.set(
                "repricer_certificate_expiry_timestamp_seconds",
                toAll: verifier.expiries.map { (["certificate": $0.key], Double($0.value)) })
        }
    }

    package func run() async throws {
        try await keepReading(every: interval, and: reloads) { [self] in reload() }
    }

    /// Reads the roots once and trusts them if they are others.
    @discardableResult
    package func reload() -> Outcome {
        // Only one read runs at a time, because an older one must not replace a newer one.
        reported.withLock { reported in
            do throws(JOSEError) {
                let roots = try TrustedRoots(certificatesIn: path)
                let isOther = try verifier.replaceRoots(roots)
                if reported != nil { log.notice("root certificates are readable again") }
                reported = nil
                metrics.set("repricer_roots_stale", to: 0)
                guard isOther else { return .unchanged }
                log.notice(
                    "root certificates replaced", ["path": path, "roots": "\(roots.count)"])
                return .replaced(roots.count)
            } catch {
                if reported != error {
                    log.error(
                        "root certificates unusable; those from before stay",
                        ["code": error.code.rawValue, "why": error.detail])
                }
                reported = error
                metrics.set("repricer_roots_stale", to: 1)
                return .refused(error)
            }
        }
    }
}
