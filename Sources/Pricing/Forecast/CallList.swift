/// The calls that a batch needs, and what a rate of calls does to them.
package struct CallList: Sendable {
    /// A row that would not be sent in time.
    package struct LateRow: Sendable, Equatable {
        package var line: Int
        package var originalTransactionID: String
        package var sku: String
        package var sendBy: Instant
    }

    package struct Quota: Sendable, Equatable {
        /// The number of requests, after the grouping of `RequestGroup`.
        package var calls: Int
        /// The allowed calls in a thousand seconds.
        package var callsPerThousandSeconds: Int
        package var lateCalls: Int
        package var lateRowCount: Int
        /// The first late rows, in the order of their deadlines.
        package var lateRows: [LateRow]

        /// How many seconds the calls take when nothing else uses the quota.
        package var seconds: Int64 {
            let (scaled, overflow) = Int64(calls).multipliedReportingOverflow(by: 1000)
            let rate = Int64(callsPerThousandSeconds)
            guard !overflow, rate > 0 else { return .max }
            return scaled / rate + (scaled % rate == 0 ? 0 : 1)
        }
    }

    /// Stored calls with the same dates.
    package struct Stored: Sendable, Equatable {
        package var sendBy: Instant
        /// When they may be sent; nil where they may be sent at once.
        package var sendAfter: Instant?
        package var calls: Int
        /// How many rows each of them carries.
        package var rowsEach: Int

        package init(sendBy: Instant, sendAfter: Instant?, calls: Int, rowsEach: Int) {
            self.sendBy = sendBy
            self.sendAfter = sendAfter
            self.calls = calls
            self.rowsEach = rowsEach
        }
    }

    /// It takes 48 bytes, because a batch has a million of them.
    private struct Member {
        var subscription: SubscriptionKeys.Key
        var effectiveAt: Int64
        var sendBy: Int64
        /// When the call may be sent; `.min` where it may be sent at once.
        var sendAfter: Int64
        var line: UInt32
        var sku: UInt32
        /// Which request of its subscription it may share; nil for a request of its own.
        var place: UInt8?
        var risk: Risk

        var group: (SubscriptionKeys.Key, Int, Int64) {
            (
                subscription, place.map(Int.init) ?? -1,
                place == everything ? sendAfter : effectiveAt
            )
        }
    }

    /// Whether a row counts in a sum of amounts at risk, and in which sum.
    private enum Risk: UInt8 {
        case none, asked, notKnown

        init(_ row: PlanRow) {
            guard row.mayBeLost, row.atRisk != nil else {
                self = .none
                return
            }
            self = row.consent == .required ? .asked : .notKnown
        }

        var consent: Consent? {
            switch self {
            case .none: nil
            case .asked: .required
            case .notKnown: .notKnown
            }
        }
    }

    /// An item of a subscription.
    struct Place: Hashable {
        fileprivate var subscription: SubscriptionKeys.Key
        fileprivate var sku: UInt32
    }

    private struct Call {
        var sendBy: Int64
        var sendAfter: Int64
        /// The indexes of its members, in the order of subscriptions. It is empty for a call of another batch, which
        /// only uses up the rate.
        var members: Range<UInt32>

        init(sendBy: Int64, sendAfter: Int64, members: Range<UInt32>) {
            self.sendBy = sendBy
            self.sendAfter = sendAfter
            self.members = members
        }

        init(_ stored: Stored, members: Range<UInt32>) {
            self.init(
                sendBy: stored.sendBy.milliseconds,
                sendAfter: stored.sendAfter?.milliseconds ?? .min, members: members)
        }
    }

    private var members: [Member] = []
    private var keys = SubscriptionKeys()
    private var skus = Interner<String>()
    private let grouping: RequestGrouping

    init(_ grouping: RequestGrouping) {
        self.grouping = grouping
    }

    /// - Parameter release: The earliest release of the row's wave; nil where it may be sent at once.
    mutating func add(_ row: PlanRow, from release: Instant? = nil) {
        guard let consent = row.consent, let effectiveAt = row.effectiveAt, let sendBy = row.sendBy
        else { return }
        let sendAfter = [row.sendAfter, release].compactMap { $0 }.max()
        members.append(
            Member(
                subscription: keys.add(row.originalTransactionID),
                effectiveAt: effectiveAt.milliseconds, sendBy: sendBy.milliseconds,
                sendAfter: sendAfter?.milliseconds ?? .min, line: UInt32(clamping: row.line),
                sku: skus.number(of: row.sku), place: place(RequestGroup.Kind(consent)),
                risk: Risk(row)))
    }

    mutating func place(_ id: String, _ sku: String) -> Place {
        Place(subscription: keys.add(id), sku: skus.number(of: sku))
    }

    /// Those of the items that have a row whose customer must consent, or may have to.
    func atRisk<Item>(among items: [Place: Item]) -> [Place: Consent] {
        var found: [Place: Consent] = [:]
        for member in members {
            let place = Place(subscription: member.subscription, sku: member.sku)
            guard let consent = member.risk.consent, items[place] != nil else { continue }
            found[place] = consent
        }
        return found
    }

    private func place(_ kind: RequestGroup.Kind) -> UInt8? {
        switch (grouping, kind) {
        case (.item, _), (.announced, .consent): nil
        case (.announced, .announced): 0
        case (.announced, .decrease): 1
        case (.subscription, _): everything
        }
    }

    /// Simulates the calls from `now` on at that rate, the earliest deadline first and none before its `send_after`. A
    /// call that comes too late for its renewal takes no time, because it would be made for the next renewal. A call
    /// whose last instant has passed already is overdue, not late. Calls of `others` come first where they are equally
    /// urgent.
    package func quota(
        callsPerThousandSeconds rate: Int, now: Instant, besides others: [Stored] = [],
        lateRowsMax: Int
    ) -> Quota {
        // It sorts indexes, because the members themselves are large.
        let sorted = members.indices.map { UInt32(truncatingIfNeeded: $0) }.sorted {
            let (left, right) = (members[Int($0)], members[Int($1)])
            return left.group == right.group ? left.line < right.line : left.group < right.group
        }
        let calls = calls(inOrder: sorted)
        let late = Self.late(
            Self.calls(ofOthers: others) + calls, callsPerThousandSeconds: rate,
            now: now.milliseconds)
        var quota = Quota(
            calls: calls.count, callsPerThousandSeconds: rate, lateCalls: late.count,
            lateRowCount: 0, lateRows: [])
        for call in late {
            quota.lateRowCount += call.members.count
            for place in call.members.prefix(lateRowsMax - quota.lateRows.count) {
                let member = members[Int(sorted[Int(place)])]
                quota.lateRows.append(
                    LateRow(
                        line: Int(member.line),
                        originalTransactionID: keys.id(of: member.subscription),
                        sku: skus[member.sku], sendBy: Instant(milliseconds: member.sendBy)))
            }
        }
        return quota
    }

    /// How many rows of a stored batch would be late.
    package static func lateRowCount(
        of own: [Stored], besides others: [Stored], callsPerThousandSeconds rate: Int, now: Instant
    ) -> Int {
        let calls = own.flatMap { stored in
            repeatElement(
                Call(stored, members: 0..<UInt32(clamping: stored.rowsEach)), count: stored.calls)
        }
        return late(
            Self.calls(ofOthers: others) + calls, callsPerThousandSeconds: rate,
            now: now.milliseconds
        ).reduce(0) { $0 + $1.members.count }
    }

    /// How many rows of each batch would be late, given the calls of the others.
    package static func lateRowCounts(
        of batches: [[Stored]], callsPerThousandSeconds rate: Int, now: Instant
    ) -> [Int] {
        // There are no members here, so the ranges are used for the number of the batch.
        let calls = batches.enumerated().flatMap { number, stored in
            stored.flatMap { one in
                let first = UInt32(clamping: number)
                return repeatElement(
                    Call(one, members: first..<(first + UInt32(clamping: one.rowsEach))),
                    count: one.calls)
            }
        }
        var counts = Array(repeating: 0, count: batches.count)
        for call in late(calls, callsPerThousandSeconds: rate, now: now.milliseconds) {
            counts[Int(call.members.lowerBound)] += call.members.count
        }
        return counts
    }

    private static func calls(ofOthers others: [Stored]) -> [Call] {
        others.flatMap { repeatElement(Call($0, members: 0..<0), count: $0.calls) }
    }

    /// The requests, in the order of subscriptions in which the places of members stand.
    private func calls(inOrder sorted: [UInt32]) -> [Call] {
        var calls: [Call] = []
        var lastGroup: (SubscriptionKeys.Key, Int, Int64)?
        for (index, place) in sorted.enumerated() {
            let member = members[Int(place)]
            let place = UInt32(truncatingIfNeeded: index)
            if let last = calls.last, let lastGroup, member.place != nil,
                lastGroup == member.group
            {
                calls[calls.count - 1] = Call(
                    sendBy: min(last.sendBy, member.sendBy),
                    sendAfter: max(last.sendAfter, member.sendAfter),
                    members: last.members.lowerBound..<(place + 1))
            } else {
                calls.append(
                    Call(
                        sendBy: member.sendBy, sendAfter: member.sendAfter,
                        members: place..<(place + 1)))
                lastGroup = member.group
            }
        }
        return calls
    }

    /// The requests with members that come too late.
    private static func late(
        _ calls: [Call], callsPerThousandSeconds rate: Int, now: Int64
    ) -> [Call] {
        let byRelease = calls.indices.sorted {
            (calls[$0].sendAfter, $0) < (calls[$1].sendAfter, $1)
        }
        // The interval is in microseconds: at 50 a second there is a call every 20,000 of them.
        let interval = 1_000_000_000 / Int64(max(1, rate))
        func microseconds(_ instant: Int64) -> Int64 {
            let (span, overflow) = instant.subtractingReportingOverflow(now)
            let bounded = overflow ? (instant < now ? 0 : .max / 1000) : span
            return max(0, min(bounded, .max / 4000)) * 1000
        }
        var waiting = Heap()
        var late: [Call] = []
        var next = 0
        var clock: Int64 = 0
        while next < byRelease.count || !waiting.isEmpty {
            if waiting.isEmpty {
                clock = max(clock, microseconds(calls[byRelease[next]].sendAfter))
            }
            while next < byRelease.count, microseconds(calls[byRelease[next]].sendAfter) <= clock {
                let call = byRelease[next]
                waiting.push(deadline: calls[call].sendBy, call: call)
                next += 1
            }
            guard let first = waiting.pop() else { continue }
            let deadline = calls[first].sendBy
            // A deadline that has passed already is overdue, not late.
            if deadline < now { continue }
            if microseconds(deadline) < clock {
                if !calls[first].members.isEmpty { late.append(calls[first]) }
            } else {
                clock += interval
            }
        }
        return late
    }
}

/// The place of items that share one request with everything that is sent at the same time.
private let everything: UInt8 = 2

/// A binary heap. The earliest deadline comes first, and among equal ones the first call.
private struct Heap {
    private var entries: [(deadline: Int64, call: Int)] = []

    var isEmpty: Bool { entries.isEmpty }

    mutating func push(deadline: Int64, call: Int) {
        entries.append((deadline, call))
        var child = entries.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard entries[child] < entries[parent] else { return }
            entries.swapAt(child, parent)
            child = parent
        }
    }

    mutating func pop() -> Int? {
        guard let first = entries.first, let last = entries.popLast() else { return nil }
        guard !entries.isEmpty else { return first.call }
        entries[0] = last
        var parent = 0
        while true {
            var child = parent * 2 + 1
            guard child < entries.count else { break }
            if child + 1 < entries.count, entries[child + 1] < entries[child] { child += 1 }
            guard entries[child] < entries[parent] else { break }
            entries.swapAt(child, parent)
            parent = child
        }
        return first.call
    }
}
