import Batches
package import Calls
import Facts
import Pricing
import ServiceKit

/// Redates unsent changes where an extension moved their renewal: `send_by`, the effective date, and how long they
/// wait. The fold redates sent changes, because the App Store decides their date.
package struct Redater: Sendable {
    let engine: CallEngine
    private let rules = RuleCache()

    private static let perRound = 200

    package init(engine: CallEngine) { self.engine = engine }

    package func round() async throws -> Int {
        let limit = Self.perRound
        let (now, environment) = (engine.now, engine.environment)
        let rules = rules
        return try await engine.pool.withTransaction { connection in
            guard let bucket = try RedatingQueries.nextBucket(on: connection) else { return 0 }
            let ids = try RedatingQueries.take(bucket: bucket, limit: limit, on: connection)
            guard !ids.isEmpty else { return 0 }
            let open = try connection.ask(OpenChangeQueries.openChanges(ids))
            let carriers = try open.values.carriers(on: connection)
            let (stored, _) = try SubscriptionQueries.loadReadable(ids, on: connection)
            let tokens = Set(stored.values.compactMap(\.facts.appAccountToken)).sorted()
            let siblings = try SubscriptionQueries.renewingSKUs(ofCustomers: tokens, on: connection)
            let imported = try connection.ask(ImportedIncreaseQueries.increases(of: ids))
            let judge = Judge(
                rules: try rules.course(from: now, on: connection),
                environment: environment, now: now)
            let waiting = open.values.flatMap(\.changes).filter { $0.waitsForWave != nil }
            let releases = try WaveReleaseQueries.releases(
                of: waiting.map(\.batchID), now: now, on: connection)
            var statements: [DatabaseStatement] = []
            for id in ids {
                guard let found = open[id], let subscription = stored[id] else { continue }
                let context = found.context(of: subscription, imported[id], siblings, carriers)
                for change in found.changes where change.state.isUnsent {
                    guard change.undoes == nil else {
                        statements += Self.moveAlong(change, among: found.changes)
                        continue
                    }
                    statements += Self.redate(
                        change,
                        judge.calling(from: change.release(of: releases) ?? now).planAnew(
                            StoredChange(change), facts: subscription.facts, context: context),
                        now: now)
                }
            }
            if !statements.isEmpty { _ = try connection.pipeline(statements) }
            return ids.count
        }
    }

    /// Moves an undo. It keeps its distance to the renewal of the change that it undoes, which the fold has moved.
    private static func moveAlong(
        _ undo: OpenChangeQueries.OpenChange, among changes: [OpenChangeQueries.OpenChange]
    ) -> [DatabaseStatement] {
        guard let undone = changes.first(where: { $0.changeID == undo.undoes }),
            undone.dueEffectiveAt != undo.dueEffectiveAt
        else { return [] }
        let lead = undo.dueEffectiveAt.milliseconds - undo.sendBy.milliseconds
        return [
            RedatingQueries.redate(
                undo.originalTransactionID, undo.changeID, sendAfter: nil,
                sendBy: undone.dueEffectiveAt.advanced(by: -lead),
                effectiveAt: undone.dueEffectiveAt)
        ]
    }

    /// Redates a change. A change that could not be sent as it is stays unchanged, and is judged when it is due.
    private static func redate(
        _ change: OpenChangeQueries.OpenChange, _ plan: PlanRow, now: Instant
    ) -> [DatabaseStatement] {
        guard plan.fault == nil, let sendBy = plan.sendBy, let effectiveAt = plan.effectiveAt
        else { return [] }
        let id = change.originalTransactionID
        let move = RedatingQueries.redate(
            id, change.changeID, sendAfter: plan.sendAfter, sendBy: sendBy,
            effectiveAt: effectiveAt)
        guard effectiveAt != change.dueEffectiveAt else { return [move] }
        return [
            move,
            OpenChangeQueries.history(
                id, [change.changeID], change.state, at: now.milliseconds, kind: "judgement",
                evidenceID: "at \(now.text)",
                reason: "renewal_extended: moved from the renewal of "
                    + "\(change.dueEffectiveAt.text) to \(effectiveAt.text), to be sent by "
                    + "\(sendBy.text)"),
        ]
    }
}

extension ChangeState {
    /// Whether no call was made for it yet and one may be made.
    fileprivate var isUnsent: Bool { self == .awaitingApproval || self == .queued }
}

extension OpenChangeQueries.OpenChange {
    /// The earliest release of the wave that it waits for; nil where it waits for none.
    fileprivate func release(of releases: [WaveReleaseQueries.Place: Instant]) -> Instant? {
        waitsForWave.flatMap { releases[.init(batchID: batchID, wave: $0)] }
    }
}
