/// Notifications on their way to the receiver: Apple's V2 retry schedule as a value.
///
/// Instants are the store's own UTC milliseconds. On a fast clock an hour passes in moments, so each wait also has a
/// minimum in real time, which `realSecond` converts to store time.
struct NotificationOutbox: Sendable {
    /// Hours after the previous attempt.
    static let retryHours: [Int64] = [1, 12, 24, 48, 72]
    /// The minimum wait before each retry on a fast clock, in real milliseconds.
    static let retryRealMillisecondsMin: [Int64] = [500, 1000, 2000, 4000, 8000]

    enum Result: String, Codable, Hashable, Sendable {
        case success = "SUCCESS"
        case timedOut = "TIMED_OUT"
        case tlsIssue = "TLS_ISSUE"
        case noResponse = "NO_RESPONSE"
        case socketIssue = "SOCKET_ISSUE"
        case prematureClose = "PREMATURE_CLOSE"
        case invalidResponse = "INVALID_RESPONSE"
        case unsuccessful = "UNSUCCESSFUL_HTTP_RESPONSE_CODE"
        case other = "OTHER"
    }

    struct Attempt: Codable, Hashable, Sendable {
        var at: Int64
        var result: Result
    }

    struct Entry: Sendable {
        var event: StoreEvent
        var attempts: [Attempt] = []
        /// More than one only with a fault that sends duplicates.
        var copies = 1
        var isSettled = false
        var isInFlight = false
        /// The instant until which a fault delays the first attempt.
        var heldUntil: Int64?
        /// Whether a fault cuts off every attempt in the middle.
        var hangsUp = false
    }

    struct Delivery: Sendable {
        var index: Int
        var event: StoreEvent
        var hangsUp = false
    }

    /// Whether failed deliveries are retried: so in Production, while the test environment tries once.
    var retries: Bool
    /// Store milliseconds that pass in a real second; 1000 on a true clock.
    var realSecond: Int64
    private(set) var entries: [Entry] = []
    private var indexByUUID: [String: Int] = [:]
    private var schedule = ActionHeap()
    private(set) var unsettledCount = 0

    init(retries: Bool, realSecond: Int64 = 1000) {
        self.retries = retries
        self.realSecond = realSecond
    }

    mutating func enqueue(_ event: StoreEvent, at: Int64) {
        indexByUUID[event.notificationUUID] = entries.count
        schedule.insert(.init(at: at, subscription: Int64(entries.count)))
        entries.append(Entry(event: event))
        unsettledCount += 1
    }

    /// The next notification that is due. It is in flight until its attempt is recorded.
    mutating func next(now: Int64) -> Delivery? {
        while let first = schedule.first, first.at <= now {
            schedule.removeFirst()
            let index = Int(first.subscription)
            guard !entries[index].isSettled, !entries[index].isInFlight else { continue }
            if let until = entries[index].heldUntil, until > now { continue }
            entries[index].isInFlight = true
            return Delivery(
                index: index, event: entries[index].event, hangsUp: entries[index].hangsUp)
        }
        return nil
    }

    mutating func record(_ result: Result, of index: Int, at now: Int64) {
        entries[index].isInFlight = false
        guard !entries[index].isSettled else { return }
        entries[index].attempts.append(Attempt(at: now, result: result))
        if result == .success {
            entries[index].copies -= 1
            if entries[index].copies <= 0 { return settle(index) }
            return schedule.insert(.init(at: now, subscription: Int64(index)))
        }
        let turn = entries[index].attempts.count - 1
        guard retries, turn < NotificationOutbox.retryHours.count else { return settle(index) }
        schedule.insert(.init(at: now + delay(beforeRetry: turn), subscription: Int64(index)))
    }

    /// Postpones an attempt that could not begin, without counting it.
    mutating func postpone(_ index: Int, to at: Int64) {
        entries[index].isInFlight = false
        schedule.insert(.init(at: at, subscription: Int64(index)))
    }

    /// Restores an attempt of an earlier run of the program.
    mutating func restore(_ attempt: Attempt, of uuid: String) {
        guard let index = indexByUUID[uuid], !entries[index].isSettled else { return }
        record(attempt.result, of: index, at: attempt.at)
    }

    mutating func apply(_ fault: NotificationFault, to uuid: String, now: Int64) {
        guard let index = indexByUUID[uuid] else { return }
        switch fault.kind {
        case .duplicate: entries[index].copies += 1
        case .lose:
            entries[index].attempts.append(Attempt(at: now, result: .other))
            settle(index)
        case .hangUp: entries[index].hangsUp = true
        case .delay, .reorder:
            let until = now + Int64(fault.seconds * Double(realSecond))
            entries[index].heldUntil = until
            schedule.insert(.init(at: until, subscription: Int64(index)))
        }
    }

    /// Store milliseconds until the retry with this number, from 0.
    func delay(beforeRetry turn: Int) -> Int64 {
        let hours = NotificationOutbox.retryHours[turn] * Milliseconds.hour
        guard realSecond > 1000 else { return hours }
        return max(hours, NotificationOutbox.retryRealMillisecondsMin[turn] * realSecond / 1000)
    }

    private mutating func settle(_ index: Int) {
        entries[index].isSettled = true
        unsettledCount -= 1
    }
}
