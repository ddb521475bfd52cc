import Synchronization

/// Commits arrivals that come together in one transaction.
///
/// While one batch commits, the others wait. The one that has waited longest then leads the next batch, with up to
/// `NotificationStore.batchMax` of those that wait. There is no timer: a lone arrival commits at once, and the more
/// come, the larger the batches are.
///
/// While the database does not answer, an arrival waits for at most two deadlines: one behind a hanging batch, and one
/// in the next. The waiting arrivals are limited in number and in bytes.
package actor ArrivalBatcher {
    /// Stores a batch: true where an arrival was new.
    package typealias Commit = @Sendable ([Arrival]) async throws(ArrivalError) -> [Bool]

    package struct Limits: Sendable {
        /// How many arrivals may wait. Further senders are asked to try again.
        package var waitingMax = 1024
        /// How many payload bytes may wait. One arrival is always let in, however large it is.
        package var waitingBytesMax = 64 << 20
        /// How long a batch may take. A batch that takes longer may still become durable. Its senders are asked to try
        /// again, and their arrivals then count as known.
        package var commitDeadline: Duration = .seconds(10)

        package init() {}
    }

    private enum Turn {
        case settled(Result<Bool, ArrivalError>)
        case lead
    }

    private struct Waiting {
        let arrival: Arrival
        let continuation: CheckedContinuation<Turn, Never>
    }

    private let commit: Commit
    private let limits: Limits
    private var waiting: [Waiting] = []
    private var waitingBytes = 0
    private var isCommitting = false

    package init(limits: Limits = Limits(), commit: @escaping Commit) {
        self.limits = limits
        self.commit = commit
    }

    /// The arrivals that wait for the next batch.
    var waitingCount: Int { waiting.count }

    /// Returns once the arrival is durable: true where it was new, false where it was known.
    package func store(_ arrival: Arrival) async throws(ArrivalError) -> Bool {
        if isCommitting {
            let bytes = arrival.storedBytes
            guard waiting.count < limits.waitingMax,
                waiting.isEmpty || waitingBytes + bytes <= limits.waitingBytesMax
            else { throw .unavailable("\(waiting.count) arrivals wait already") }
            let turn = await withCheckedContinuation { continuation in
                waiting.append(Waiting(arrival: arrival, continuation: continuation))
                waitingBytes += bytes
            }
            switch turn {
            case .settled(let result): return try result.get()
            case .lead: break
            }
        }
        isCommitting = true
        return try await lead(arrival).get()
    }

    private func lead(_ arrival: Arrival) async -> Result<Bool, ArrivalError> {
        let fellows = takeWaiting(NotificationStore.batchMax - 1)
        let settled = await commitAll([arrival] + fellows.map(\.arrival))
        for (fellow, result) in zip(fellows, settled.results.dropFirst()) {
            fellow.continuation.resume(returning: .settled(result))
        }
        if settled.didHang {
            // They have waited for the deadline too, and the next batch would hang as well.
            let why = settled.results.last ?? .failure(.unavailable("the database hangs"))
            for late in takeWaiting(waiting.count) {
                late.continuation.resume(returning: .settled(why))
            }
        }
        if let next = takeWaiting(1).first {
            next.continuation.resume(returning: .lead)
        } else {
            isCommitting = false
        }
        return settled.results.first ?? .failure(.unavailable("the batch had no answer"))
    }

    private func takeWaiting(_ count: Int) -> [Waiting] {
        let taken = Array(waiting.prefix(count))
        waiting.removeFirst(taken.count)
        for one in taken { waitingBytes -= one.arrival.storedBytes }
        return taken
    }

    private struct Settled {
        /// One result for each arrival.
        var results: [Result<Bool, ArrivalError>]
        var didHang = false
    }

    /// Commits a batch. Where the cause of a failure may lie in one arrival, the arrivals are tried one by one, so that
    /// a failure affects only its own sender. A disturbed arrival gets one more try, alone or not.
    private func commitAll(_ batch: [Arrival], isLastTry: Bool = false) async -> Settled {
        switch await commitWithinDeadline(batch) {
        case .success(let isNew):
            return Settled(
                results: batch.indices.map { index in
                    index < isNew.count
                        ? .success(isNew[index]) : .failure(.unavailable("the batch was cut short"))
                })
        case .failure(let error):
            guard !isLastTry, error.isWorthAnotherTry(of: batch.count) else {
                return Settled(results: batch.map { _ in .failure(error) })
            }
            var all = Settled(results: [])
            for arrival in batch {
                if all.didHang {
                    all.results.append(.failure(Self.hanging(limits.commitDeadline)))
                    continue
                }
                let one = await commitAll([arrival], isLastTry: true)
                all.results += one.results
                all.didHang = one.didHang
            }
            return all
        case nil:
            let error = Self.hanging(limits.commitDeadline)
            return Settled(results: batch.map { _ in .failure(error) }, didHang: true)
        }
    }

    private static func hanging(_ deadline: Duration) -> ArrivalError {
        .unavailable("the database did not answer within \(deadline)")
    }

    /// The result of a batch; nil where none came within the deadline.
    private typealias Outcome = Result<[Bool], ArrivalError>?

    private func commitWithinDeadline(_ batch: [Arrival]) async -> Outcome {
        // These are tasks of their own: a call of libpq cannot be cancelled, so a group would wait for it. A call
        // that hangs keeps its connection, of which the pool has few.
        await withCheckedContinuation { continuation in
            let race = Race(continuation)
            let timer = Task { [limits] in
                do {
                    try await Task.sleep(for: limits.commitDeadline)
                    race.finish(nil)
                } catch {
                    // It is cancelled because the batch was answered.
                }
            }
            Task { [commit] in
                do throws(ArrivalError) {
                    race.finish(.success(try await commit(batch)))
                } catch {
                    race.finish(.failure(error))
                }
                timer.cancel()
            }
        }
    }

    /// The first of two outcomes counts.
    private final class Race: Sendable {
        private let continuation: Mutex<CheckedContinuation<Outcome, Never>?>

        init(_ continuation: CheckedContinuation<Outcome, Never>) {
            self.continuation = Mutex(continuation)
        }

        func finish(_ outcome: Outcome) {
            let first = continuation.withLock { continuation in
                defer { continuation = nil }
                return continuation
            }
            first?.resume(returning: outcome)
        }
    }
}

extension Arrival {
    /// The size without the headers, which arrivals share.
    fileprivate var storedBytes: Int {
        switch evidence {
        case .whole(let text): text.utf8.count
        case .packed(let bytes, _): bytes.count
        }
    }
}

extension ArrivalError {
    fileprivate func isWorthAnotherTry(of arrivals: Int) -> Bool {
        switch self {
        case .refused: arrivals > 1
        case .disturbed: true
        case .unavailable, .outdated: false
        }
    }
}
