import Batches
import Calls
package import Facts
import Postgres
import Pricing

/// Finds due work. It runs many times a second, so its cost must grow with what is due and never with what waits.
///
/// Due changes stand in queues, one for each bucket, batch and wave, which an index keeps in the order of deadlines. A
/// queue of a paused batch, or of a later wave, costs one index step however long it is. A transaction that stays open
/// for hours keeps dead entries at the start of a queue; a floor lets searches skip them.
package enum DueQueries {
    package struct Queue: Hashable, Sendable {
        package var bucket: Int
        package var batchID: String
        package var wave: Int = 0
    }

    /// A queue with changes that may be claimed now.
    package struct Due: Hashable, Sendable {
        package var queue: Queue
        /// The earliest deadline that has not passed; if all have, the earliest. In UTC milliseconds.
        package var sendBy: Int64
        /// The code that has halted its batch. One call of the batch at a time may be sent as a probe.
        package var haltedBy: String?
        /// The change that is the probe, where only a probe may be sent; nil where `sendBy` is the earliest deadline of
        /// the queue.
        package var probe: ProbePlace?
        /// Whether the guard of its batch has not seen enough answers yet, so that claims of the batch are limited.
        package var isSampling: Bool

        package init(
            _ queue: Queue, sendBy: Int64, haltedBy: String? = nil, probe: ProbePlace? = nil,
            isSampling: Bool = false
        ) {
            self.isSampling = isSampling
            self.queue = queue
            self.sendBy = sendBy
            self.haltedBy = haltedBy
            self.probe = probe
        }

        /// A deadline that is no later than any in the queue that has not passed; nil where none is known.
        var floor: Int64? { probe == nil ? sendBy : nil }

        /// The earliest deadline comes first, and what has passed comes last.
        func comes(before other: Due, now: Int64) -> Bool {
            (sendBy < now ? 1 : 0, sendBy) < (other.sendBy < now ? 1 : 0, other.sendBy)
        }
    }

    /// Which change of a queue is the probe.
    package enum ProbePlace: Hashable, Sendable, Comparable {
        /// Stale tokens have halted the batch, and a status has shown another token since. That one is tried, so that
        /// no other subscription meets the old one.
        case renewed
        /// A change that was never put back.
        case fresh(sendBy: Int64)
        /// No such change is left, so the probe is the change whose wait ended the longest ago (`until`, real time, UTC
        /// milliseconds).
        case waited(until: Int64)

        func comes(before other: ProbePlace) -> Bool {
            switch (self, other) {
            case (.fresh(let mine), .fresh(let others)): mine > others
            case (_, _): self < other
            }
        }

        var didNotAsk: Bool {
            switch self {
            case .renewed, .fresh: true
            case .waited: false
            }
        }
    }

    /// Subscriptions with their facts, read under the lock.
    package struct Locked: Sendable {
        /// The subscriptions, those of the most urgent changes first.
        package var ids: [String] = []
        package var stored: [String: SubscriptionQueries.Stored] = [:]
        package var versions: [String: SubscriptionQueries.Version] = [:]
        /// Why a row cannot be read, by id. An unreadable row must not stop the others.
        package var unreadable: [String: String] = [:]
        /// Whether a database was lost once, so that some subscriptions may have to wait for a status check.
        package var isRestored = false
    }

    /// A change that waits for its instant.
    package struct Sleeping: Hashable, Sendable {
        package var bucket: Int
        package var originalTransactionID: String
        package var changeID: String
    }

    /// Sleeping changes whose instant has come, the earliest first. All with an instant before `floor` are known to be
    /// awake. It locks nothing, so the statement that wakes them checks again. It skips the `passing` earliest ones.
    package static func sleeping(
        from floor: Int64?, now: Int64, limit: Int, passing: Int = 0
    ) -> Question<[Sleeping]> {
        Question(
            """
            -- name: sleepingChanges
            SELECT bucket, original_transaction_id, change_id FROM repricer.price_changes
            WHERE stage = 'queued' AND NOT is_ready AND NOT is_held AND send_after <= \(timestamp: now)
                AND send_after >= coalesce(\(timestamp: floor)::timestamptz, '-infinity')
            ORDER BY send_after LIMIT \(limit) OFFSET \(passing)
            """
        ) { rows in
            try rows.map { row in
                try Sleeping(
                    bucket: row.int("bucket"),
                    originalTransactionID: row.text("original_transaction_id"),
                    changeID: row.text("change_id"))
            }
        }
    }

    /// Wakes these changes, a statement for each bucket, and returns how many. It passes over those that somebody else
    /// holds or has woken.
    package static func waking(_ sleeping: [Sleeping], now: Int64) -> Question<Int> {
        let buckets = Dictionary(grouping: sleeping, by: \.bucket).sorted { $0.key < $1.key }
        return Question(buckets.map { wake($1, bucket: $0, now: now) }) { answers in
            answers.reduce(0) { $0 + $1.affected }
        }
    }

    private static func wake(_ sleeping: [Sleeping], bucket: Int, now: Int64) -> SQL {
        """
        -- name: wakeSleepingChanges
        WITH due AS MATERIALIZED (
            SELECT c.original_transaction_id, c.change_id
            FROM unnest(\(sleeping.map(\.originalTransactionID))::text[], \(uuids: sleeping.map(\.changeID))::uuid[])
                AS t (id, change_id)
            CROSS JOIN LATERAL (
                SELECT c.original_transaction_id, c.change_id FROM repricer.price_changes c
                WHERE c.original_transaction_id = t.id AND c.change_id = t.change_id
                    AND c.bucket = \(bucket)::smallint AND c.stage = 'queued' AND NOT c.is_ready AND NOT c.is_held
                    AND c.send_after <= \(timestamp: now)
                FOR UPDATE SKIP LOCKED
            ) c
        )
        UPDATE repricer.price_changes c SET is_ready = true
        FROM due
        WHERE c.original_transaction_id = due.original_transaction_id
            AND c.change_id = due.change_id AND c.bucket = \(bucket)::smallint
        """
    }

    /// The condition that the queue `q` of the batch `b` may be served.
    private static let isLive: SQL = """
        b.batch_id = q.batch_id AND b.state = 'approved' AND q.wave <= b.released_wave
        """

    /// The queues with ready changes. Each costs one step of the index, however long it is.
    private static func ready(_ places: SQL) -> SQL {
        """
        ready AS (
            (SELECT bucket, batch_id, wave FROM repricer.price_changes
            WHERE \(fragment: places) AND stage = 'queued' AND is_ready AND NOT is_held
            ORDER BY bucket, batch_id, wave LIMIT 1)
            UNION ALL
            SELECT n.* FROM ready q, LATERAL (
                SELECT bucket, batch_id, wave FROM repricer.price_changes
                WHERE \(fragment: places) AND stage = 'queued' AND is_ready AND NOT is_held
                    AND (bucket, batch_id, wave) > (q.bucket, q.batch_id, q.wave)
                ORDER BY bucket, batch_id, wave LIMIT 1
            ) n
        )
        """
    }

    private static func queue(_ row: Row) throws -> Queue {
        try Queue(bucket: row.int("bucket"), batchID: row.text("batch_id"), wave: row.int("wave"))
    }

    /// All queues with changes that may be claimed, the earliest deadline first. Each costs two steps of the index. `now`
    /// is the business clock in UTC milliseconds; with nil no deadline counts as passed.
    package static func earliest(
        now: Int64? = nil, realNow: Int64, isProbing: Bool = false
    ) -> Question<[Due]> {
        Question(
            """
            -- name: earliestDueOfAll
            WITH RECURSIVE \(fragment: ready("true"))
            \(fragment: earliest(
                of: "(SELECT *, NULL::timestamptz AS floor FROM ready) q", now: now, realNow: realNow,
                isProbing: isProbing))
            """, read)
    }

    /// The buckets with ready changes. Each costs one step of the index.
    package static var busyBuckets: Question<[Int]> {
        Question(
            """
            -- name: busyBuckets
            SELECT t.bucket FROM repricer.bucket_turns t
            WHERE EXISTS (
                SELECT FROM repricer.price_changes c
                WHERE c.bucket = t.bucket AND c.stage = 'queued' AND c.is_ready AND NOT c.is_held)
            ORDER BY t.bucket
            """
        ) { rows in try rows.map { try $0.int("bucket") } }
    }

    /// All queues of these buckets, as `earliest` finds them. A spread database cannot search all buckets in one
    /// statement, so this uses one for each bucket.
    package static func earliest(
        inEach buckets: [Int], now: Int64? = nil, realNow: Int64, isProbing: Bool = false
    ) -> Question<[Due]> {
        Question(
            buckets.map { bucket in
                """
                -- name: earliestDueOfBucket
                WITH RECURSIVE \(fragment: ready("bucket = \(bucket)::smallint"))
                \(fragment: earliest(
                    of: "(SELECT *, NULL::timestamptz AS floor FROM ready) q", now: now, realNow: realNow,
                    isProbing: isProbing, places: "c.bucket = \(bucket)::smallint"))
                """
            }
        ) { try $0.flatMap(read).sorted { $0.comes(before: $1, now: now ?? .min) } }
    }

    /// Those of these queues with changes that may be claimed, the earliest deadline first. Each costs one step of
    /// the index. `floor` (UTC milliseconds, nil where there is none) is a deadline before which the queue has no
    /// change.
    package static func earliest(
        _ queues: [(queue: Queue, floor: Int64?)], now: Int64? = nil, realNow: Int64,
        isProbing: Bool = false
    ) -> Question<[Due]> {
        guard !queues.isEmpty else { return .answered([]) }
        return Question(
            """
            -- name: earliestDue
            \(fragment: earliest(of: list(queues), now: now, realNow: realNow, isProbing: isProbing))
            """, read)
    }

    /// With `isProbing`, or in a halted batch, only one change is wanted: the probe. It is of a subscription that has
    /// not probed yet, while there is one. Few were refused before, so skipping them costs little.
    ///
    /// Changes whose deadline has passed come after all others, because their next deadline is a renewal later. A queue
    /// with both kinds is found twice.
    private static func earliest(
        of queues: SQL, now: Int64?, realNow: Int64, isProbing: Bool, places: SQL = "true"
    ) -> SQL {
        let inTime: SQL = "coalesce(\(timestamp: now)::timestamptz, '-infinity')"
        return """
            SELECT q.bucket, q.batch_id, q.wave, first.send_by, first.next_attempt_at,
                CASE WHEN p.is_probe THEN first.place END AS place,
                CASE WHEN b.is_paused THEN b.halted_by END AS halted_by,
                \(fragment: GuardSampleQueries.isSampling) AS is_sampling
            FROM \(fragment: queues)
            JOIN repricer.batches b ON \(fragment: isLive)
                AND (NOT b.is_paused OR b.probe_at <= \(timestamp: realNow))
            CROSS JOIN LATERAL (
                SELECT b.is_paused OR \(isProbing) AS is_probe, b.halted_by = \(staleToken) OR (
                    SELECT starts_with(halted_reason, \(staleToken)) FROM repricer.service_controls) AS is_of_tokens
            ) p,
            LATERAL (
                ((SELECT w.send_by, 'renewed' AS place, w.next_attempt_at FROM (
                    -- They are among the most urgent changes, because those met the halt first.
                    SELECT c.send_by, c.next_attempt_at, c.stale_tokens FROM repricer.price_changes c
                    WHERE p.is_probe AND p.is_of_tokens AND \(fragment: places)
                        AND \(fragment: isClaimable(realNow: realNow))
                    ORDER BY c.send_by LIMIT 200
                ) w
                WHERE w.stale_tokens = 1 AND w.next_attempt_at IS NOT NULL ORDER BY w.next_attempt_at LIMIT 1)
                UNION ALL
                (SELECT c.send_by, 'fresh', c.next_attempt_at FROM repricer.price_changes c
                WHERE \(fragment: places) AND \(fragment: isClaimable(realNow: realNow))
                    AND c.send_by >= greatest(q.floor, \(fragment: inTime))
                    AND (c.next_attempt_at IS NULL OR NOT p.is_probe)
                ORDER BY c.send_by LIMIT 1)
                UNION ALL
                (SELECT c.send_by, 'fresh', c.next_attempt_at FROM repricer.price_changes c
                WHERE p.is_probe AND \(fragment: places) AND \(fragment: isClaimable(realNow: realNow))
                    AND c.send_by >= coalesce(q.floor, '-infinity') AND c.send_by < \(fragment: inTime)
                    AND c.next_attempt_at IS NULL
                ORDER BY c.send_by LIMIT 1)
                UNION ALL
                (SELECT c.send_by, 'waited', c.next_attempt_at FROM repricer.price_changes c
                WHERE p.is_probe AND \(fragment: places) AND \(fragment: isClaimable(realNow: realNow))
                    AND c.send_by >= coalesce(q.floor, '-infinity') AND c.next_attempt_at IS NOT NULL
                ORDER BY c.next_attempt_at LIMIT 1)
                LIMIT 1)
                -- What is in time may be uncallable for long, and is not to hold up what is overdue beside it.
                UNION ALL
                (SELECT c.send_by, 'fresh', c.next_attempt_at FROM repricer.price_changes c
                WHERE NOT p.is_probe AND \(fragment: places) AND \(fragment: isClaimable(realNow: realNow))
                    AND c.send_by >= coalesce(q.floor, '-infinity') AND c.send_by < \(fragment: inTime)
                ORDER BY c.send_by LIMIT 1)
            ) first
            ORDER BY first.send_by < \(fragment: inTime), first.send_by
            """
    }

    private static func read(_ rows: Rows) throws -> [Due] {
        try rows.map { row in
            try Due(
                queue(row), sendBy: row.milliseconds("send_by"),
                haltedBy: row.textOrNil("halted_by"), probe: place(row),
                isSampling: row.bool("is_sampling"))
        }
    }

    private static func place(_ row: Row) throws -> ProbePlace? {
        switch try row.textOrNil("place") {
        case "renewed": .renewed
        case "fresh": .fresh(sendBy: try row.milliseconds("send_by"))
        case "waited": .waited(until: try row.milliseconds("next_attempt_at"))
        default: nil
        }
    }

    private static let staleToken = String(ResolutionTable.staleTokenCode)

    private static func list(_ queues: [(queue: Queue, floor: Int64?)]) -> SQL {
        """
        unnest(\(queues.map { Int64($0.queue.bucket) })::bigint[],
            \(uuids: queues.map(\.queue.batchID))::uuid[],
            \(queues.map { Int64($0.queue.wave) })::bigint[],
            \(timestamps: queues.map(\.floor))::timestamptz[]) AS q (bucket, batch_id, wave, floor)
        """
    }

    /// The condition that the change `c` stands in the queue `q` of the batch `b` and may be claimed. Rows of a halted
    /// storefront are not in a queue. Rows that were put back since are skipped.
    private static func isClaimable(realNow: Int64) -> SQL {
        """
        c.bucket = q.bucket::smallint AND c.batch_id = q.batch_id AND c.wave = q.wave::smallint
            AND c.stage = 'queued' AND c.state <> 'sending' AND c.is_ready AND NOT c.is_held
            AND NOT \(fragment: StorefrontHalt.holds("c"))
            AND (c.next_attempt_at IS NULL OR c.next_attempt_at <= \(timestamp: realNow))
        """
    }

    /// How many more changes are read than are wanted, to replace locked ones. If more of them are locked, the claim is
    /// smaller, and the next round claims the rest.
    private static func spare(_ limit: Int) -> Int { min(limit, 50) }

    /// Locks the subscriptions of the most urgent changes of queues of one bucket, with deadlines until `until`. It
    /// locks none while everything is paused. It locks none while another claim works on the bucket, because skipping
    /// all that the other one has locked takes longer than claiming from the next bucket. A subscription with a call in
    /// flight, of whatever kind, or with notifications that are not folded yet, waits, because its facts are not the
    /// newest. `probing` is the halted batch of which this is the one probe.
    package static func locking(
        _ due: [Due], until: Int64?, limit: Int, realNow: Int64, probing: String? = nil
    ) -> Question<Locked> {
        let bucket: SQL = "\(due.first?.queue.bucket ?? -1)::smallint"
        let place = place(of: due.first?.probe)
        return Question(
            """
            -- name: lockDueSubscriptions
            WITH claim AS MATERIALIZED (
                SELECT true AS is_ours FROM repricer.bucket_turns
                WHERE bucket = \(fragment: bucket)
                FOR UPDATE SKIP LOCKED
            )
            SELECT s.*, s.xmin::text AS version,
                (SELECT is_restored FROM repricer.service_controls) AS is_restored
            FROM \(fragment: list(due.map { ($0.queue, $0.floor) }))
            JOIN repricer.batches b ON \(fragment: isLive)
                AND (NOT b.is_paused OR b.batch_id = \(uuid: probing))
            CROSS JOIN LATERAL (
                SELECT c.original_transaction_id, c.send_by, c.next_attempt_at FROM repricer.price_changes c
                WHERE c.bucket = \(fragment: bucket)
                    AND \(fragment: isClaimable(realNow: realNow)) AND \(fragment: place.condition)
                    AND c.send_by <= coalesce(\(timestamp: until)::timestamptz, 'infinity')
                    -- OFFSET 0 makes PostgreSQL ask for each change by itself, never for all at once. The comparison
                    -- with 0 is one that the planner expects nearly all rows to pass. Where it expects few, it reads
                    -- the whole queue and sorts it.
                    AND (
                        NOT \(fragment: StoreCallQueries.isInFlight(
                            "c.original_transaction_id", bucket: bucket))
                        AND NOT EXISTS (
                            SELECT 1 FROM repricer.inbox i
                            WHERE i.original_transaction_id = c.original_transaction_id
                                AND i.bucket = \(fragment: bucket) AND i.error IS NULL OFFSET 0)
                    )::integer <> 0
                -- It reads more than are wanted, because another process may have locked some.
                ORDER BY \(fragment: place.order) LIMIT \(limit + spare(limit))
            ) c
            JOIN repricer.subscriptions s
                ON s.original_transaction_id = c.original_transaction_id AND s.bucket = \(fragment: bucket)
            WHERE (SELECT is_ours FROM claim) AND NOT \(fragment: ServiceControlQueries.isHeld)
            ORDER BY \(fragment: place.order) LIMIT \(limit)
            FOR UPDATE OF s SKIP LOCKED
            """, locked)
    }

    /// Which changes of a queue are locked, and in what order. For a probe these are changes of the kind that the
    /// search found.
    private static func place(of probe: ProbePlace?) -> (condition: SQL, order: SQL) {
        switch probe {
        case nil: ("c.send_by >= q.floor", "c.send_by")
        case .fresh(let sendBy):
            // An overdue change would only be judged again and not sent, so it cannot probe.
            (
                "c.next_attempt_at IS NULL AND c.send_by >= \(timestamp: sendBy)::timestamptz",
                "c.send_by"
            )
        case .renewed:
            ("c.stale_tokens = 1 AND c.next_attempt_at IS NOT NULL", "c.next_attempt_at")
        case .waited: ("c.next_attempt_at IS NOT NULL", "c.next_attempt_at")
        }
    }

    private static func locked(_ rows: Rows) throws -> Locked {
        var locked = Locked()
        for row in rows {
            let id = try row.text("original_transaction_id")
            guard locked.stored[id] == nil && locked.unreadable[id] == nil else { continue }
            locked.ids.append(id)
            locked.isRestored = try row.bool("is_restored")
            do {
                locked.stored[id] = try SubscriptionQueries.read(row)
                locked.versions[id] = try row.text("version")
            } catch  where isDataFault(error) {
                locked.unreadable[id] = "\(error)"
            }
        }
        return locked
    }
}
