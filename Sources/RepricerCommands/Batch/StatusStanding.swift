import Batches
import Facts

extension StatusFacts {
    /// The part of the status whose change makes `--watch` print another line: the states, and what is paused or
    /// halted. It leaves out counts of due rows, answers of probes and the instants of the next ones, which change by
    /// themselves.
    struct Standing: Sendable, Equatable {
        fileprivate var states: [String: Int64]
        fileprivate var stops: Set<String>
    }

    var standing: Standing {
        Standing(states: states, stops: Set(stopsOfAll + stopsOfBatches + troubles))
    }

    private var stopsOfAll: [String] {
        let whole = [
            everything.isPaused ? "paused since \(everything.pausedAt ?? 0)" : nil,
            everything.haltedAt.map { "halted since \($0)" },
            everything.heldSince.map { _ in everything.heldIsAll ? "blocked" : "held" },
            everything.catchUpSince.map { _ in "catching up" },
            undelivered.map { _ in "nobody delivers" },
        ].compactMap { $0 }
        return whole + everything.haltedKinds.map { "\($0.kind) halted since \($0.at)" }
            + everything.throttledKinds.map { "\($0.kind) throttled since \($0.since)" }
            + everything.unreachedKinds.map { "\($0.kind) unreachable since \($0.since)" }
    }

    private var stopsOfBatches: [String] {
        (batch.map { [$0] } ?? batches).filter(\.isPaused).map {
            "\($0.batchID) stopped by \($0.haltedBy ?? "") since \($0.pausedAt ?? 0), \($0.alsoPausedAt ?? 0)"
        }
            + haltedStorefronts.map { "\($0.batchName) \($0.storefront) halted since \($0.at)" }
            + waitingWaves.map { "\($0.batchID) wave \($0.number) waits for \($0.waitsFor)" }
    }

    private var troubles: [String] {
        let trouble = outlook.trouble
        return [
            ("moved", trouble.moved), ("overdue", trouble.overdue), ("parked", trouble.parked),
            ("drifted", trouble.drifted), ("missed", trouble.missed),
        ].filter { $0.1 > 0 }.map(\.0)
    }
}
