import Batches
import Calls
import Facts
import Postgres
import Pricing
import ServiceKit

/// What the answer of one check means: a status to fold, an end without one, or another try.
enum StatusCheckVerdict {
    case read([SubscriptionEvent])
    /// `isAboutUs`: the answer says that our key, or our route to the App Store, is wrong. If only one subscription
    /// gets it, it is an exception.
    case ended(StatusCheckQueries.Outcome, detail: String, isAboutUs: Bool = false)
    /// No usable answer came.
    case unanswered(String)
    case throttled

    /// How often a check is tried after an unreadable answer, or a "not found" that Apple calls temporary, because
    /// these may come for ever.
    private static let oddAnswersMax = 3
    /// How long before its answer was made a status of a recovery may have been signed, in milliseconds. The lost calls
    /// have ended before statuses are read, but a status that was signed earlier and cached may not include them; no
    /// page says that Apple signs each answer anew. Both instants are by the App Store's clock, because ours may be
    /// wrong.
    private static let ageMax: Int64 = 60_000

    /// What the answer to a check of this subscription, in a list of this reason, means.
    init(
        _ answer: StoreAnswer, of id: String, for reason: StatusCheckQueries.Reason, attempts: Int
    ) {
        let isLast = attempts + 1 >= Self.oddAnswersMax
        switch answer {
        case .answered(let words, _) where words.statements.isEmpty:
            self = .ended(.notFound, detail: "no_subscription: no subscription of this app")
        case .answered(let words, let reply):
            guard reason == .recover, let stale = Self.stale(words.statements, of: id, reply.leftAt)
            else {
                self = .read(words.statements)
                return
            }
            self = isLast ? .ended(.unreadable, detail: stale) : .unanswered(stale)
        case .throttled: self = .throttled
        case .refused(let refusal, _):
            let text = "\(refusal.code) \(refusal.name): \(refusal.message)"
            switch refusal.meaning {
            case .haltService: self = .ended(.refused, detail: text, isAboutUs: true)
            case .reject, .suspect, .checkStatus, .refresh, .haltBatch, .haltStorefront:
                self = .ended(refusal.code / 10_000 == 404 ? .notFound : .refused, detail: text)
            }
        case .notSent(let reason): self = .unanswered(reason)
        case .unknown(let reason, let reply):
            switch reply.httpStatus {
            case .some(200...299) where isLast: self = .ended(.unreadable, detail: reason)
            case .some(404) where isLast: self = .ended(.notFound, detail: reason)
            case .some, .none: self = .unanswered(reason)
            }
        }
    }
}

extension StatusCheckVerdict {
    /// The complaint that the statements of this subscription were signed long before the answer was made; nil where
    /// they were not, or where that is not known.
    private static func stale(
        _ events: [SubscriptionEvent], of id: String, _ leftAt: Instant?
    ) -> String? {
        let own = events.filter { $0.originalTransactionID == id }.map(\.key.signedAt).max()
        guard let own, let leftAt, own.advanced(by: ageMax) < leftAt else { return nil }
        return "signed at \(own.text), long before it was sent at \(leftAt.text)"
    }
}

/// Writes the results of checks: the facts, corrected by the signed status, and the drift.
struct StatusCheckSettlement: Sendable {
    let pool: DatabasePool
    let list: StatusCheckQueries.List
    let realClock: any WallClock

    /// How long a change waits whose status could not be read, in milliseconds of real time: a day.
    private static let unreadWait: Int64 = 86_400_000

    struct Status: Sendable {
        /// The requested id. The statements may also be about the customer's other subscriptions.
        var askedFor: String
        var events: [SubscriptionEvent]

        /// The other subscriptions in the answer, where it says nothing about the requested one; otherwise nil.
        var onlyOthers: String? {
            let ids = Set(events.map(\.originalTransactionID))
            return ids.contains(askedFor) ? nil : ids.sorted().joined(separator: ", ")
        }
    }

    /// Folds statuses bucket by bucket, each bucket in one transaction.
    func settle(
        _ statuses: [Status], at: Int64
    ) async throws -> [StatusCheckQueries.Settled: [DriftLine]] {
        var all: [StatusCheckQueries.Settled: [DriftLine]] = [:]
        for group in Bucket.groups(statuses, of: \.askedFor) {
            all.merge(try await settleGroup(group, at: at)) { $1 }
        }
        return all
    }

    /// Settles the statuses in one transaction, or each in its own where one of them cannot be stored.
    private func settleGroup(
        _ statuses: [Status], at: Int64
    ) async throws -> [StatusCheckQueries.Settled: [DriftLine]] {
        do {
            return try await settleTogether(statuses, at: at)
        } catch  where isDataFault(error) && statuses.count > 1 {
            var all: [StatusCheckQueries.Settled: [DriftLine]] = [:]
            for status in statuses {
                all.merge(try await settle([status], at: at)) { $1 }
            }
            return all
        } catch  where isDataFault(error) {
            guard let status = statuses.first else { return [:] }
            let settled = StatusCheckQueries.Settled(
                status.askedFor, .unreadable, detail: "can't be stored: \(error)")
            try await end([settled], at: at)
            return [settled: []]
        }
    }

    func end(_ settled: [StatusCheckQueries.Settled], at: Int64) async throws {
        guard !settled.isEmpty else { return }
        let list = list
        guard list == .restored || list == .unheard else {
            _ = try await pool.withConnection { connection in
                try await connection.pipeline(StatusCheckQueries.settle(settled, in: list, at: at))
            }
            return
        }
        for group in Bucket.groups(settled, of: \.originalTransactionID) {
            let ids = group.map(\.originalTransactionID).sorted()
            try await pool.withTransaction { connection in
                try SubscriptionQueries.lock(ids, on: connection)
                _ = try connection.pipeline(
                    StatusCheckQueries.settle(group, in: list, at: at)
                        + wakeUps(group, read: []))
            }
        }
    }

    /// The statements for the changes that wait for these statuses, all of one bucket.
    private func wakeUps(
        _ settled: [StatusCheckQueries.Settled], read ids: Set<String>
    ) -> [DatabaseStatement] {
        guard !settled.isEmpty else { return [] }
        let asked = settled.map(\.originalTransactionID).sorted()
        if list == .unheard { return [OpenChangeQueries.endUnheardWait(asked)] }
        guard list == .restored else { return [] }
        let (read, unread) = (asked.filter(ids.contains), asked.filter { !ids.contains($0) })
        let until = realClock.nowMilliseconds() + Self.unreadWait
        return (read.isEmpty ? [] : [OpenChangeQueries.endStatusWait(read)])
            + (unread.isEmpty ? [] : [OpenChangeQueries.parkUnread(unread, until: until)])
    }

    private func settleTogether(
        _ statuses: [Status], at: Int64
    ) async throws -> [StatusCheckQueries.Settled: [DriftLine]] {
        let list = list
        return try await pool.withTransaction { connection in
            let events = statuses.flatMap(\.events)
            let ids = Set(events.map(\.originalTransactionID)).sorted()
            try SubscriptionQueries.create(ids, on: connection)
            try SubscriptionQueries.lock(ids, on: connection)
            let before = try SubscriptionQueries.load(ids, on: connection)
            // A difference that a waiting notification explains is no drift: it has arrived and is only not folded yet.
            let waiting = try StatusCheckQueries.withUnfolded(ids, on: connection)
            try SubscriptionFolder.fold(events, on: connection)
            let after = try SubscriptionQueries.load(ids, on: connection)
            var settled: [StatusCheckQueries.Settled: [DriftLine]] = [:]
            for status in statuses {
                let lines = Set(status.events.map(\.originalTransactionID)).sorted()
                    .compactMap { id -> DriftLine? in
                        guard let ours = before[id], ours.foldedThrough != nil,
                            !waiting.contains(id), let apples = after[id]
                        else { return nil }
                        let drifts = Drift.between(ours.facts, apples.facts)
                        return drifts.isEmpty
                            ? nil : DriftLine(originalTransactionID: id, drifts: drifts)
                    }
                // A person's list may have transaction ids, whose answers are about their original transaction. A
                // recovery needs the state of each subscription itself, and no call of it is sent before that is known.
                let others = status.onlyOthers
                let outcome = lines.isEmpty ? StatusCheckQueries.Outcome.read : .drifted
                settled[
                    StatusCheckQueries.Settled(
                        status.askedFor,
                        others != nil && list.reason == .recover ? .notFound : outcome,
                        detail: others.map { "told only of \($0)" })] = lines
            }
            let all = Array(settled.keys)
            let read = all.filter { $0.outcome == .read || $0.outcome == .drifted }
            _ = try connection.pipeline(
                StatusCheckQueries.settle(all, in: list, at: at)
                    + wakeUps(all, read: Set(read.map(\.originalTransactionID))))
            return settled
        }
    }
}
