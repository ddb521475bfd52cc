import Testing

@testable import SandboxStore

@Suite struct OutboxTests {
    private static func event(_ number: Int) -> StoreEvent {
        StoreEvent(
            notificationUUID: "uuid-\(number)", kind: .didRenew, subtype: nil,
            signedAt: Int64(number), consistencyToken: "t",
            subscription: Fixture.subscription())
    }

    /// When the attempts come if all fail, in milliseconds after the first.
    private func attempts(_ outbox: NotificationOutbox) -> [Int64] {
        var outbox = outbox
        outbox.enqueue(Self.event(0), at: 0)
        var times: [Int64] = []
        for now in stride(from: Int64(0), through: 400 * Milliseconds.hour, by: 500_000) {
            guard let delivery = outbox.next(now: now) else { continue }
            times.append(now)
            outbox.record(.unsuccessful, of: delivery.index, at: now)
        }
        return times
    }

    @Test func failedDelivery_inProduction_isTriedFiveTimesMore() {
        let times = attempts(NotificationOutbox(retries: true))

        let hours = times.map { Int($0 / Milliseconds.hour) }
        #expect(hours == [0, 1, 13, 37, 85, 157])
    }

    @Test func failedDelivery_inSandbox_isNotTriedAgain() {
        #expect(attempts(NotificationOutbox(retries: false)) == [0])
    }

    @Test func retry_onAFastClock_waitsInRealTimeToo() {
        let outbox = NotificationOutbox(retries: true, realSecond: 86_400_000)

        #expect(outbox.delay(beforeRetry: 0) == 43_200_000)
        #expect(outbox.delay(beforeRetry: 4) == 8 * 86_400_000)
    }

    @Test func delivery_thatSucceeded_isSettled() throws {
        var outbox = NotificationOutbox(retries: true)
        outbox.enqueue(Self.event(0), at: 0)
        let next = outbox.next(now: 0)
        let delivery = try #require(next)
        let second = outbox.next(now: 0)

        outbox.record(.success, of: delivery.index, at: 1)

        #expect(second == nil)
        #expect(outbox.unsettledCount == 0)
        #expect(outbox.next(now: .max) == nil)
    }

    @Test func delivery_postponed_costsNoAttempt() throws {
        var outbox = NotificationOutbox(retries: true)
        outbox.enqueue(Self.event(0), at: 0)
        let next = outbox.next(now: 0)
        let delivery = try #require(next)

        outbox.postpone(delivery.index, to: 50)

        #expect(outbox.next(now: 49) == nil)
        #expect(outbox.next(now: 50)?.index == delivery.index)
        #expect(outbox.entries[0].attempts.isEmpty)
    }

    @Test func fault_duplicate_deliversTwiceTheSame() throws {
        var outbox = NotificationOutbox(retries: true)
        outbox.enqueue(Self.event(0), at: 0)
        outbox.apply(.init(kind: .duplicate, seconds: 1), to: "uuid-0", now: 0)

        var uuids: [String] = []
        while let delivery = outbox.next(now: 10) {
            uuids.append(delivery.event.notificationUUID)
            outbox.record(.success, of: delivery.index, at: 10)
        }

        #expect(uuids == ["uuid-0", "uuid-0"])
    }

    @Test func fault_reorder_letsALaterOneGoFirst() {
        var outbox = NotificationOutbox(retries: true)
        for number in 0..<2 { outbox.enqueue(Self.event(number), at: 0) }
        outbox.apply(.init(kind: .reorder, seconds: 1), to: "uuid-0", now: 0)

        let first = outbox.next(now: 0)?.index
        let held = outbox.next(now: 999)?.index
        let second = outbox.next(now: 1000)?.index

        #expect([first, held, second] == [1, nil, 0])
    }

    @Test func fault_lose_neverDelivers() {
        var outbox = NotificationOutbox(retries: true)
        outbox.enqueue(Self.event(0), at: 0)
        outbox.apply(.init(kind: .lose, seconds: 1), to: "uuid-0", now: 0)

        #expect(outbox.next(now: .max) == nil)
        #expect(outbox.entries[0].attempts.map(\.result) == [.other])
    }

    @Test(arguments: [
        ("{}", "kind is missing"), ("[]", "the body is no JSON object"),
        ("{\"kind\":\"lose\",\"count\":0}", "count must be 1 or more"),
        (
            "{\"kind\":\"boom\"}",
            "unknown kind; notifications know duplicate, reorder, delay, lose, hang_up"
        ),
        ("{\"endpoint\":\"x\",\"kind\":\"late\"}", "unknown endpoint"),
        ("{\"kind\":\"delay\",\"seconds\":-1}", "seconds must be 0 to 86400"),
        ("{\"kind\":\"delay\",\"seconds\":0.5}", nil),
    ])
    func fault_order_isChecked(body: String, problem: String?) {
        var faults = FaultQueue()

        #expect(faults.add(Array(body.utf8)) == problem)
    }

    @Test func fault_ofACall_comesAsOftenAsOrdered() {
        var faults = FaultQueue()
        let problem = faults.add(
            Array("{\"endpoint\":\"changePrice\",\"kind\":\"http_500\",\"count\":2}".utf8))

        let taken = (0..<3).map { _ in faults.takeCallFault("changePrice")?.kind }

        #expect(problem == nil)
        #expect(taken == [.http500, .http500, nil])
        #expect(faults.takeCallFault("status") == nil)
    }

    @Test(arguments: [(true, 18_000), (false, 1800)])
    func rate_ofAnHour_isTheLimitOfItsSeconds(isProduction: Bool, perHour: Int) {
        var limits = RateLimits(isProduction: isProduction)
        let refusals = (0..<perHour).compactMap { _ in limits.take("cancel", now: 5) }

        #expect(refusals.isEmpty)
        #expect(limits.take("cancel", now: 5) == Milliseconds.hour)
        #expect(limits.take("cancel", now: Milliseconds.hour) == nil)
    }
}
