import JOSE
import ServiceKit

/// The one owner of the store: engine, outbox, faults, limits and journal, on the store's clock.
actor StoreKeeper {
    let clock: any WallClock
    var engine: StoreEngine
    private var outbox: NotificationOutbox
    private var faults = FaultQueue()
    private var limits: RateLimits
    private var records: [CallRecord] = []
    private var tests: [String: (payload: String, attempt: NotificationOutbox.Attempt?)] = [:]
    private var seenReferences: Set<String> = []
    private let calls: JournalFile
    private let deliveries: JournalFile
    private let events: JournalFile
    /// Calls as the wire sees them, written by the routes.
    let wire: WireJournal
    /// Store milliseconds that pass in a real second.
    let realSecond: Int64

    /// Replays the journal, so that a restarted store is the store that was stopped.
    init(
        store: StoreFile, folder: StoreFolder, clock: any WallClock, realSecond: Int64
    ) throws(SandboxError) {
        self.clock = clock
        self.realSecond = realSecond
        let isProduction = store.identity.environment == "Production"
        engine = StoreEngine(
            options: store.options, now: store.start, subscriptions: store.subscriptions)
        outbox = NotificationOutbox(retries: isProduction, realSecond: realSecond)
        limits = RateLimits(isProduction: isProduction)
        let earlier = try JournalFile.lines(of: folder.file("calls.ndjson"), as: CallRecord.self)
        for record in earlier {
            StoreKeeper.replay(record, engine: &engine, outbox: &outbox)
        }
        records = earlier
        seenReferences = Set(earlier.filter(\.applied).compactMap(\.requestReferenceId))
        for event in engine.advance(to: clock.nowMilliseconds()) {
            outbox.enqueue(event, at: event.signedAt)
        }
        let sent = try JournalFile.lines(
            of: folder.file("deliveries.ndjson"), as: DeliveryRecord.self)
        for record in sent {
            outbox.restore(.init(at: record.at, result: record.result), of: record.uuid)
        }
        calls = try JournalFile(path: folder.file("calls.ndjson"))
        deliveries = try JournalFile(path: folder.file("deliveries.ndjson"))
        events = try JournalFile(path: folder.file("events.ndjson"))
        wire = try WireJournal(path: folder.file("wire.ndjson"), clock: clock)
    }

    private static func replay(
        _ record: CallRecord, engine: inout StoreEngine, outbox: inout NotificationOutbox
    ) {
        guard record.applied else { return }
        var events = engine.advance(to: record.at)
        switch record.endpoint {
        case "changePrice":
            // A call that succeeded once succeeds again, here and below, because the engine is deterministic.
            if let request = try? ChangePriceRequest(Array((record.body ?? "").utf8)) {
                _ = try? engine.changePrice(transaction: record.transactionId, request: request)
            }
        case "cancel":
            if let body = JSONValue.parse(Array((record.body ?? "").utf8))?.object,
                let info = try? RequestInfo(body)  // It was read when it was applied.
            {
                _ = try? engine.cancel(
                    transaction: record.transactionId, info: info, storefront: nil)
            }
        case "act":
            if case .success(let action) = OperatorAction.parse(Array((record.body ?? "").utf8)) {
                // An action that succeeded once succeeds again.
                _ = try? engine.act(action)
            }
        // Reading may change the store. The answer itself was sent long ago.
        case "status": _ = try? engine.statuses(transaction: record.transactionId)
        case "extend", "extendAll": replayExtension(record, engine: &engine)
        default: break
        }
        events += engine.takeOutgoing()
        for event in events { outbox.enqueue(event, at: event.signedAt) }
    }

    /// Lets the store's time pass; returns the instant of the next thing to do.
    func tick() throws(SandboxError) -> Int64? {
        let now = clock.nowMilliseconds()
        try send(engine.advance(to: now), now: now)
        return engine.nextActionAt
    }

    private func send(_ happened: [StoreEvent], now: Int64) throws(SandboxError) {
        for event in happened {
            try events.append(EventRecord(event))
            outbox.enqueue(event, at: event.signedAt)
            if let fault = faults.takeNotificationFault() {
                outbox.apply(fault, to: event.notificationUUID, now: now)
            }
        }
    }

    /// What the route should do with an answer.
    typealias Outcome = OutcomeOf<StoreEngine.Answer>

    enum OutcomeOf<Answer: Sendable>: Sendable {
        case answer(Answer)
        case refused(StoreError, retryAfter: Int64?)
    }

    /// Counts a call against its rate limit and takes its fault. The rate limit is checked before any fault.
    func begin(_ endpoint: String) -> (fault: CallFault?, retryAfter: Int64?) {
        let now = clock.nowMilliseconds()
        if let retryAfter = limits.take(endpoint, now: now) { return (nil, retryAfter) }
        return (faults.takeCallFault(endpoint), nil)
    }

    func changePrice(
        transaction: String, body: [UInt8], fault: CallFault?, number: Int64
    ) throws(SandboxError) -> Outcome {
        try call("changePrice", transaction, body, fault, number) {
            (engine, repeated) throws(StoreError) in
            let request = try ChangePriceRequest(body)
            if repeated, fault?.kind == .refuseRepeats { throw .repeatedRequestReferenceID }
            return try engine.changePrice(transaction: transaction, request: request)
        }
    }

    func cancel(
        transaction: String, body: [UInt8], fault: CallFault?, number: Int64
    ) throws(SandboxError) -> Outcome {
        try call("cancel", transaction, body, fault, number) {
            (engine, repeated) throws(StoreError) in
            if repeated, fault?.kind == .refuseRepeats { throw .repeatedRequestReferenceID }
            guard let fields = JSONValue.parse(body)?.object else { throw .malformedPayload }
            let info = try RequestInfo(fields)
            let storefront = try ChangePriceRequest.storefront(in: fields)
            return try engine.cancel(
                transaction: transaction, info: info, storefront: storefront)
        }
    }

    /// An operator's action on a subscription, which no App Store endpoint offers.
    func act(
        _ action: OperatorAction, body: [UInt8], number: Int64
    ) throws(SandboxError) -> Outcome {
        try call("act", action.subscription, body, nil, number) { (engine, _) throws(StoreError) in
            try engine.act(action)
        }
    }

    func statuses(
        transaction: String, fault: CallFault?, number: Int64
    ) throws(SandboxError) -> OutcomeOf<[StoreEngine.Answer]> {
        try call("status", transaction, [], fault, number) { (engine, _) throws(StoreError) in
            try engine.statuses(transaction: transaction)
        }
    }

    /// Records a call that ended before the engine saw it.
    func recordRefusal(
        _ endpoint: String, _ transaction: String, _ body: [UInt8], _ error: StoreError?,
        fault: CallFault?, number: Int64?
    ) throws(SandboxError) {
        let reference = StoreKeeper.reference(in: body)
        try record(
            CallRecord(
                at: clock.nowMilliseconds(), endpoint: endpoint, transactionId: transaction,
                requestReferenceId: reference, status: error?.httpStatus ?? 0,
                errorCode: error?.rawValue, applied: false,
                repeated: reference.map(seenReferences.contains) ?? false,
                fault: fault?.kind.rawValue, call: number))
    }

    func call<Answer: Sendable>(
        _ endpoint: String, _ transaction: String, _ body: [UInt8], _ fault: CallFault?,
        _ number: Int64,
        _ apply: (inout StoreEngine, Bool) throws(StoreError) -> Answer
    ) throws(SandboxError) -> OutcomeOf<Answer> {
        let now = max(clock.nowMilliseconds(), engine.now)
        try send(engine.advance(to: now), now: now)
        let reference = StoreKeeper.reference(in: body)
        let repeated = reference.map(seenReferences.contains) ?? false
        var entry = CallRecord(
            at: now, endpoint: endpoint, transactionId: transaction,
            requestReferenceId: reference, status: 200, errorCode: nil, applied: true,
            repeated: repeated, fault: fault?.kind.rawValue,
            body: body.isEmpty ? nil : String(decoding: body, as: UTF8.self), call: number)
        let result = Result { () throws(StoreError) in try apply(&engine, repeated) }
        switch result {
        case .success(let answer):
            if let reference { seenReferences.insert(reference) }
            if endpoint == "changePrice", let answer = answer as? StoreEngine.Answer {
                entry.effects = answer.subscription.items.map(ItemRecord.init)
            }
            try record(entry)
            try send(engine.takeOutgoing(), now: now)
            return .answer(answer)
        case .failure(let error):
            entry.status = error.httpStatus
            entry.errorCode = error.rawValue
            entry.applied = false
            entry.body = nil
            try record(entry)
            return .refused(error, retryAfter: nil)
        }
    }

    private func record(_ entry: CallRecord) throws(SandboxError) {
        records.append(entry)
        try calls.append(entry)
    }

    static func reference(in body: [UInt8]) -> String? {
        let fields = JSONValue.parse(body)?.object
        return fields?["requestInfo"]?.object?["requestReferenceId"]?.string
            ?? fields?["requestIdentifier"]?.string
    }

    func nextDelivery() -> NotificationOutbox.Delivery? {
        outbox.next(now: clock.nowMilliseconds())
    }

    func delivered(_ index: Int, _ result: NotificationOutbox.Result) throws(SandboxError) {
        let now = clock.nowMilliseconds()
        let uuid = outbox.entries[index].event.notificationUUID
        outbox.record(result, of: index, at: now)
        try deliveries.append(DeliveryRecord(uuid: uuid, at: now, result: result))
    }

    /// Postpones a delivery whose receiver refused the connection. On a fast clock that does not count as an attempt.
    func postpone(_ index: Int) {
        outbox.postpone(index, to: clock.nowMilliseconds() + outbox.realSecond / 5)
    }

    /// Remembers a test notification by its token.
    func addTest(_ token: String, payload: String, result: NotificationOutbox.Result?) {
        let attempt = result.map {
            NotificationOutbox.Attempt(at: clock.nowMilliseconds(), result: $0)
        }
        tests[token] = (payload, attempt)
    }

    /// Whether a fault drops the next notification. It consumes that fault.
    func isNextNotificationLost() -> Bool {
        guard faults.nextNotificationFault?.kind == .lose else { return false }
        _ = faults.takeNotificationFault()
        return true
    }

    func test(_ token: String) -> (payload: String, attempt: NotificationOutbox.Attempt?)? {
        tests[token]
    }

    /// A filtered page of the notification history.
    func history(_ query: HistoryQuery, body: [UInt8], realNow: Int64) -> HistoryPage {
        query.page(of: outbox.entries, body: body, realNow: realNow)
    }

    func addFault(_ body: [UInt8]) -> String? { faults.add(body) }

    func clearFaults() { faults.clear() }

    func callRecords() -> [CallRecord] { records }

    /// All events for which a notification was made, whether or not it was delivered.
    func eventRecords() -> [EventRecord] { outbox.entries.map { EventRecord($0.event) } }

    func state() -> StoreState {
        StoreState(
            now: max(engine.now, clock.nowMilliseconds()), engine: engine, outbox: outbox,
            records: records)
    }

    func subscription(_ transaction: String) -> StoreSubscription? {
        engine.subscription(ofTransaction: transaction)
    }
}
