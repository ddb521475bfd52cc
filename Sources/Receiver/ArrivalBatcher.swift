package import Ledger

/// Commits arrivals that come together in one transaction.
///
/// While one batch commits, the others wait; who waited longest then leads the next batch, with up
/// to `NotificationStore.batchMax` of those that wait. No timer: a lone arrival commits at once,
/// and the more come, the larger the batches.
package actor ArrivalBatcher {
    /// Stores a batch: true where an arrival was new.
    package typealias Commit = @Sendable ([Arrival]) async throws(ArrivalError) -> [Bool]

    /// Arrivals that may wait; beyond it the sender is asked to come again.
    package static let waitingMax = 1024

    private enum Turn {
        case settled(Result<Bool, ArrivalError>)
        case lead
    }

    private struct Waiting {
        let arrival: Arrival
        let continuation: CheckedContinuation<Turn, Never>
    }

    private let commit: Commit
    private var waiting: [Waiting] = []
    private var isCommitting = false

    package init(commit: @escaping Commit) {
        self.commit = commit
    }

    /// Arrivals that wait for the next batch.
    var waitingCount: Int { waiting.count }

    /// Returns once the arrival is durable: true when it was new, false when it was known.
    package func store(_ arrival: Arrival) async throws(ArrivalError) -> Bool {
        if isCommitting {
            guard waiting.count < Self.waitingMax else {
                throw .unavailable("\(Self.waitingMax) arrivals wait already")
            }
            let turn = await withCheckedContinuation { continuation in
                waiting.append(Waiting(arrival: arrival, continuation: continuation))
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
        let fellows = Array(waiting.prefix(NotificationStore.batchMax - 1))
        waiting.removeFirst(fellows.count)
        let results = await commitAll([arrival] + fellows.map(\.arrival))
        for (fellow, result) in zip(fellows, results.dropFirst()) {
            fellow.continuation.resume(returning: .settled(result))
        }
        if waiting.isEmpty {
            isCommitting = false
        } else {
            waiting.removeFirst().continuation.resume(returning: .lead)
        }
        return results.first ?? .failure(.unavailable("the batch had no answer"))
    }

    /// One result an arrival. A value that PostgreSQL refuses costs its own arrival only.
    private func commitAll(_ batch: [Arrival]) async -> [Result<Bool, ArrivalError>] {
        do throws(ArrivalError) {
            let isNew = try await commit(batch)
            return batch.indices.map { index in
                index < isNew.count
                    ? .success(isNew[index]) : .failure(.unavailable("the batch was cut short"))
            }
        } catch .refused(let why) {
            guard batch.count > 1 else { return [.failure(.refused(why))] }
            var results: [Result<Bool, ArrivalError>] = []
            for arrival in batch { results += await commitAll([arrival]) }
            return results
        } catch {
            return batch.map { _ in .failure(error) }
        }
    }
}
