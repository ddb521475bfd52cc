import Postgres
import ServiceKit

extension Commands {
    private static let statusBatch = Positional(
        "BATCH", BatchFinder.meaning, isRequired: false, noun: .batches)
    private static let watch = Flag("watch", "keep looking until every change is final")

    /// Real time between two reads. It is chosen for a person who watches, not for the pace of the service.
    private static let readEvery: Duration = .seconds(1)

    static let status = Command(
        "status", "count changes by state; quota left; forecast end", positionals: [statusBatch],
        options: [watch],
        discussion: """
            With --watch a terminal shows bars, states and what stands still; elsewhere a line (with --json an object) is printed when \
            something has changed.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let clock = try await configuration.makeClock(dependencies: invocation.dependencies)
        let silentAfter = configuration.silentAfter ?? .seconds(86_400)
        let named = invocation.arguments[statusBatch]
        return try await invocation.withPool(configuration) { pool in
            let rate = try await configuration.completed(by: pool).changePriceRate
            let id = try await BatchFinder.find(named, pool: pool)?.batchID
            // It is not forecast for `--watch`, because for a million rows that takes a second.
            let forecastRate = invocation.arguments[watch] ? nil : rate
            let read: @Sendable () async throws -> StatusText = {
                let now = clock.nowMilliseconds()
                return StatusText(
                    facts: try await StatusFacts.read(
                        batchID: id, now: now, silentAfter: silentAfter, rate: forecastRate,
                        pool: pool),
                    now: now, changePricePerSecond: rate?.perSecond ?? 50)
            }
            let last =
                invocation.arguments[watch]
                ? try await watched(invocation, read) : try await read()
            guard let last else { return .interrupted }
            if !invocation.arguments[watch] {
                try invocation.print(json: last.json, last.text)
            } else if !invocation.isJSON {
                // `--watch` ends by itself, so it uses no pager that would wait for a key. With --json each state was
                // already printed.
                try invocation.print(last.text)
            }
            return .done
        }
    }

    /// Reads again and again. Returns nil when a signal ended it.
    private static func watched(
        _ invocation: Invocation, _ read: @escaping @Sendable () async throws -> StatusText
    ) async throws -> StatusText? {
        try await withThrowingTaskGroup(of: StatusText?.self) { group in
            let signals = invocation.dependencies.terminations()
            group.addTask { try await watchUntilFinal(invocation, read) }
            group.addTask {
                for await _ in signals { return nil }
                // It is cancelled because the other task is done, whose result is taken already.
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }

    private static func watchUntilFinal(
        _ invocation: Invocation, _ read: @Sendable () async throws -> StatusText
    ) async throws -> StatusText? {
        let bar = invocation.progressBar
        defer { bar.clear() }
        var before: StatusFacts.Standing?
        while true {
            let status = try await read()
            let facts = status.facts
            bar.draw { status.live(columns: $0) }
            let hasChanged = before != facts.standing
            if invocation.isJSON && (hasChanged || facts.isFinal) {
                try invocation.print(json: status.json, "")
            } else if hasChanged && !invocation.dependencies.isMessagesTerminal {
                invocation.note(progressNote(status))
            }
            if facts.isFinal { return status }
            before = facts.standing
            try await Task.sleep(for: readEvery)
        }
    }

    private static func progressNote(_ status: StatusText) -> String {
        let facts = status.facts
        let states = facts.statesInOrder.map { "\($1) \($0)" }.joined(separator: ", ")
        let alerts = status.alerts.map { "; \($0.0): \(harmless($0.1))" }.joined()
        return
            "\(facts.deliveredCount) of \(facts.rowCount) delivered, \(facts.finalCount) final; \(states)\(alerts)"
    }
}
