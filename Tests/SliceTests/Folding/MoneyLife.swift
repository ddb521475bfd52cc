import FoldStories
import Pricing

/// One customer's years as an adversary would tell them: a price change of ours on the way, and everything that money can
/// do around it. It keeps its own book of what it told, in plain code.
struct MoneyLife {
    struct Charge: Hashable {
        var transaction: String
        /// Which of the two items it is of, and the name of that when it was charged.
        var item: String
        var sku: String
        /// The name under which the transaction is signed now.
        var shownAs: String
        var price: Int64
        var seats: Int64 = 1
        var currency: String?
        var storefront: String
        var from: Int64
        var until: Int64
        var refunds: [StatementRefund] = []
        var revokedAt: Int64?
        var reversed: Int64 = 0
        var isOffer = false
        var isPurchase = false
        var isAddedSeat = false
        var reason = "RENEWAL"

        var total: Int64 { price * seats }
        var given: Int64 { refunds.reduce(0) { $0 + $1.amount } - reversed }
        /// Neither revoked nor given back as a whole.
        var stands: Bool { revokedAt == nil && given < total }
    }

    static let minute: Int64 = 60_000
    static let day: Int64 = 86_400_000
    /// 2025-03-01T00:00:00Z.
    static let start: Int64 = 1_740_787_200_000
    static let old: Int64 = 9990

    let id: String
    let new: Int64
    let calledAt: Int64
    private(set) var events: [SubscriptionEvent] = []
    /// What a statement told of, by transaction and item.
    private(set) var told: [String: Charge] = [:]
    /// When the called item was paid for no longer, and under which column of the bridge that is.
    private(set) var ends: [(at: Int64, cause: String)] = []

    private var random: StoryRandom
    /// Apart, so that a seed tells the same life with and without it.
    private var lateness: StoryRandom
    private var now = start
    private var price = old
    private var place = (currency: "USD", storefront: "USA")
    private var running: Charge
    /// Another item of the same transaction, in some lives.
    private var beside: Charge?
    private let hasTwoItems: Bool
    private var seats: Int64 = 1
    private var isSilentOnce = false
    private var count = 0
    private var announced: String?
    private var isOver = false
    /// Nothing is told any more.
    private var isMute = false
    private var names = ["A": "A", "B": "B"]
    /// What the item was called at the call.
    private(set) var calledSKU = "A"
    private let requestID: String

    init(seed: UInt64, id: String, requestID: String) {
        self.id = id
        self.requestID = requestID
        random = StoryRandom(seed: seed)
        lateness = StoryRandom(seed: ~seed)
        // Moments before midnight, so that a late renewal may come after the month has turned.
        if lateness.chance(50) { now -= 10 * Self.minute }
        if lateness.chance(30) { now += Int64.random(in: 1...6, using: &lateness) * Self.day }
        new = [12990, 15990, 7990].randomElement(using: &random) ?? 12990
        calledAt = Self.start + Int64.random(in: 35...50, using: &random) * Self.day
        running = Charge(
            transaction: "", item: "A", sku: "A", shownAs: "A", price: Self.old, currency: "USD",
            storefront: "USA", from: Self.start, until: Self.start)
        hasTwoItems = random.chance(40)
        if random.chance(30) { seats = Int64.random(in: 2...4, using: &random) }
        buy("SUBSCRIBED", "INITIAL_BUY")
        var isCalled = false
        for _ in 0..<14 {
            if !isCalled, calledAt < running.until { isCalled = call() }
            if !isMute { step() }
        }
    }

    /// What was charged for the called item, under the name that it had at the call, or one that it got since, in order. A
    /// report knows no earlier name.
    var chargesOfCalled: [Charge] {
        told.values.filter { $0.item == "A" && $0.sku.hasPrefix(calledSKU) }.sorted {
            ($0.from, $0.transaction) < ($1.from, $1.transaction)
        }
    }

    private mutating func pick(_ values: Int...) -> Int {
        values.randomElement(using: &random) ?? 0
    }
    private mutating func within(_ range: ClosedRange<Int64>) -> Int64 {
        Int64.random(in: range, using: &random)
    }

    private mutating func call() -> Bool {
        now = max(now, calledAt)
        calledSKU = names["A"] ?? "A"
        announced = new > Self.old ? "SCHEDULED" : "DECREASE"
        say(nil, source: .response)
        return true
    }

    /// One period, and what comes of it.
    private mutating func step() {
        if isOver {
            guard random.chance(50) else { return }
            now += within(1...50) * Self.day
            isOver = false
            announced = nil
            price = Int64(
                [Int(Self.old), Int(new), 5990, 19990].randomElement(using: &random) ?? 0)
            if random.chance(30) { place = ("EUR", "DEU") }
            return buy("SUBSCRIBED", "RESUBSCRIBE")
        }
        disturb()
        guard !isOver else { return }
        renew()
    }

    private mutating func disturb() {
        // What happens within a period is told within it.
        now = max(now, min(now + within(1...9) * Self.day, running.until - Self.day))
        switch within(0...31) {
        case 0, 1: giveBack(running.total)
        case 2, 3: giveBack(within(1...running.total))
        case 4: revoke()
        case 5: reverse()
        case 6: reverse(); giveBack(running.total - max(0, running.given)); reverse()
        case 7: seat()
        case 8: tellOtherwise()
        case 9: announced = nil; price = Int64(pick(5990, 6990, 17990))
        case 10: end("VOLUNTARY", intent: 1)
        case 11 where announced == "PENDING": end("PRICE_INCREASE", intent: 3)
        case 12: end("BILLING_RETRY", intent: 2)
        case 13: move()
        case 14: family()
        case 15:
            giveBack(within(1...running.total)); revokeTheRest(); reverse(isAfterRevocation: true)
        case 16: giveBackBeside()
        case 17: removeSeat()
        case 18, 19, 20: rename()
        case 21, 22: modify()
        case 23: giveBack(running.total - max(0, running.given)); isMute = random.chance(60)
        default: answer()
        }
    }

    private mutating func answer() {
        guard announced == "SCHEDULED" || announced == "PENDING" else { return }
        if announced == "SCHEDULED", random.chance(50) {
            announced = "PENDING"
            say("PRICE_INCREASE", "PENDING")
        } else {
            announced = "ACCEPTED"
            say("PRICE_INCREASE", "ACCEPTED")
        }
    }

    private mutating func renew() {
        now = running.until
        // The App Store may date it moments off.
        if lateness.chance(25) { now += Int64.random(in: 1...59, using: &lateness) * Self.minute }
        // Some renewals never come, and nothing is told of them.
        if !isSilentOnce, random.chance(12) {
            isSilentOnce = true
            now += within(1...3) * 30 * Self.day
        }
        if announced == "ACCEPTED" || announced == "DECREASE" {
            price = new
            announced = nil
        }
        if random.chance(10) {
            say("DID_FAIL_TO_RENEW", status: 3)
            now += within(1...9) * Self.day
            if random.chance(30) { return end("BILLING_RETRY", intent: 2) }
        }
        charge("RENEWAL")
        if random.chance(8) { running.isOffer = true }
        if random.chance(5) {
            running.currency = nil
            beside?.currency = nil
        }
        // Not every notification comes.
        guard !random.chance(12) else { return }
        say("DID_RENEW")
        if random.chance(6) { twice() }
    }

    private mutating func buy(_ type: String, _ subtype: String) {
        charge("PURCHASE")
        say(type, subtype)
    }

    private mutating func charge(_ reason: String) {
        count += 1
        let name = names["A"] ?? "A"
        running = Charge(
            transaction: "\(id)-\(count)", item: "A", sku: name, shownAs: name, price: price,
            currency: place.currency, storefront: place.storefront, from: now,
            until: now + 30 * Self.day)
        running.reason = reason
        running.isPurchase = reason == "PURCHASE"
        running.seats = seats
        guard hasTwoItems else { return }
        beside = running
        beside?.item = "B"
        beside?.sku = names["B"] ?? "B"
        beside?.shownAs = names["B"] ?? "B"
        beside?.price = 4990
    }

    /// The same period once more, under another transaction.
    private mutating func twice() {
        let first = running
        count += 1
        running.transaction = "\(id)-\(count)"
        running.sku = running.shownAs
        running.from += 60_000 * 5
        beside = nil
        say("DID_RENEW")
        running = first
        running.sku = running.shownAs
        running.from += 60_000 * 5
        running.transaction = "\(id)-\(count)"
    }

    private mutating func giveBack(_ amount: Int64) {
        guard amount > 0, amount <= running.total - running.given else { return }
        now += 1000
        running.refunds.append(StatementRefund(amount: amount, at: Instant(milliseconds: now)))
        if running.given == running.total { ends.append((now, "refunds")) }
        say("REFUND")
    }

    private mutating func revoke() {
        guard running.given == 0, running.refunds.isEmpty else { return }
        now += 1000
        running.revokedAt = now
        running.refunds = [
            StatementRefund(amount: running.total, at: Instant(milliseconds: now))
        ]
        if let item = beside, item.given < item.total {
            beside?.refunds.append(
                StatementRefund(amount: item.total - item.given, at: Instant(milliseconds: now)))
        }
        ends.append((now, "refunds"))
        say("REFUND", status: 5)
        isOver = true
    }

    /// What a part was given back of already is revoked: the rest of it, and all of the item beside it.
    private mutating func revokeTheRest() {
        guard running.given > 0, running.given < running.total else { return }
        now += 1000
        let at = Instant(milliseconds: now)
        running.revokedAt = now
        running.refunds.append(StatementRefund(amount: running.total - running.given, at: at))
        if let item = beside, item.given < item.total {
            beside?.refunds.append(StatementRefund(amount: item.total - item.given, at: at))
        }
        ends.append((now, "refunds"))
        say("REFUND", status: 5)
        isOver = true
    }

    private mutating func reverse(isAfterRevocation: Bool = false) {
        guard running.given > 0, isAfterRevocation || running.revokedAt == nil else { return }
        now += 1000
        running.reversed += running.given
        if let item = beside { beside?.reversed += item.given }
        running.revokedAt = nil
        isOver = false
        say("REFUND_REVERSED")
    }

    private mutating func giveBackBeside() {
        guard let item = beside, item.given < item.total, running.given == 0 else { return }
        now += 1000
        beside?.refunds.append(
            StatementRefund(amount: item.total - item.given, at: Instant(milliseconds: now)))
        say("REFUND")
    }

    /// One seat is given back within the period, and does not renew.
    private mutating func removeSeat() {
        guard running.seats > 1, running.given == 0 else { return }
        seats = running.seats - 1
        now += 1000
        running.refunds.append(
            StatementRefund(amount: running.price, at: Instant(milliseconds: now)))
        say("REFUND", "SEATS")
    }

    /// A seat that is added: a second transaction of the period.
    private mutating func seat() {
        let first = (running, beside)
        count += 1
        running.transaction = "\(id)-\(count)"
        running.sku = running.shownAs
        beside = nil
        running.from = now
        running.seats = within(1...3)
        running.isPurchase = true
        running.isAddedSeat = true
        // The rest of a period may cost a part of it.
        if random.chance(40) { running.price = max(1, running.price * within(1...9) / 10) }
        running.refunds = []
        running.reversed = 0
        say("DID_CHANGE_RENEWAL_PREF", "INCREASE_QUANTITY")
        (running, beside) = first
    }

    /// The app renames its items. The running transaction may be signed under the new names at once.
    private mutating func rename() {
        for item in hasTwoItems ? ["A", "B"] : ["A"] where item == "A" || random.chance(50) {
            names[item, default: item] += "x"
        }
        if random.chance(60) {
            running.shownAs = names["A"] ?? "A"
            beside?.shownAs = names["B"] ?? "B"
        }
        say("METADATA_UPDATE")
    }

    /// The customer modifies the subscription in mid period: a new transaction has all items, and retains the cycle or
    /// begins it anew.
    private mutating func modify() {
        guard running.given == 0, now < running.until else { return }
        let former = running.until
        charge("PURCHASE")
        if random.chance(60) {
            running.until = former
            beside?.until = former
        } else {
            announced = nil
        }
        say("DID_CHANGE_RENEWAL_PREF")
    }

    private mutating func tellOtherwise() {
        running.price += Int64(pick(-500, 500, 1000))
        say("DID_CHANGE_RENEWAL_STATUS")
    }

    private mutating func move() {
        place = random.chance(50) ? ("GBP", "GBR") : ("USD", "ECU")
        announced = nil
    }

    private mutating func family() {
        let first = running
        count += 1
        running.transaction = "\(id)-\(count)"
        say(nil, source: .status, owner: "FAMILY_SHARED")
        running = first
    }

    private mutating func end(_ subtype: String, intent: Int) {
        now = max(now, running.until)
        let causes = ["VOLUNTARY": "left", "PRICE_INCREASE": "declined", "BILLING_RETRY": "lapsed"]
        ends.append((now, causes[subtype] ?? subtype))
        say("EXPIRED", subtype, status: 2, intent: intent)
        announced = nil
        isOver = true
    }

    private mutating func say(
        _ type: String?, _ subtype: String? = nil, status: Int = 1,
        source: SubscriptionEvent.Source = .notification, intent: Int? = nil, owner: String? = nil
    ) {
        now += within(1...60_000)
        var event = SubscriptionEvent(
            key: .init(
                signedAt: Instant(milliseconds: now),
                evidenceID: source == .response ? requestID : "\(id)-e\(events.count)"),
            source: source, originalTransactionID: id)
        event.type = type
        event.subtype = subtype
        event.status = status
        event.transaction = transaction(owner)
        event.renewal = renewal(intent)
        events.append(event)
        guard owner == nil else { return }
        for charge in [running] + [beside].compactMap({ $0 }) {
            told["\(charge.transaction) \(charge.item)"] = charge
        }
    }

    private func transaction(_ owner: String?) -> TransactionStatement {
        let items = ([running] + [beside].compactMap { $0 }).map { charge in
            var item = StatementItem(sku: charge.shownAs)
            item.price = charge.price
            if charge.isOffer { item.offerPrice = charge.price }
            item.refunds = charge.refunds
            return item
        }
        var told = TransactionStatement(items: items)
        told.transactionID = running.transaction
        told.ownershipType = owner
        told.purchasedAt = Instant(milliseconds: running.from)
        told.expiresAt = Instant(milliseconds: running.until)
        told.revokedAt = running.revokedAt.map { Instant(milliseconds: $0) }
        told.reason = running.isPurchase ? "PURCHASE" : running.reason
        told.storefront = running.storefront
        told.currency = running.currency
        told.period = "P1M"
        told.quantity = running.seats > 1 ? Int(running.seats) : nil
        if running.isAddedSeat {
            told.details[.additionalTransactionReason] = .text("SEAT_ADDITION")
        }
        return told
    }

    private func renewal(_ intent: Int?) -> RenewalStatement {
        var item = StatementItem(sku: names["A"] ?? "A")
        item.price = announced == "ACCEPTED" || announced == "DECREASE" ? new : price
        if announced != nil, announced != "DECREASE" {
            item.increaseStatus = announced
            item.increasePrice = new
        }
        var other = StatementItem(sku: names["B"] ?? "B")
        other.price = 4990
        var told = RenewalStatement(items: isOver ? [] : hasTwoItems ? [item, other] : [item])
        told.autoRenewStatus = isOver ? 0 : 1
        told.expirationIntent = intent
        told.renewalAt = Instant(milliseconds: running.until)
        told.consistencyToken = "\(events.count)"
        told.period = "P1M"
        return told
    }
}
