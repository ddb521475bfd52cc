/// A part of the program that runs until it is cancelled.
package protocol Service: Sendable {
    /// The name, short and unique in its group. It appears in logs.
    var name: String { get }
    /// Whether it is cancelled at once, together with all others like it, before the services that are stopped in turn.
    /// Its own shutdown must then not depend on how long theirs takes.
    var stopsAtOnce: Bool { get }
    /// Runs until its task is cancelled. Returns soon afterwards, once everything that it began is finished.
    func run() async throws
}

extension Service {
    package var stopsAtOnce: Bool { false }
}

/// How a group ended, other than by an error of one of its services.
package enum ServiceGroupError: Error, Equatable, CustomStringConvertible {
    /// A service returned although nobody had asked it to stop.
    case endedUnexpectedly(service: String)
    /// These services ignored their cancellation until the deadline, and may still be running.
    case stopDeadlineExceeded(services: [String])

    package var description: String {
        switch self {
        case .endedUnexpectedly(let service):
            "service \(service) ended although it was not asked to stop"
        case .stopDeadlineExceeded(let services):
            "did not stop in time: \(services.joined(separator: ", "))"
        }
    }
}

/// Runs services together. It starts them in order, and one failure stops all. Services with `stopsAtOnce` are
/// cancelled together at once. The others are cancelled in reverse order, each once the one before has ended.
package struct ServiceGroup: Sendable {
    private let services: [any Service]
    private let log: Log
    private let stopDeadline: Duration

    /// The least time that each service has to end, even when the others have used up the common time.
    private static let shortestStop: Duration = .milliseconds(50)

    /// `stopDeadline` counts for all services together, from the moment at which the group is asked to stop.
    package init(_ services: [any Service], log: Log, stopDeadline: Duration = .seconds(9)) {
        self.services = services
        self.log = log
        self.stopDeadline = stopDeadline
    }

    /// Returns when `stop` yields or the calling task is cancelled, once all services have ended.
    ///
    /// Throws the first error of a service, or `ServiceGroupError`.
    package func run(until stop: AsyncStream<Void>) async throws {
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        // The supervisor must outlive a cancellation of the caller: it has services to stop.
        let supervisor = Task {
            try await supervise(stop: stop, events: events, continuation: continuation)
        }
        try await withTaskCancellationHandler {
            try await supervisor.value
        } onCancel: {
            continuation.yield(.stopRequested)
        }
    }

    private enum Event: Sendable {
        case stopRequested
        case ended(index: Int, error: (any Error)?)
        case deadlinePassed(index: Int)
    }

    private struct Progress {
        var running: Set<Int>
        var failure: (any Error)?
        var late: [Int] = []
    }

    private func supervise(
        stop: AsyncStream<Void>, events: AsyncStream<Event>,
        continuation: AsyncStream<Event>.Continuation
    ) async throws {
        let tasks = services.enumerated().map { index, service in
            log.info("service started", ["service": service.name])
            return Task {
                do {
                    try await service.run()
                    continuation.yield(.ended(index: index, error: nil))
                } catch {
                    continuation.yield(.ended(index: index, error: error))
                }
            }
        }
        let watcher = Task {
            // A stream that finishes without an element is no request to stop.
            for await _ in stop { continuation.yield(.stopRequested) }
        }
        defer { watcher.cancel() }

        var iterator = events.makeAsyncIterator()
        var progress = Progress(running: Set(services.indices))
        await waitForReason(&iterator, &progress)
        let deadline = ContinuousClock.now + stopDeadline
        for (service, task) in zip(services, tasks) where service.stopsAtOnce { task.cancel() }
        for (index, task) in tasks.enumerated().reversed() {
            task.cancel()
            await drain(index, until: deadline, &iterator, &progress, continuation)
        }
        if let failure = progress.failure { throw failure }
        if !progress.late.isEmpty {
            throw ServiceGroupError.stopDeadlineExceeded(services: progress.late.map(name(of:)))
        }
    }

    /// Returns at the first stop request, or when a service ends by itself.
    private func waitForReason(
        _ events: inout AsyncStream<Event>.Iterator, _ progress: inout Progress
    ) async {
        if services.isEmpty { return }
        while let event = await events.next() {
            switch event {
            case .stopRequested: return
            case .deadlinePassed: continue
            case .ended(let index, let error):
                progress.running.remove(index)
                let reason =
                    error ?? ServiceGroupError.endedUnexpectedly(service: name(of: index))
                progress.failure = reason
                log.error("service failed", ["service": name(of: index), "error": "\(reason)"])
                return
            }
        }
    }

    /// Waits for one cancelled service, at most until the deadline.
    private func drain(
        _ index: Int, until deadline: ContinuousClock.Instant,
        _ events: inout AsyncStream<Event>.Iterator, _ progress: inout Progress,
        _ continuation: AsyncStream<Event>.Continuation
    ) async {
        let timer = Task {
            let left = max(deadline - ContinuousClock.now, Self.shortestStop)
            // A cancelled sleep means that the service ended in time.
            guard (try? await Task.sleep(for: left)) != nil else { return }
            continuation.yield(.deadlinePassed(index: index))
        }
        defer { timer.cancel() }
        while progress.running.contains(index), let event = await events.next() {
            switch event {
            case .stopRequested: continue
            case .ended(let ended, let error):
                progress.running.remove(ended)
                log.info("service stopped", ["service": name(of: ended)])
                guard let error, !(error is CancellationError) else { continue }
                log.error("service failed", ["service": name(of: ended), "error": "\(error)"])
                if progress.failure == nil { progress.failure = error }
            case .deadlinePassed(let late) where late == index:
                log.error("service did not stop in time", ["service": name(of: index)])
                progress.late.append(index)
                return
            case .deadlinePassed: continue
            }
        }
    }

    private func name(of index: Int) -> String {
        services.indices.contains(index) ? services[index].name : "?"
    }
}
