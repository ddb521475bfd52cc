import AppStore
package import Facts
import Pricing
package import ServiceKit

/// Reads stored notifications again after an upgrade: those that were not fully understood, and those that the fold
/// quarantined. Those that today's code reads differently go into the inbox again.
///
/// A page is one transaction that holds the locks of its subscriptions, so the service may run meanwhile. A second
/// run finds nothing left to do.
package struct Reprocessor: Sendable {
    /// The notifications of a transaction: at 20 KB each some 4 MB.
    private static let pageSize = 200

    private let pool: DatabasePool
    private let log: Log

    /// The outcomes of the notifications that were read. `requeued`, `corrected`, `unchanged` and `damaged` add up to
    /// `read`.
    package struct Summary: Hashable, Sendable {
        package var read = 0
        /// They wait to be folded again.
        package var requeued = 0
        /// They are understood now, and there is nothing to fold.
        package var corrected = 0
        /// They read as before.
        package var unchanged = 0
        /// They cannot be rebuilt from what is stored.
        package var damaged = 0
        /// Those of a type, subtype or body that is still not known.
        package var stillNotUnderstood = 0
    }

    private struct Page: Sendable {
        var summary: Summary
        var count = 0
        var end: ReprocessQueries.Place?
    }

    private typealias Reader =
        @Sendable (ReprocessQueries.Place?, isolated DatabaseConnection) throws ->
        [ReprocessQueries.Candidate]

    package init(pool: DatabasePool, log: Log) {
        self.pool = pool
        self.log = log
    }

    /// Reads what was received since `since` (UTC milliseconds). With `all` it also reads notifications that were
    /// understood, and folds them again. After each page `reporting` gets the totals so far.
    package func run(
        since: Int64, all: Bool = false, reporting: @Sendable (Summary) -> Void = { _ in }
    ) async throws -> Summary {
        var summary = Summary()
        let limit = Self.pageSize
        let quarantined: Reader = {
            try ReprocessQueries.quarantined(since: since, after: $0, limit: limit, on: $1)
        }
        let others: Reader = {
            all
                ? try ReprocessQueries.all(since: since, after: $0, limit: limit, on: $1)
                : try ReprocessQueries.notUnderstood(since: since, after: $0, limit: limit, on: $1)
        }
        for reader in [quarantined, others] {
            var place: ReprocessQueries.Place?
            var isAtEnd = false
            while !isAtEnd {
                try Task.checkCancellation()
                let page = try await page(after: place, isForced: all, summary, reader)
                summary = page.summary
                reporting(summary)
                place = page.end
                isAtEnd = page.count < limit
            }
        }
        return summary
    }

    private func page(
        after place: ReprocessQueries.Place?, isForced: Bool, _ summary: Summary,
        _ reader: @escaping Reader
    ) async throws -> Page {
        let log = log
        return try await pool.withTransaction { connection in
            let candidates = try reader(place, connection)
            var page = Page(
                summary: summary, count: candidates.count, end: candidates.last?.place)
            let items = candidates.map { Item($0) }
            let subscriptions = Set(items.flatMap { $0.subscriptions(isForced: isForced) }).sorted()
            try SubscriptionQueries.create(subscriptions, on: connection)
            try SubscriptionQueries.lock(subscriptions, on: connection)
            try withdraw(items, isForced: isForced, on: connection)
            var statements: [DatabaseStatement] = []
            for item in items {
                if item.verdict(isForced: isForced) == .damaged {
                    log.error(
                        "evidence can't be rebuilt",
                        ["notification": item.candidate.stored.notificationUUID])
                }
                statements += item.statements(isForced: isForced)
                page.summary.add(item, isForced: isForced)
            }
            if !statements.isEmpty { _ = try connection.pipeline(statements) }
            // The subscriptions that they were about before have lost a statement.
            let former = items.compactMap { $0.formerSubscription(isForced: isForced) }
            for ids in Bucket.groups(Set(former).sorted(), of: \.self) {
                try SubscriptionFolder.foldAnew(ids, isReread: true, on: connection)
            }
            return page
        }
    }
}

/// Deletes the statements of notifications from which today's code reads none, and folds their subscriptions without
/// them.
private func withdraw(
    _ items: [Item], isForced: Bool, on connection: isolated DatabaseConnection
) throws {
    let idle = items.filter { $0.verdict(isForced: isForced) == .corrected && !$0.isWork }
    for items in Bucket.groups(idle, of: { $0.candidate.stored.originalTransactionID ?? "" }) {
        let ids = Set(items.compactMap(\.candidate.stored.originalTransactionID)).sorted()
        guard !ids.isEmpty else { continue }
        let uuids = items.map(\.candidate.stored.notificationUUID)
        _ = try connection.pipeline(uuids.map { ReprocessQueries.takeOut($0, of: ids) })
        let forgotten = try connection.query(EventQueries.forgetting(ids, uuids: uuids))
            .map { try $0.text("original_transaction_id") }
        if !forgotten.isEmpty {
            try SubscriptionFolder.foldAnew(forgotten, isReread: true, on: connection)
        }
    }
}

/// One notification, as it was kept and as today's code reads it.
private struct Item {
    enum Verdict {
        case requeued, corrected, unchanged, damaged
    }

    let candidate: ReprocessQueries.Candidate
    /// What today's code reads; nil where it cannot be rebuilt, or reads as another notification.
    let reading: ReprocessQueries.Reading?
    let isWork: Bool

    init(_ candidate: ReprocessQueries.Candidate) {
        self.candidate = candidate
        let today = Self.legacy(candidate.stored) ?? Self.signed(candidate.stored)
        reading = today?.reading
        isWork = today?.isWork ?? false
    }

    private typealias Today = (reading: ReprocessQueries.Reading, isWork: Bool)

    private static func signed(_ stored: EvidenceQueries.Stored) -> Today? {
        let receivedAt = Instant(milliseconds: stored.receivedAt)
        // `repricer evidence` shows why it cannot be rebuilt.
        guard let today = try? stored.evidence.decoded(receivedAt: receivedAt),
            today.notificationUUID == stored.notificationUUID
        else { return nil }
        let reading = ReprocessQueries.Reading(
            signedAtMilliseconds: today.signedAt.milliseconds, type: today.type,
            subtype: today.subtype, originalTransactionID: today.originalTransactionID,
            understood: today.understood, unknown: today.unknown.map(\.description))
        return (reading, today.isWork)
    }

    /// What today's code reads of a V1 notification; nil for any other.
    private static func legacy(_ stored: EvidenceQueries.Stored) -> Today? {
        guard stored.notificationUUID.hasPrefix(LegacyNotification.idPrefix),
            case .whole(let text) = stored.evidence,
            // A body that does not parse as a V1 notification any more is treated as a signed one, and fails there.
            let today = try? LegacyNotification(Array(text.utf8))
        else { return nil }
        let event = LegacyNotification.storedEvent(
            text, id: stored.notificationUUID,
            receivedAt: Instant(milliseconds: stored.receivedAt))
        let reading = ReprocessQueries.Reading(
            signedAtMilliseconds: event?.key.signedAt.milliseconds, type: today.type, subtype: nil,
            originalTransactionID: today.originalTransactionID, understood: today.kind != nil,
            unknown: today.unknown.map(\.description))
        return (reading, event != nil)
    }

    func verdict(isForced: Bool) -> Verdict {
        guard let reading else { return .damaged }
        let isOther = isOther(reading)
        if isWork, reading.originalTransactionID != nil,
            isForced || isOther || candidate.error != nil
        {
            return .requeued
        }
        return isOther ? .corrected : .unchanged
    }

    /// Whether it reads differently today. The time of signing is left out, because the time of receiving replaces it
    /// where it is missing.
    private func isOther(_ reading: ReprocessQueries.Reading) -> Bool {
        let stored = candidate.stored
        return reading.type != stored.type || reading.subtype != stored.subtype
            || reading.originalTransactionID != stored.originalTransactionID
            || reading.understood != stored.understood || reading.unknown != candidate.unknown
    }

    /// The subscriptions that must be locked.
    func subscriptions(isForced: Bool) -> [String] {
        switch verdict(isForced: isForced) {
        case .requeued:
            [candidate.stored.originalTransactionID, reading?.originalTransactionID]
                .compactMap { $0 }
        // If it is no longer a statement, its subscription is folded without it.
        case .corrected: isWork ? [] : [candidate.stored.originalTransactionID].compactMap { $0 }
        case .unchanged, .damaged: []
        }
    }

    /// The subscription that it was about before; nil where it is still about the same one, or is not put back.
    func formerSubscription(isForced: Bool) -> String? {
        guard verdict(isForced: isForced) == .requeued,
            let former = candidate.stored.originalTransactionID,
            former != reading?.originalTransactionID
        else { return nil }
        return former
    }

    func statements(isForced: Bool) -> [DatabaseStatement] {
        guard let reading else { return [] }
        var statements: [DatabaseStatement] = []
        if isOther(reading) { statements.append(ReprocessQueries.correct(candidate, reading)) }
        switch verdict(isForced: isForced) {
        case .requeued:
            guard let id = reading.originalTransactionID else { break }
            statements += ReprocessQueries.requeue(
                candidate, under: id, signedAtMilliseconds: reading.signedAtMilliseconds)
        case .corrected, .unchanged, .damaged: break
        }
        return statements
    }
}

extension Reprocessor.Summary {
    fileprivate mutating func add(_ item: Item, isForced: Bool) {
        read += 1
        switch item.verdict(isForced: isForced) {
        case .requeued: requeued += 1
        case .corrected: corrected += 1
        case .unchanged: unchanged += 1
        case .damaged: damaged += 1
        }
        if item.reading?.understood == false { stillNotUnderstood += 1 }
    }
}
