import Postgres
import ServiceKit

extension Commands {
    private static let statusBatch = Positional(
        "BATCH", "the batch's id or its name", isRequired: false)
    private static let watch = Flag("watch", "keep looking until every change is final")

    /// Real time between two looks: a person's eye, not the service's pace.
    private static let lookEvery: Duration = .seconds(1)

    static let status = Command(
        "status", "count changes by state; quota left; forecast end", positionals: [statusBatch],
        options: [watch],
        discussion: """
            With --watch a terminal shows a progress bar; elsewhere a line (with --json an object) is printed when \
            something has changed.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let clock = try await configuration.makeClock(world: invocation.world)
        let perSecond = configuration.changePriceRate?.perSecond ?? 50
        let silentAfter = configuration.silentAfter ?? .seconds(86_400)
        let named = invocation.arguments[statusBatch]
        return try await invocation.withPool(configuration) { pool in
            var batchID: String?
            if let named { batchID = try await BatchFinder.find(named, pool: pool).batchID }
            let id = batchID
            let look: @Sendable () async throws -> StatusText = {
                let now = clock.nowMilliseconds()
                return StatusText(
                    facts: try await StatusFacts.read(
                        batchID: id, now: now, silentAfter: silentAfter, pool: pool),
                    now: now, changePricePerSecond: perSecond)
            }
            let last =
                invocation.arguments[watch]
                ? try await watched(invocation, look) : try await look()
            guard let last else { return .interrupted }
            if invocation.isJSON {
                if !invocation.arguments[watch] { try invocation.print(last.json) }
            } else {
                try invocation.print(last.text)
            }
            return .done
        }
    }

    /// Looks again and again; nil when a signal ended it.
    private static func watched(
        _ invocation: Invocation, _ look: @escaping @Sendable () async throws -> StatusText
    ) async throws -> StatusText? {
        try await withThrowingTaskGroup(of: StatusText?.self) { group in
            let signals = invocation.world.terminations()
            group.addTask { try await watchUntilFinal(invocation, look) }
            group.addTask {
                for await _ in signals { return nil }
                // Cancelled because the other task is done; its result is taken already.
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }

    private static func watchUntilFinal(
        _ invocation: Invocation, _ look: @Sendable () async throws -> StatusText
    ) async throws -> StatusText? {
        let bar = ProgressBar(world: invocation.world, isQuiet: invocation.isQuiet)
        defer { bar.clear() }
        var before: StatusFacts?
        while true {
            let status = try await look()
            let facts = status.facts
            let note = "\(facts.finalCount) of \(facts.rowCount) final"
            bar.draw(done: facts.finalCount, total: facts.rowCount, note: progressNote(facts))
            let hasChanged = before?.states != facts.states
            if invocation.isJSON && (hasChanged || facts.isFinal) {
                try invocation.print(status.json)
            } else if hasChanged && !invocation.world.isMessagesTerminal {
                invocation.note("\(note); \(progressNote(facts))")
            }
            if facts.isFinal { return status }
            before = facts
            try await Task.sleep(for: lookEvery)
        }
    }

    private static func progressNote(_ facts: StatusFacts) -> String {
        facts.statesInOrder.map { "\($0.rows) \($0.state)" }.joined(separator: ", ")
    }
}
