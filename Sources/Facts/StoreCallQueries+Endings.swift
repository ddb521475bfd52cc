package import Postgres

extension StoreCallQueries {
    /// Stores how attempts of one bucket ended, in three statements however many they are. The holder of the leases
    /// sends them before what the kind of call writes.
    package static func settle(_ endings: [CallEnding], at: Int64) -> [SQL] {
        let closed = endings.filter { !$0.isOpen }
        let open = endings.filter(\.isOpen)
        return EvidenceQueries.storeHeaders(endings.flatMap { $0.answer?.headers ?? [] })
            + (closed.isEmpty ? [] : [close(closed, at: at)])
            + (open.isEmpty ? [] : [leaveOpen(open)])
    }

    private static func close(_ endings: [CallEnding], at: Int64) -> SQL {
        """
        -- name: settleCalls
        UPDATE repricer.store_calls r SET state = t.state, settled_at = \(timestamp: at)::timestamptz,
            is_doubtful = t.is_doubtful IS NOT NULL, http_status = t.http_status, error_code = t.error_code,
            error_message = t.message, answer = t.answer, packed = t.packed,
            header_digests = t.header_digests
        FROM unnest(\(endings.column { $0.call.subject })::text[],
            \(uuids: endings.column { $0.call.callID })::uuid[],
            \(endings.column { $0.call.fence })::bigint[], \(endings.column { $0.state.rawValue })::text[],
            \(ints: endings.sparseColumn { $0.isDoubtful ? 1 : nil })::bigint[],
            \(ints: endings.sparseColumn { $0.httpStatus.map { Int64($0) } })::bigint[],
            \(ints: endings.sparseColumn { $0.errorCode })::bigint[],
            \(texts: endings.sparseColumn { $0.message })::text[],
            \(texts: endings.sparseColumn { $0.answer?.whole })::text[],
            \(blobs: endings.sparseColumn { $0.answer?.packed })::bytea[],
            \(blobs: endings.sparseColumn { $0.answer?.headerDigests })::bytea[]
        ) AS t (subject, call, fence, state, is_doubtful, http_status, error_code, message, answer, packed,
            header_digests)
        WHERE r.subject = t.subject AND r.call_id = t.call AND r.fence = t.fence
            AND \(fragment: isInBucket(of: endings.map(\.call)))
        """
    }

    /// Releases calls for their next step. The checks that follow a call are counted from that call.
    private static func leaveOpen(_ endings: [CallEnding]) -> SQL {
        """
        -- name: leaveCallsOpen
        UPDATE repricer.store_calls r SET state = 'unknown', next_step = t.next_step,
            attempts = r.attempts - CASE WHEN r.next_step = 'send' THEN t.uncounted ELSE 0 END,
            checks = CASE WHEN r.next_step = 'send' AND t.uncounted = 0 THEN 0
                WHEN r.next_step = 'check' THEN r.checks - t.uncounted ELSE r.checks END,
            next_attempt_at = t.next_attempt_at, lease_until = t.next_attempt_at,
            http_status = t.http_status, error_code = t.error_code, error_message = t.message,
            answer = t.answer, packed = t.packed, header_digests = t.header_digests
        FROM unnest(\(endings.map(\.call.subject))::text[], \(uuids: endings.map(\.call.callID))::uuid[],
            \(endings.map(\.call.fence))::bigint[], \(endings.map(\.nextStep.rawValue))::text[],
            \(timestamps: endings.map(\.nextAttemptAt))::timestamptz[],
            \(endings.map { Int64($0.isUncounted ? 1 : 0) })::bigint[],
            \(ints: endings.map { $0.httpStatus.map { Int64($0) } })::bigint[],
            \(ints: endings.map(\.errorCode))::bigint[], \(texts: endings.map(\.message))::text[],
            \(texts: endings.map(\.answer?.whole))::text[],
            \(blobs: endings.sparseColumn { $0.answer?.packed })::bytea[],
            \(blobs: endings.sparseColumn { $0.answer?.headerDigests })::bytea[]
        ) AS t (subject, call, fence, next_step, next_attempt_at, uncounted, http_status, error_code, message,
            answer, packed, header_digests)
        WHERE r.subject = t.subject AND r.call_id = t.call AND r.fence = t.fence
            AND \(fragment: isInBucket(of: endings.map(\.call)))
        """
    }

    /// The wait, beyond the first two minutes, of work that was parked before. The whole wait doubles each time, up to
    /// an hour. It counts the refused calls of the same kind and subject, whatever their ids; `call` itself is closed
    /// already.
    package static func furtherWait(after call: StoreCall) -> SQL {
        """
        (SELECT least(interval '2 minutes' * power(2, least(count(*), 5)), interval '1 hour') - interval '2 minutes'
        FROM repricer.store_calls p
        WHERE p.subject = \(call.subject) AND p.bucket = \(call.bucket)::smallint AND p.kind = \(call.kind.rawValue)
            AND p.state = 'refused' AND p.error_code IS NOT NULL AND p.call_id <> \(uuid: call.callID))
        """
    }

    /// Reopens the closed calls of changes whose outcome is unknown again, one for each subscription. A later statement
    /// showed that the statement which had settled them was about another call, and nothing else would check them any
    /// more. They are checked, and never sent again. Where a subscription has a call in flight, its call is reopened
    /// only after that one is settled.
    ///
    /// It is sent after the statements that close calls or move changes, under the locks of the subscriptions.
    package static func reopen(_ ids: [String]) -> SQL {
        """
        -- name: reopenCalls
        UPDATE repricer.store_calls r SET state = 'unknown', settled_at = NULL, is_doubtful = false,
            next_step = 'check', checks = 0, fence = r.fence + 1, next_attempt_at = r.lease_until,
            is_reopened = true
        FROM (SELECT DISTINCT unnest(\(ids)::text[]) AS id) t
        CROSS JOIN LATERAL (
            SELECT c.request_reference_id FROM repricer.price_changes c
            JOIN repricer.store_calls q
                ON q.subject = c.original_transaction_id AND q.call_id = c.request_reference_id
                    AND \(fragment: Bucket.isThat(of: ids, "q.bucket"))
            WHERE c.original_transaction_id = t.id AND c.state IN ('sending', 'unknown')
                AND \(fragment: Bucket.isThat(of: ids, "c.bucket"))
                AND q.state IN ('answered', 'refused')
            ORDER BY c.change_id LIMIT 1
        ) closed
        WHERE r.subject = t.id AND r.call_id = closed.request_reference_id
            AND \(fragment: Bucket.isThat(of: ids, "r.bucket"))
            AND NOT \(fragment: isInFlight("t.id", bucket: Bucket.any(of: ids)))
        """
    }

    /// Closes a price change's call of unknown outcome whose changes a notification has settled, because it needs no
    /// further attempt. A call that is on its way has no next attempt and stays, since it is the one call in flight
    /// of its subscription.
    static func closeSettled(_ touched: [(id: String, at: Int64?)]) -> SQL {
        let ids = touched.map(\.id)
        return """
            -- name: closeSettledCalls
            UPDATE repricer.store_calls r SET state = 'answered', settled_at = t.at
            FROM unnest(\(ids)::text[], \(timestamps: touched.map(\.at))::timestamptz[]
            ) AS t (id, at)
            WHERE r.subject = t.id AND \(fragment: Bucket.isThat(of: ids, "r.bucket")) AND r.kind = 'price_change'
                AND r.state = 'unknown' AND r.next_attempt_at IS NOT NULL
                AND NOT EXISTS (
                    SELECT 1 FROM repricer.price_changes c
                    WHERE c.original_transaction_id = r.subject AND \(fragment: Bucket.isThat(of: ids, "c.bucket"))
                        AND c.change_id = ANY (r.carries) AND c.state IN ('sending', 'unknown'))
            """
    }
}
