import Facts
import FoldStories
import Notifications
import Postgres
import Pricing
import Reports
import TestSupport
import Testing

/// Random stories in random pieces through PostgreSQL, several folders at once: each subscription ends as its
/// ordered story does, in every table.
@Suite(.database) struct FoldOrderDatabaseTests {
    private static let subscriptions = 40

    @Test func folder_randomPiecesFromSeveralConnections_endAsTheOrderedStories() async throws {
        let conninfo = try await TestDatabase.login("service", memberOf: ["repricer_service"])
        let pool = DatabasePool(conninfo: conninfo, applicationName: "service", size: 3)
        let stories = (1...Self.subscriptions).map { number in
            RandomStory(
                seed: UInt64(7000 + number), id: String(number), steps: 4 + number % 9
            ).withOneChange()
        }
        let owner = try await TestDatabase.connect()
        for story in stories { try await Self.submit(story, on: owner) }
        let first = try #require(stories.flatMap(\.events).map(\.key.signedAt).min())
        // A line that contradicts a state may stand in another month than the state.
        _ = try await owner.read {
            try MonthPartitions.prepare(
                .history, now: first.milliseconds, monthsAhead: 12, on: $0)
        }
        var random = StoryRandom(seed: 7)
        // Told twice over: once in pieces, once more in other pieces.
        let pieces = stories.flatMap { story in
            ArrivalOrder(story.events, random: &random).pieces
                + ArrivalOrder(story.events, random: &random).pieces
        }.shuffled(using: &random)

        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<3 {
                group.addTask {
                    for index in stride(from: worker, to: pieces.count, by: 3) {
                        try await Self.fold(pieces[index], pool)
                    }
                }
            }
            try await group.waitForAll()
        }

        for story in stories { try await Self.compare(story, pool, owner) }
        let months = try await owner.query(
            "SELECT DISTINCT tableoid FROM repricer.price_change_history")
        #expect(months.count > 3)
        await owner.close()
        await pool.close()
    }

    /// Retention in the middle: once the statements of before have come, their months are dropped, and the others come
    /// in any order beside repetitions of all. Each subscription ends as its whole story does, in every table.
    @Test func folder_besideRetention_endsAsTheWholeStories() async throws {
        let conninfo = try await TestDatabase.login("service", memberOf: ["repricer_service"])
        let pool = DatabasePool(conninfo: conninfo, applicationName: "service", size: 1)
        let owners = DatabasePool(
            conninfo: TestDatabase.url, applicationName: "retention", size: 1)
        let owner = try await TestDatabase.connect()
        let stories = (1...Self.subscriptions).map { number in
            RandomStory(
                seed: UInt64(9000 + number), id: String(number), steps: 4 + number % 9
            ).withOneChange()
        }
        for story in stories { try await Self.submit(story, on: owner) }
        let first = try #require(stories.flatMap(\.events).map(\.key.signedAt).min())
        _ = try await owner.read {
            // The first month has none of its own: its statements are strays.
            try MonthPartitions.prepare(
                .statements, now: first.advanced(byMonths: 1).milliseconds, monthsAhead: 12, on: $0)
        }
        var random = StoryRandom(seed: 9)
        for months in [3, 5] {
            let before = first.startOfMonth.advanced(byMonths: months).milliseconds
            for story in stories {
                let early = story.events.filter {
                    $0.key.signedAt.milliseconds < before || random.chance(30)
                }
                for piece in ArrivalOrder(early, random: &random).pieces {
                    try await Self.fold(piece, pool)
                }
            }
            let retention = StatementRetention(before: before, pool: owners)
            var isStopped = false
            // Stopped before its first step, it does nothing; the next run does all.
            let none = try await retention.run { true }
            let counts = try await retention.run {
                defer { isStopped = true }
                return false
            }
            #expect(!none.isComplete && counts.isComplete && isStopped)
            #expect(counts.covered > 10 && counts.covered + counts.carried <= Self.subscriptions)
            let old = try await owners.withTransaction {
                try MonthRetention.candidates(of: .statements, before: before, on: $0)
            }
            #expect(!old.isEmpty)
            for month in old {
                #expect(
                    try await owners.withTransaction {
                        try MonthRetention.drop(month, before: before, on: $0)
                    })
            }
            let left = try await owner.query(
                "SELECT FROM repricer.subscription_events WHERE signed_at < \(timestamp: before)")
            #expect(left.isEmpty)
        }
        for story in stories {
            for piece in ArrivalOrder(story.events, random: &random).pieces {
                try await Self.fold(piece, pool)
            }
        }

        for story in stories { try await Self.compare(story, pool, owner) }
        let overdue = try await owner.query("SELECT FROM repricer.overdue_statements")
        #expect(overdue.count > 10)
        #expect(try await owner.query(Self.unmarkedOverdue).isEmpty)
        await owner.close()
        await owners.close()
        await pool.close()
    }

    /// Overdue statements whose subscription has no mark: reports ask them why an item ended, though no fold does.
    private static let unmarkedOverdue: SQL = """
        SELECT FROM repricer.overdue_statements o WHERE NOT EXISTS (
            SELECT FROM repricer.stale_figures s WHERE s.original_transaction_id = o.original_transaction_id)
        """

    /// What came while retention was at work, of a subscription that it had passed, keeps its month.
    @Test func retention_whenAStatementCameMeanwhile_keepsItsMonth() async throws {
        let owners = DatabasePool(
            conninfo: TestDatabase.url, applicationName: "retention", size: 1)
        let story = RandomStory(seed: 9001, id: "1", steps: 8)
        let events = story.events.filter { $0.source != .legacy }
        let first = try #require(events.map(\.key.signedAt).min())
        let before = first.startOfMonth.advanced(byMonths: 1).milliseconds
        _ = try await owners.withTransaction {
            try MonthPartitions.prepare(
                .statements, now: first.milliseconds, monthsAhead: 12, on: $0)
        }
        let retention = StatementRetention(before: before, pool: owners)
        let counts = try await retention.run { false }
        try await Self.fold(events, owners)

        let month = try #require(
            try await owners.withTransaction {
                try MonthRetention.candidates(of: .statements, before: before, on: $0)
            }.first)
        let kept = try await owners.withTransaction {
            try MonthRetention.drop(month, before: before, on: $0)
        }
        let late = try await retention.coverLateOnes()
        let dropped = try await owners.withTransaction {
            try MonthRetention.drop(month, before: before, on: $0)
        }

        #expect(counts.isComplete && counts.covered == 0)
        #expect(!kept && dropped)
        #expect(late.covered == 1)
        await owners.close()
    }

    /// A dependent elsewhere that two statements of one millisecond asked for: what is stored names the first, though
    /// it came last.
    @Test func folder_ofStatementsNewestFirst_namesTheFirstThatAskedForADependent() async throws {
        let conninfo = try await TestDatabase.login("service", memberOf: ["repricer_service"])
        let pool = DatabasePool(conninfo: conninfo, applicationName: "service", size: 1)
        let owner = try await TestDatabase.connect()
        let story = RandomStory(seed: 576_199_590, steps: 10, addsSeats: false).withOneChange()
        try await Self.submit(story, on: owner)

        for event in story.events.reversed() { try await Self.fold([event], pool) }

        try await Self.compare(story, pool, owner)
        #expect(
            try await owner.query(
                """
                SELECT 1 FROM repricer.dependent_cancellations
                WHERE state = 'requested' AND is_cross_subscription
                    AND requested_by_evidence = \(story.changes.first?.requestReferenceID ?? "none")
                """
            ).count == 1)
        // Which statement was first is no step of its own: others hear once that it was asked for.
        #expect(
            try await owner.query(
                "SELECT 1 FROM repricer.outbox WHERE type = 'dependent_cancellation.requested'"
            ).count == 1)
        await owner.close()
        await pool.close()
    }

    /// Figures are kept while folds go on, and whatever is marked: each report says what it said before anything was kept.
    @Test func figures_keptWhileStoriesAreFolded_areThoseOfTheFacts() async throws {
        let conninfo = try await TestDatabase.login("service", memberOf: ["repricer_service"])
        let pool = DatabasePool(conninfo: conninfo, applicationName: "service", size: 3)
        let stories = (1...Self.subscriptions).map { number in
            RandomStory(
                seed: UInt64(9000 + number), id: String(number), steps: 6 + number % 11
            ).withOneChange()
        }
        let owner = try await TestDatabase.connect()
        for story in stories { try await Self.submit(story, on: owner) }
        _ = try await owner.execute(Self.closedMonths)
        var random = StoryRandom(seed: 9)
        let pieces = stories.flatMap { ArrivalOrder($0.events, random: &random).pieces }
            .shuffled(using: &random)
        let keeper = FigureKeeper(pool: pool, log: .silent)

        for round in 0..<8 {
            let part = pieces[pieces.count * round / 8..<pieces.count * (round + 1) / 8]
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    for piece in part.prefix(part.count / 2) { try await Self.fold(piece, pool) }
                }
                group.addTask {
                    for piece in part.suffix(part.count - part.count / 2) {
                        try await Self.fold(piece, pool)
                    }
                }
                group.addTask {
                    for _ in 0..<5 { try await keeper.keepOnce(marks: 7) }
                }
                try await group.waitForAll()
            }
            #expect(try await FormerViews.differences(on: owner) == [], "round \(round)")
        }
        while try await keeper.keepOnce() > 0 {}

        #expect(try await FormerViews.differences(on: owner) == [])
        let kept = try await owner.query(
            """
            SELECT (SELECT count(*) FROM repricer.change_figures) AS changes, (SELECT count(*) FROM repricer.stale_figures) AS marks,
                (SELECT count(*) FROM repricer.kept_exceptions) AS exceptions,
                (SELECT sum(charged_renewals)::bigint FROM repricer.figure_tallies) AS renewals
            """
        ).one()
        #expect(try kept.int("changes") > 10)
        #expect(try kept.int("marks") == 0)
        #expect(try kept.int("exceptions") > 0)
        #expect(try kept.int("renewals") > 0)
        try await Self.expectSeen(Self.keptFaults, on: owner) {
            try await FormerViews.moveDifferences(on: $0)
        }
        try await Self.expectSeen(Self.forecastFaults + Self.closedFaults, on: owner) {
            try await FormerViews.differences(on: $0)
        }
        #expect(try await FormerViews.pastDifferences(on: owner) == [])
        for (name, fault) in Self.frozenFaults {
            #expect(
                try await FormerViews.pastDifferences(after: fault, in: [name], on: owner) != [],
                "\(name) did not see: \(fault)")
        }
        for fact in Self.facts {
            try await owner.script(fact)
            #expect(try await FormerViews.differences(on: owner) == [], "\(fact)")
            while try await keeper.keepOnce() > 0 {}
            #expect(try await FormerViews.differences(on: owner) == [], "kept: \(fact)")
        }
        await owner.close()
        await pool.close()
    }

    /// Plants each error by itself, and expects that somebody sees it.
    private static func expectSeen(
        _ faults: [SQL], on owner: PostgresConnection,
        by look: (PostgresConnection) async throws -> [String]
    ) async throws {
        for fault in faults {
            _ = try await owner.execute("BEGIN")
            #expect(try await owner.query(fault).count > 0, "\(fault)")
            #expect(try await look(owner) != [], "nobody saw: \(fault)")
            _ = try await owner.execute("ROLLBACK")
        }
    }

    /// Errors in the moves that are kept for the revenue bridge.
    private static let keptFaults: [SQL] = [
        """
        UPDATE repricer.move_tallies SET closing = closing + 12
        WHERE (batch_id, month) IN (SELECT batch_id, min(month) FROM repricer.move_tallies GROUP BY 1 LIMIT 1) RETURNING 1
        """,
        "DELETE FROM repricer.running_moves RETURNING 1",
        "UPDATE repricer.running_moves SET until_at = until_at + interval '40 days' RETURNING 1",
        "UPDATE repricer.running_moves SET from_at = from_at - interval '40 days' RETURNING 1",
        "UPDATE repricer.running_moves SET until_at = until_at - interval '1 microsecond' RETURNING 1",
        "UPDATE repricer.running_moves SET until_at = until_at + interval '1 microsecond' RETURNING 1",
        "UPDATE repricer.running_moves SET from_at = from_at - interval '1 microsecond' RETURNING 1",
        "UPDATE repricer.running_moves SET from_at = from_at + interval '1 microsecond' RETURNING 1",
        "UPDATE repricer.running_moves SET cause = 'left' WHERE cause <> 'left' RETURNING 1",
        """
        UPDATE repricer.kept_moves SET known_after = '-infinity' WHERE known_after < 'infinity' AND months <> '{}' RETURNING 1
        """,
    ]

    /// Errors in what is kept of forecasts.
    private static let forecastFaults: [SQL] = [
        "UPDATE repricer.forecast_tallies SET changes = changes + 1 RETURNING 1",
        """
        WITH marked AS (
            INSERT INTO repricer.stale_figures SELECT original_transaction_id, bucket FROM repricer.change_figures
        )
        UPDATE repricer.change_figures SET outcome = NULL RETURNING 1
        """,
    ]

    /// Whatever comes is about a month that is closed.
    private static let closedMonths: SQL = """
        INSERT INTO repricer.closed_months (month, closed_at)
        SELECT m, now() FROM generate_series(date '2024-01-01', '2028-12-01', interval '1 month') AS m
        """

    /// Errors in what is kept of the figures of closed months.
    private static let closedFaults: [SQL] = [
        """
        UPDATE repricer.money_entries SET uplift_milliunits = NULL
        WHERE (original_transaction_id, transaction_id, sku) IN (
            SELECT original_transaction_id, transaction_id, sku FROM repricer.money_entries WHERE uplift_milliunits <> 0 LIMIT 1)
        RETURNING 1
        """,
        "UPDATE repricer.money_entries SET uplift_milliunits = uplift_milliunits + 1 WHERE uplift_milliunits > 0 RETURNING 1",
        "UPDATE repricer.money_entries SET batch_id = NULL WHERE batch_id IS NOT NULL RETURNING 1",
    ]

    /// Errors in what reports of the past take from what is kept, and the report that must show each.
    private static let frozenFaults: [(String, SQL)] = [
        ("revenue_impact", "UPDATE repricer.change_figures SET counted_at = '-infinity'"),
        (
            "price_change",
            "UPDATE repricer.change_figures SET new_total_milliunits = new_total_milliunits + 1 WHERE renewals > 0"
        ),
        (
            "reconciliation",
            "UPDATE repricer.change_figures SET is_uncharged = NOT is_uncharged WHERE state = 'effective'"
        ),
        (
            "charge_exception",
            "UPDATE repricer.kept_exceptions SET amount_milliunits = amount_milliunits + 1"
        ),
        (
            "money",
            "UPDATE repricer.money_entries SET explained_as = 'undone' WHERE explained_as = 'new_price'"
        ),
        (
            "revenue_bridge",
            "UPDATE repricer.kept_moves SET openings[1] = openings[1] + 12 WHERE openings <> '{}'"
        ),
    ]

    /// One fact each, by whoever and however, that alters what is counted.
    private static let facts = [
        "UPDATE repricer.subscriptions SET purchased_at = purchased_at + interval '90 days'",
        "DELETE FROM repricer.subscription_events",
        "UPDATE repricer.charges SET refunded_milliunits = 1 WHERE price_milliunits > 1",
        "DELETE FROM repricer.charges WHERE purchased_at > (SELECT min(effective_at) FROM repricer.price_changes)",
        """
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, price_milliunits,
            currency)
        SELECT original_transaction_id, bucket, 'new', sku, effective_at + interval '1 day', new_price_milliunits, currency
        FROM repricer.price_changes WHERE state = 'effective'
        """,
        """
        UPDATE repricer.price_changes SET due_effective_at = due_effective_at + interval '1 month',
            moved_since_call = 'extension', consent_asked_at = sent_at
        """,
        "UPDATE repricer.price_changes SET effective_at = forecast_effective_at - interval '1 day' WHERE state = 'effective'",
        "UPDATE repricer.price_changes SET state = 'lapsed', ended_at = state_since WHERE state = 'effective'",
        "UPDATE repricer.price_changes SET state = 'scheduled', ended_at = NULL WHERE state = 'lapsed'",
    ]

    static func fold(_ piece: [SubscriptionEvent], _ pool: DatabasePool) async throws {
        guard let id = piece.first?.originalTransactionID else { return }
        try await pool.withTransaction { connection in
            try SubscriptionQueries.create([id], on: connection)
            try SubscriptionQueries.lock([id], on: connection)
            try SubscriptionFolder.fold(piece, on: connection)
        }
    }

    /// Stores the story's change as its call left it.
    static func submit(_ story: RandomStory, on owner: PostgresConnection) async throws {
        guard let change = story.changes.first, let sentAt = change.sentAt ?? change.doubtfulSince,
            let id = story.events.first?.originalTransactionID
        else { return }
        let due = change.progress.dueAt?.milliseconds
        let sendBy = change.sendBy?.milliseconds ?? due
        _ = try await owner.execute(
            """
            WITH batch AS (
                INSERT INTO repricer.batches (batch_id, name, content_sha256, plan_hash, planned_as_of,
                    row_count, submitted_at)
                VALUES (\(uuid: change.changeID), 'test', \(change.changeID), '',
                    \(timestamp: sentAt.milliseconds), 1, \(timestamp: sentAt.milliseconds))
                RETURNING batch_id
            )
            INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku,
                direction, currency, storefront, period, current_price_milliunits,
                new_price_milliunits, dependent_skus, forecast_consent, forecast_effective_at, send_by,
                due_effective_at, called_renewal_at, request_reference_id, state, reason, sent_at, doubtful_since, ended_at,
                state_since)
            SELECT \(id), repricer.bucket_of(\(id)), \(uuid: change.changeID), batch_id, 1, \(change.sku),
                \(change.isIncrease ? "increase" : "decrease"), 'USD', 'USA', 'P1M',
                \(change.oldPrice), \(change.newPrice), \(change.dependentSKUs)::text[],
                \(change.isIncrease ? "required" : "none"), \(timestamp: due), \(timestamp: sendBy),
                \(timestamp: due), \(timestamp: change.calledRenewalAt?.milliseconds),
                \(uuid: change.requestReferenceID),
                \(change.doubtfulSince == nil ? "sending" : change.progress.state.rawValue),
                \(change.progress.reason)::text, \(timestamp: change.sentAt?.milliseconds),
                \(timestamp: change.doubtfulSince?.milliseconds),
                \(timestamp: change.progress.endedAt?.milliseconds),
                \(timestamp: change.progress.since.milliseconds)
            FROM batch
            """)
    }

    private static func compare(
        _ story: RandomStory, _ pool: DatabasePool, _ owner: PostgresConnection
    ) async throws {
        guard let id = story.events.first?.originalTransactionID else { return }
        var ordered = StoredSubscription(id: id, changes: story.changes)
        ordered.arrive(story.events)
        let (stored, known) = try await pool.withTransaction { connection in
            (
                try SubscriptionQueries.load([id], on: connection)[id],
                try connection.ask(FoldQueries.knowing(of: [id]))
            )
        }
        let changes = known.changes[id, default: []]
        let cancellations = known.cancellations[id, default: []]
        let label = Comment(rawValue: "story of seed \(story.seed)")
        #expect(stored?.facts == ordered.state.facts, label)
        #expect(stored?.increases == ordered.state.increases, label)
        #expect(stored?.seenSKUs == ordered.state.seenSKUs, label)
        #expect(stored?.foldedThrough == ordered.state.foldedThrough, label)
        #expect(changes.map(\.progress) == ordered.state.changes.map(\.progress), label)
        #expect(changes.map(\.sku) == ordered.state.changes.map(\.sku), label)
        #expect(changes.map(\.dependentSKUs) == ordered.state.changes.map(\.dependentSKUs), label)
        #expect(
            Set(cancellations.filter { $0.state != .notNeeded })
                == Set(ordered.state.cancellations),
            label)
        #expect(
            try await money(id, owner)
                == Set(
                    ordered.money.values.map {
                        "\($0.key.transactionID) \($0.key.sku) \($0.key.kind) \($0.currency) \($0.amount)"
                    }),
            label)
        let told = ordered.history.map { "\($0.at.milliseconds) \($0.state.rawValue)" }
        let history = try await history(id, owner)
        #expect(Set(history).isSuperset(of: told), label)
        #expect(
            try await owner.query(
                """
                SELECT 1 FROM repricer.price_changes c WHERE original_transaction_id = \(id)
                    AND EXISTS (SELECT 1 FROM repricer.price_change_history h
                        WHERE h.change_id = c.change_id)
                    AND c.state NOT IN (SELECT h.state FROM repricer.price_change_history h
                        WHERE h.change_id = c.change_id AND h.occurred_at = (
                            SELECT max(m.occurred_at) FROM repricer.price_change_history m
                            WHERE m.change_id = c.change_id))
                """
            ).isEmpty, label)
    }

    /// What the lines of the ledger add up to, corrections and all; and the charges must have the same of them.
    private static func money(
        _ id: String, _ owner: PostgresConnection
    ) async throws -> Set<String> {
        let rows = try await owner.query(
            """
            WITH lines AS (
                SELECT transaction_id, sku, kind, currency, sum(amount_milliunits) AS amount,
                    (array_agg(kind = 'charge' ORDER BY correction DESC))[1] AS is_charge
                FROM repricer.money_entries WHERE original_transaction_id = \(id)
                GROUP BY transaction_id, sku, kind, occurred_at, number, currency
            )
            SELECT concat_ws(' ', transaction_id, sku, kind, currency, amount) AS line FROM lines
            WHERE amount <> 0 OR kind <> 'charge'
            UNION ALL
            SELECT concat_ws(' ', 'differs', transaction_id, sku) FROM repricer.charges h
            WHERE original_transaction_id = \(id) AND NOT EXISTS (
                SELECT FROM lines l WHERE (l.transaction_id, l.sku) = (h.transaction_id, h.sku)
                HAVING sum(amount) FILTER (WHERE is_charge) = price_milliunits * quantity
                    AND coalesce(-sum(amount) FILTER (WHERE NOT is_charge), 0) = refunded_milliunits)
            """)
        return Set(try rows.map { try $0.text("line") })
    }

    private static func history(
        _ id: String, _ owner: PostgresConnection
    ) async throws -> [String] {
        try await owner.query(
            """
            SELECT occurred_at, state FROM repricer.price_change_history
            WHERE original_transaction_id = \(id)
            """
        ).map { "\(try $0.milliseconds("occurred_at")) \(try $0.text("state"))" }
    }
}
