package import JOSE
package import ServiceKit
internal import Synchronization

/// Why a responder gave no usable answer.
package struct ResponderError: Error, Hashable, Sendable {
    package var reason: String

    package init(_ reason: String) {
        self.reason = reason
    }
}

/// Posts an OCSP request to a URL and returns the body of the answer.
package typealias ResponderCall =
    @Sendable (_ url: String, _ request: [UInt8]) async throws(ResponderError) -> [UInt8]

/// Asks for each certificate of the chains in use whether it is revoked, apart from the handling of requests.
///
/// It is lenient: if a responder cannot be reached or does not know, only a log line and a metric show it. Only a
/// signed "revoked" makes the verifier refuse the chain, whatever the dates of its payloads. A later signed "good" ends
/// that. Answers are valid until their nextUpdate. It asks only about certificates that led to a root of ours, so no
/// one else can choose the URL.
package final class RevocationWatch: Service {
    private struct Entry {
        var question: RevocationQuestion
        var dueAt: Int64
        var failures = 0
        var isRevoked = false
    }

    private static let entriesMax = 256
    /// The least time between two questions about one certificate, in milliseconds, whatever its answer says.
    private static let pauseMin: Int64 = 60_000
    /// The wait after an answer without nextUpdate, and the longest one after a failure.
    private static let pauseUsual: Int64 = 3_600_000

    package let name = "revocation"
    private let verifier: JWSVerifier
    private let call: ResponderCall
    private let clock: any WallClock
    private let interval: Duration
    private let log: Log
    private let metrics: Metrics
    private let entries = Mutex<[String: Entry]>([:])

    /// - Parameters:
    ///   - verifier: It refuses what is revoked.
    ///   - call: It must limit its own time and the size of the answer.
    ///   - clock: Real time, because responders know no other.
    ///   - interval: The time between two checks of the chains in use.
    package init(
        verifier: JWSVerifier, call: @escaping ResponderCall, clock: any WallClock,
        interval: Duration = .seconds(5), log: Log, metrics: Metrics
    ) {
        self.verifier = verifier
        self.call = call
        self.clock = clock
        self.interval = interval
        self.log = log
        self.metrics = metrics
        metrics.declareCounter(
            "repricer_ocsp_checks_total", "Questions to responders, by outcome.",
            labels: ["outcome": ["good", "revoked", "unknown", "unanswered"]])
        metrics.declareGauge(
            "repricer_certificates_revoked", "Certificates that are refused as revoked.")
        metrics.set("repricer_certificates_revoked", to: 0)
    }

    package func run() async throws {
        while true {
            await check()
            try await Task.sleep(for: interval)
        }
    }

    /// Asks about everything that is due, one after the other.
    package func check() async {
        for question in due(now: clock.nowMilliseconds()) {
            guard !Task.isCancelled else { return }
            settle(question, await answer(question))
        }
    }

    /// The questions that are due: about new certificates at once, and about known ones when their answer has
    /// expired. Certificates whose chains are forgotten are dropped, except revoked ones, whose chains are only out
    /// of use because they are refused.
    private func due(now: Int64) -> [RevocationQuestion] {
        let questions = verifier.revocationQuestions
        let inUse = Set(questions.map(\.id))
        return entries.withLock { entries in
            entries = entries.filter { $0.value.isRevoked || inUse.contains($0.key) }
            for question in questions
            where entries[question.id] == nil && entries.count < Self.entriesMax {
                entries[question.id] = Entry(question: question, dueAt: now)
            }
            return entries.values.filter { $0.dueAt <= now }.map(\.question)
        }
    }

    private func answer(
        _ question: RevocationQuestion
    ) async -> Result<RevocationVerdict, ResponderError> {
        do throws(JOSEError) {
            let request = try question.request()
            let bytes: [UInt8]
            do throws(ResponderError) {
                bytes = try await call(question.responder, request)
            } catch {
                return .failure(error)
            }
            return .success(try question.verdict(answer: bytes, now: clock.nowMilliseconds()))
        } catch {
            return .failure(ResponderError(error.detail))
        }
    }

    private func settle(
        _ question: RevocationQuestion, _ result: Result<RevocationVerdict, ResponderError>
    ) {
        let fields: KeyValuePairs = [
            "certificate": String(question.id.prefix(16)), "responder": question.responder,
        ]
        let outcome: String
        switch result {
        case .success(let verdict):
            outcome = verdict.state.rawValue
            switch verdict.state {
            case .good: setRevoked(false, question)
            case .revoked:
                log.error("certificate revoked; its chains are refused", fields)
                setRevoked(true, question)
            case .unknown: log.warning("certificate unknown to its responder; accepted", fields)
            }
        case .failure(let error):
            outcome = "unanswered"
            log.warning(
                "revocation unanswered; accepted",
                [
                    "certificate": String(question.id.prefix(16)),
                    "responder": question.responder, "why": error.reason,
                ])
        }
        metrics.increment("repricer_ocsp_checks_total", labels: ["outcome": outcome])
        schedule(question, result, now: clock.nowMilliseconds())
    }

    private func setRevoked(_ isRevoked: Bool, _ question: RevocationQuestion) {
        verifier.setRevoked(isRevoked, question)
        let count = entries.withLock { entries in
            entries[question.id]?.isRevoked = isRevoked
            return entries.values.count { $0.isRevoked }
        }
        metrics.set("repricer_certificates_revoked", to: Double(count))
    }

    private func schedule(
        _ question: RevocationQuestion, _ result: Result<RevocationVerdict, ResponderError>,
        now: Int64
    ) {
        entries.withLock { entries in
            guard var entry = entries[question.id] else { return }
            switch result {
            case .success(let verdict):
                entry.failures = 0
                entry.dueAt = max(
                    verdict.validUntil ?? now + Self.pauseUsual, now + Self.pauseMin)
            case .failure:
                let pause = Self.pauseMin << Int64(min(entry.failures, 10))
                entry.failures += 1
                entry.dueAt = now + min(pause, Self.pauseUsual)
            }
            entries[question.id] = entry
        }
    }
}
