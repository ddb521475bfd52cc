import AppStore
import Calls
import Facts
import Notifications
package import Pricing
package import ServiceKit

/// Reads the App Store's notification history into the inbox: first those that failed to arrive, then all.
///
/// A window of time is read in slices of a day, and a slice in pages of twenty. After each page the database knows
/// how far reading has come, so a process that dies costs one page. Windows and slices overlap, because Apple does
/// not say whether their ends belong to them. What is read twice has no second effect.
package struct HistoryReader: Sendable {
    package struct Limits: Sendable {
        /// The length of a slice. An expired page token costs one slice.
        package var sliceFor: Duration = .seconds(86_400)
        /// The length of a slice of failures, which are few.
        package var failuresSliceFor: Duration = .seconds(30 * 86_400)
        /// How long before the end of the last window the next one begins, because clocks differ and entries come
        /// late.
        package var overlap: Duration = .seconds(3600)
        /// The distance from Apple's limit of days, for the time that a request needs.
        package var edge: Duration = .seconds(3600)
        package var retry = Backoff(first: .milliseconds(500), max: .seconds(10))
        package var attemptsMax = 5
        /// How often one slice may begin again after expired tokens.
        package var restartsMax = 3
        package var pagesPerSliceMax = 50_000

        package init() {}
    }

    let calls: any HistoryCalls
    let intake: any HistoryIntake
    let pool: DatabasePool
    let permitSource: CallPermitSource
    let lease: HeldLease
    let clock: any WallClock
    let environment: StoreEnvironment
    let limits: Limits
    let progress: @Sendable (HistorySummary) -> Void

    /// Reads from `since`, or from the end of the last read, to now. With `through` it must reach only that instant,
    /// and what an earlier process has read counts. `summary` has what was read even where it throws.
    func read(
        since: Instant?, through: Instant? = nil, into summary: inout HistorySummary
    ) async throws {
        let now = clock.nowMilliseconds()
        let position = try await pool.read { try HistoryQueries.load(on: $0) }
        var start = since?.milliseconds ?? Self.start(position, limits.overlap)
        let oldest = oldestStart()
        if start < oldest {
            summary.isCutShort = since != nil || position.readThrough.map { $0 < oldest } ?? false
            start = oldest
        }
        summary.since = Instant(milliseconds: start)
        var readThrough = position.readThrough
        if let through, position.window == nil, let readThrough,
            readThrough >= through.milliseconds
        {
            summary.through = Instant(milliseconds: readThrough)
            return
        }
        if let open = position.window, open.start <= start {
            try await finish(open, readThrough: &readThrough, into: &summary)
            // Another window would start again each time that a process dies in it.
            if let through, open.end >= through.milliseconds { return }
            start = max(start, open.end - limits.overlap.milliseconds)
        }
        guard start < now else { return }
        let window = HistoryQueries.Window(start: start, end: now)
        try await finish(window, readThrough: &readThrough, into: &summary)
    }

    private static func start(_ position: HistoryQueries.Position, _ overlap: Duration) -> Int64 {
        if let open = position.window { return open.start }
        return position.readThrough.map { $0 - overlap.milliseconds } ?? 0
    }

    private func finish(
        _ window: HistoryQueries.Window, readThrough: inout Int64?,
        into summary: inout HistorySummary
    ) async throws {
        var window = window
        while true {
            // A request must stay the same for all its pages, so its start moves only before the first page.
            if window.pageToken == nil { window.sliceStart = max(window.sliceStart, oldestStart()) }
            try await save(window)
            let end = sliceEnd(of: window)
            if window.sliceStart < end { try await readSlice(&window, until: end, into: &summary) }
            window.pageToken = nil
            if end < window.end {
                window.sliceStart = end - 1
            } else if window.pass == .failures {
                window.pass = .everything
                window.sliceStart = window.start
            } else {
                break
            }
        }
        // Apple keeps nothing before the oldest instant, so a window that starts there always joins.
        let joins = window.start <= max(readThrough ?? .min, oldestStart())
        let finished = window
        let isOurs = try await pool.withTransaction { connection in
            try HistoryQueries.finish(
                finished, joins: joins, lease: lease.name, owner: lease.owner, on: connection)
        }
        guard isOurs else { throw ReconcileError.leaseLost }
        if joins { readThrough = max(readThrough ?? .min, window.end) }
        summary.through = Instant(milliseconds: window.end)
    }

    private func sliceEnd(of window: HistoryQueries.Window) -> Int64 {
        let span =
            switch window.pass {
            case .failures: limits.failuresSliceFor
            case .everything: limits.sliceFor
            }
        return min(window.end, window.sliceStart + span.milliseconds)
    }

    private func save(_ window: HistoryQueries.Window) async throws {
        let isOurs = try await pool.withTransaction { connection in
            try HistoryQueries.save(
                window, lease: lease.name, owner: lease.owner, on: connection)
        }
        guard isOurs else { throw ReconcileError.leaseLost }
    }

    /// Reads the pages of a slice, beginning at its stored token.
    private func readSlice(
        _ window: inout HistoryQueries.Window, until end: Int64, into summary: inout HistorySummary
    ) async throws {
        var restarts = 0
        var sequence = PageSequence(
            resumingAt: window.pageToken, pagesMax: limits.pagesPerSliceMax)
        while true {
            let answer = try await page(
                from: window.sliceStart, until: end, onlyFailures: window.pass == .failures,
                token: window.pageToken)
            guard case .page(let page) = answer else {
                if case .staleStart = answer {
                    // The start moves forward each time, so this ends even if Apple's clock differs.
                    let next = window.sliceStart + limits.edge.milliseconds
                    window.sliceStart = max(next, oldestStart())
                    guard window.sliceStart < end else { return }
                } else {
                    restarts += 1
                    guard restarts <= limits.restartsMax else {
                        throw ReconcileError.brokenAnswer("page tokens expire again and again")
                    }
                }
                summary.restarts += 1
                window.pageToken = nil
                sequence = PageSequence(resumingAt: nil, pagesMax: limits.pagesPerSliceMax)
                try await save(window)
                continue
            }
            try await take(page, into: &summary)
            switch sequence.step(after: page) {
            case .done: return
            case .broken(let why): throw ReconcileError.brokenAnswer(why)
            case .next(let token):
                window.pageToken = token
                try await save(window)
            }
        }
    }

    private enum PageAnswer {
        case page(NotificationHistoryPage)
        /// The token has expired, or belongs to another request.
        case staleToken
        /// The start of the span became too old while it was read.
        case staleStart
    }

    /// Requests one page until it comes.
    private func page(
        from start: Int64, until end: Int64, onlyFailures: Bool, token: String?
    ) async throws -> PageAnswer {
        var failures = 0
        var random = SystemRandomNumberGenerator()
        while true {
            try await permitSource.takeOne()
            let request: NotificationHistoryRequest
            do throws(HistoryRequestFault) {
                request = try NotificationHistoryRequest(
                    startAt: Instant(milliseconds: start), endAt: Instant(milliseconds: end),
                    onlyFailures: onlyFailures, now: Instant(milliseconds: clock.nowMilliseconds()),
                    environment: environment)
            } catch {
                // Its oldest days became too old for Apple while it was read, so the rest starts later.
                if case .startTooFarBack = error { return .staleStart }
                throw ReconcileError.refused("\(error)")
            }
            switch await calls.history(request, paginationToken: token) {
            case .answered(let page, _): return .page(page)
            case .throttled(let until, _): try await permitSource.block(until: until)
            case .refused(let code, let message, _):
                let isStaleToken =
                    token != nil
                    && (code == .paginationTokenExpired || code == .invalidPaginationToken)
                if isStaleToken { return .staleToken }
                if code == .startDateTooFarInPast { return .staleStart }
                guard code.disposition(onRetry: true) == .retrySame else {
                    throw ReconcileError.refused("\(code): \(code.meaning ?? message)")
                }
                failures += 1
                try await backOff(after: failures, "\(code)", &random)
            case .unknown(let reason, _), .notSent(let reason):
                failures += 1
                try await backOff(after: failures, reason, &random)
            }
        }
    }

    private func backOff(
        after failures: Int, _ reason: String, _ random: inout SystemRandomNumberGenerator
    ) async throws {
        guard failures < limits.attemptsMax else { throw ReconcileError.storeAway(reason) }
        try await permitSource.wait(limits.retry.delay(attempt: failures, random: &random))
    }

    /// Takes a page only where each of its notifications is taken. Otherwise the page is read again.
    private func take(
        _ page: NotificationHistoryPage, into summary: inout HistorySummary
    ) async throws {
        let answers = await withTaskGroup(of: IntakeOutcome.self) { group in
            for entry in page.entries {
                group.addTask { await intake.take(entry.signedPayload) }
            }
            return await group.reduce(into: [IntakeOutcome]()) { $0.append($1) }
        }
        for answer in answers {
            switch answer {
            case .unavailable(let why): throw ReconcileError.databaseAway(why)
            case .outdated(let why): throw ReconcileError.outdated(why)
            case .stored, .refused: break
            }
        }
        summary.add(page, answers)
        progress(summary)
        let codes = answers.compactMap { answer in
            if case .refused(let refusal) = answer { refusal.code } else { nil }
        }
        // If all are refused, our own settings are wrong. It stops, because entries that it skipped would never be read
        // again.
        guard codes.count < max(answers.count, Self.refusedPageMin) else {
            throw ReconcileError.untaken(
                "all \(codes.count) notifications of a page were refused by this service"
                    + " (\(Set(codes).sorted().joined(separator: ", "))):"
                    + " see `repricer config check` for certificates, and compare REPRICER_BUNDLE_ID,"
                    + " REPRICER_APP_APPLE_ID and REPRICER_ENVIRONMENT with App Store Connect")
        }
    }

    /// A short page may have only refused entries. Fewer than this are skipped.
    private static let refusedPageMin = 10

    /// The earliest start that Apple accepts, with a margin for the time on the way. A fast clock needs a larger
    /// margin.
    private func oldestStart() -> Int64 {
        let now = clock.nowMilliseconds()
        let oldest = NotificationHistoryRequest.oldestStart(
            at: Instant(milliseconds: now), environment)
        let second = clock.realDuration(of: .seconds(1)).seconds
        // It allows two seconds of real time on the way, in the service clock's milliseconds.
        let way = second > 0 ? min(2000 / second, 30 * 86_400_000) : 0
        return oldest.milliseconds + max(limits.edge.milliseconds, Int64(way))
    }
}

/// The result of a read of the history.
package struct HistorySummary: Hashable, Sendable {
    package var since: Instant?
    /// The instant up to which it was read; nil where reading did not reach its end.
    package var through: Instant?
    /// Whether more was requested than Apple keeps.
    package var isCutShort = false
    package var pages = 0
    /// The entries of the history. A repeated entry counts twice.
    package var seen = 0
    package var new = 0
    package var duplicate = 0
    /// Refused entries by code: forged, of another app, or of another environment.
    package var refused: [String: Int] = [:]
    /// The entries without a signedPayload.
    package var unreadable = 0
    /// How often a slice was begun again, because a page token had expired.
    package var restarts = 0

    package init() {}

    package var refusedCount: Int { refused.values.reduce(0, +) }

    mutating func add(_ page: NotificationHistoryPage, _ answers: [IntakeOutcome]) {
        pages += 1
        seen += page.entries.count + page.unreadable
        unreadable += page.unreadable
        for answer in answers {
            switch answer {
            case .stored(let isNew, _):
                if isNew { new += 1 } else { duplicate += 1 }
            case .refused(let refusal): refused[refusal.code, default: 0] += 1
            case .unavailable, .outdated: break
            }
        }
    }
}
