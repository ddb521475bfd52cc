package import Pricing

/// A random history of one subscription: what Apple may sign about it, our changes on the way, and some statements
/// that no App Store should sign.
package struct RandomStory: Sendable {
    package let seed: UInt64
    package private(set) var events: [SubscriptionEvent] = []
    package private(set) var changes: [TrackedChange] = []

    /// - Parameters:
    ///   - steps: Things that happen; each brings one to three statements.
    ///   - addsSeats: Whether seats are added between them.
    package init(seed: UInt64, id: String = "1", steps: Int = 10, addsSeats: Bool = true) {
        self.seed = seed
        var teller = Teller(seed: seed, id: id)
        teller.happen("SUBSCRIBED", "INITIAL_BUY", isPurchase: true)
        for _ in 0..<steps {
            teller.step()
            if addsSeats { teller.addSeats() }
        }
        events = teller.events.compactMap { try? $0.storable() }
        changes = teller.changes
    }

    /// The same statements, with our first change alone: the database lets an item have one open change only.
    package func withOneChange() -> RandomStory {
        var story = self
        story.changes = Array(changes.prefix(1))
        return story
    }
}

/// The subscription as the storyteller knows it.
private struct Teller {
    struct Item {
        var sku: String
        var price: Int64
        var offerPeriods = 0
        var increase: SubscriptionFacts.Increase?
        var decreaseTo: Int64?
        var renews = true
        var chargedAs: String
    }

    static let day: Int64 = 86_400_000
    var random: StoryRandom
    let id: String
    let storefront: String
    /// How far our clock is ahead of Apple's, in milliseconds.
    let clockAhead: Int64
    /// Of every seventh story: its calls may have been given up before the App Store says that it applied them.
    private var givesUp: StoryRandom?
    /// Of what moves nothing: it changes no story.
    private var beside: StoryRandom
    /// Of seats that are added: they change no story either.
    private var adding: StoryRandom
    /// Additions that nobody has told yet.
    private var untoldAdditions: [TransactionStatement] = []
    private var additions = 0
    var now = Instant(milliseconds: 1_772_323_200_000)
    var items: [Item] = []
    var charged: [StatementItem] = []
    var purchasedAt: Instant
    var expiresAt: Instant
    /// Of every third story: the end before an extension that our calls do not know of yet.
    var knownExpiresAt: Instant?
    let learnsLate: Bool
    /// Of every fourth story: its calls leave after their last instant.
    let callsLate: Bool
    var periods = 0
    var reason = "PURCHASE"
    var status = 1
    var autoRenews = true
    var revokedAt: Instant?
    /// What was given back of the running period, by the place of its item.
    var refunds: [Int: [StatementRefund]] = [:]
    var intent: Int?
    var names = 0
    var events: [SubscriptionEvent] = []
    var changes: [TrackedChange] = []

    init(seed: UInt64, id: String) {
        random = StoryRandom(seed: seed)
        self.id = id
        storefront = random.chance(30) ? "KOR" : "USA"
        clockAhead = Int64(random.pick(-200...200)) * 1000
        learnsLate = seed % 3 == 1
        callsLate = seed % 4 == 2
        givesUp = seed % 7 == 3 ? StoryRandom(seed: ~seed) : nil
        beside = StoryRandom(seed: seed ^ 0x5EED)
        adding = StoryRandom(seed: seed ^ 0xADD5)
        purchasedAt = now
        expiresAt = now.advanced(by: 30 * Self.day)
        for _ in 0..<random.pick(1...3) { addItem() }
        charge()
    }

    mutating func addItem() {
        names += 1
        let sku = "SKU\(names)"
        items.append(
            Item(sku: sku, price: Int64(random.pick(1...4)) * 1000 + 990, chargedAs: sku))
        if random.chance(20) { items[items.count - 1].offerPeriods = random.pick(1...2) }
    }

    mutating func charge() {
        for index in items.indices { items[index].chargedAs = items[index].sku }
        charged = items.filter(\.renews).map {
            var item = StatementItem(sku: $0.sku)
            item.price = $0.price
            item.offerPrice = $0.offerPeriods > 0 ? 490 : nil
            item.offerPeriod = $0.offerPeriods > 0 ? "P1M" : nil
            return item
        }
    }

    /// One statement of what is so now; some leave parts out, some come in the same millisecond as the last.
    mutating func happen(
        _ type: String?, _ subtype: String? = nil, source: SubscriptionEvent.Source = .notification,
        evidenceID: String? = nil, isPurchase: Bool = false
    ) {
        if !random.chance(15) { now = now.advanced(by: Int64(random.pick(1...100_000))) }
        if isPurchase { purchasedAt = now }
        let omits = random.pick(0...19)
        var event = SubscriptionEvent(
            key: .init(
                signedAt: now,
                evidenceID: evidenceID ?? "\(id)-\(random.next() % 1_000_000)-\(events.count)"),
            source: source, originalTransactionID: id)
        event.type = type
        event.subtype = subtype
        event.status = omits == 0 ? nil : status
        event.transaction = omits == 1 ? nil : transaction
        event.renewal = omits == 2 ? nil : renewal
        if var transaction = event.transaction {
            beside.tell(&transaction)
            event.transaction = transaction
        }
        if var renewal = event.renewal {
            beside.tell(&renewal)
            event.renewal = renewal
        }
        events.append(event)
    }

    /// The n-th kind of id of the next change, as the database wants it.
    private func uuid(_ kind: Int) -> String {
        let digits = String((Int(id) ?? 0) * 1000 + changes.count * 10 + kind, radix: 16)
        return "00000000-0000-7000-8000-" + String(repeating: "0", count: 12 - digits.count)
            + digits
    }

    private var transaction: TransactionStatement {
        var transaction = TransactionStatement(items: charged)
        transaction.transactionID = "\(id)-t\(periods)"
        transaction.purchasedAt = purchasedAt
        transaction.expiresAt = expiresAt
        transaction.revokedAt = revokedAt
        for (place, told) in refunds where transaction.items.indices.contains(place) {
            transaction.items[place].refunds = told
        }
        transaction.reason = reason
        transaction.storefront = storefront
        transaction.currency = "USD"
        transaction.period = "P1M"
        return transaction
    }

    private var renewal: RenewalStatement {
        var renewal = RenewalStatement(
            items: autoRenews ? items.filter(\.renews).map(renewing) : [])
        renewal.autoRenewStatus = autoRenews ? 1 : 0
        renewal.isInBillingRetry = status == 3 ? true : nil
        renewal.expirationIntent = intent
        renewal.gracePeriodExpiresAt = status == 4 ? expiresAt : nil
        renewal.renewalAt = expiresAt
        renewal.consistencyToken = "\(events.count)"
        renewal.period = "P1M"
        return renewal
    }

    private func renewing(_ item: Item) -> StatementItem {
        let isTold = item.increase?.status == "PENDING" || item.increase?.status == "ACCEPTED"
        var told = StatementItem(sku: item.sku)
        told.price = isTold ? item.increase?.price : item.decreaseTo ?? item.price
        told.offerPrice = item.offerPeriods > 1 ? 490 : nil
        told.offerPeriod = item.offerPeriods > 1 ? "P1M" : nil
        told.offerPeriodCount = item.offerPeriods > 1 ? item.offerPeriods - 1 : nil
        told.increaseStatus = item.increase?.status
        told.increasePrice = item.increase?.price
        told.dependentSKUs = item.increase?.dependentSKUs
        return told
    }
}

extension Teller {
    mutating func step() {
        if random.chance(60) { now = now.advanced(by: Int64(random.pick(1...20)) * Self.day) }
        switch random.pick(0...99) {
        case 0..<20: changePrice()
        case 20..<40: answer()
        case 40..<58: renew()
        case 58..<64: rename()
        case 64..<68: replace()
        case 68..<71: putOffer()
        case 71..<76: refund()
        case 76..<81: failToCharge()
        case 81..<85: expire()
        case 85..<88: extend()
        case 88..<91: toggle()
        case 91..<93: happen(nil, source: .status)
        case 93..<95: hint()
        default: nonsense()
        }
    }

    private static func item(_ sku: String, price: Int64) -> StatementItem {
        var item = StatementItem(sku: sku)
        item.price = price
        return item
    }

    private func anItem(_ random: inout StoryRandom) -> Int? {
        items.indices.filter { items[$0].renews }.randomElement(using: &random)
    }

    private mutating func changePrice() {
        guard let index = anItem(&random), items[index].increase == nil,
            items[index].decreaseTo == nil
        else { return }
        let isIncrease = random.chance(75)
        let new = items[index].price + (isIncrease ? 2000 : -500)
        let others = items.filter { $0.renews && $0.sku != items[index].sku }.map(\.sku)
        let dependents = isIncrease && random.chance(40) ? Array(others.prefix(1)) : []
        let isOurs = random.chance(85)
        let sentAt = now.advanced(by: clockAhead)
        let requestID = uuid(1)
        var isGivenUp = false
        if isOurs {
            let progress = ChangeProgress(
                state: random.chance(80) ? .sending : .unknown,
                dueAt: knownExpiresAt ?? expiresAt, since: sentAt)
            var change = TrackedChange(
                changeID: uuid(0), sku: items[index].sku, oldPrice: items[index].price,
                newPrice: new, progress: progress)
            change.dependentSKUs = dependents
            change.requestReferenceID = requestID
            change.sentAt = sentAt
            change.calledRenewalAt = knownExpiresAt ?? expiresAt
            change.sendBy = callsLate ? sentAt.advanced(by: -1) : progress.dueAt
            changes.append(change)
            isGivenUp = giveUp()
        }
        if isIncrease {
            var increase = SubscriptionFacts.Increase(
                status: random.chance(80) ? "SCHEDULED" : "PENDING")
            increase.price = new
            increase.dependentSKUs = dependents
            items[index].increase = increase
        } else {
            items[index].decreaseTo = new
        }
        if isOurs, random.chance(70), !isGivenUp {
            happen(nil, source: .response, evidenceID: requestID)
        }
        if random.chance(80) { happen("PRICE_CHANGE") }
    }

    /// Nobody learned what became of the newest call, and its change ended; what the App Store says of it comes late.
    private mutating func giveUp() -> Bool {
        guard givesUp?.chance(70) == true, let sentAt = changes.last?.sentAt else { return false }
        let last = changes.count - 1
        var left = ChangeProgress(
            state: givesUp?.chance(50) == true ? .aborted : .missed, dueAt: expiresAt,
            since: sentAt.advanced(by: 90_000))
        left.reason = "given_up"
        left.endedAt = left.since
        changes[last].sentAt = nil
        changes[last].doubtfulSince = sentAt
        changes[last].callProgress = left
        changes[last].progress = left
        return true
    }

    private mutating func answer() {
        for index in items.indices where items[index].increase != nil && random.chance(70) {
            if items[index].increase?.status == "SCHEDULED", random.chance(60) {
                items[index].increase?.status = "PENDING"
                happen("PRICE_INCREASE", "PENDING")
            } else {
                items[index].increase?.status = "ACCEPTED"
                happen("PRICE_INCREASE", "ACCEPTED")
            }
        }
    }

    private mutating func renew() {
        guard status != 2, autoRenews else { return }
        for index in items.indices {
            items[index].offerPeriods = max(0, items[index].offerPeriods - 1)
            if let price = items[index].decreaseTo { items[index].price = price }
            items[index].decreaseTo = nil
            guard let increase = items[index].increase else { continue }
            if increase.status == "ACCEPTED", items[index].offerPeriods == 0 {
                items[index].price = increase.price ?? items[index].price
                items[index].increase = nil
            } else if increase.status == "PENDING", random.chance(80) {
                items[index].renews = false
                for other in items.indices where increase.dependentSKUs.contains(items[other].sku) {
                    items[other].renews = random.chance(10)
                }
            }
        }
        if random.chance(5), let index = anItem(&random) { items[index].renews = false }
        items.removeAll { !$0.renews }
        if items.isEmpty { return expire() }
        beginPeriod("RENEWAL")
        happen("DID_RENEW", status == 1 ? nil : "BILLING_RECOVERY")
    }

    private mutating func beginPeriod(_ reason: String) {
        periods += 1
        status = 1
        revokedAt = nil
        refunds = [:]
        intent = nil
        self.reason = reason
        purchasedAt = max(now, purchasedAt.advanced(by: 1))
        expiresAt = purchasedAt.advanced(by: 30 * Self.day)
        knownExpiresAt = nil
        charge()
    }

    private mutating func rename() {
        for index in items.indices where random.chance(70) {
            names += 1
            items[index].sku = "SKU\(names)"
        }
        if random.chance(40) {
            for index in charged.indices {
                guard let item = items.first(where: { $0.chargedAs == charged[index].sku }) else {
                    continue
                }
                charged[index].sku = item.sku
            }
        }
        happen(["METADATA_UPDATE", "MIGRATION", "MIGRATE"][random.pick(0...2)])
    }

    private mutating func replace() {
        guard let index = anItem(&random) else { return }
        if random.chance(60) { items[index].renews = false }
        if random.chance(70) { addItem() }
        if random.chance(40) {
            for place in items.indices { items[place].increase = nil }
            beginPeriod("PURCHASE")
        }
        happen("DID_CHANGE_RENEWAL_PREF", random.chance(50) ? "UPGRADE" : nil)
    }

    /// Seats beside those of the running period, told at once or later, given back at times, at a part of the price.
    mutating func addSeats() {
        if adding.chance(20) {
            additions += 1
            var added = transaction
            added.transactionID = "\(id)-s\(additions)"
            added.purchasedAt = now.advanced(by: Int64(adding.pick(0...9)))
            added.quantity = adding.pick(1...4)
            added.revokedAt = nil
            added.reason = "PURCHASE"
            added.details[.additionalTransactionReason] = .text("SEAT_ADDITION")
            for place in added.items.indices {
                added.items[place].price = added.items[place].price.map { $0 / 2 }
                added.items[place].refunds = []
            }
            untoldAdditions.append(added)
        }
        guard !untoldAdditions.isEmpty, adding.chance(60) else { return }
        var told = untoldAdditions.removeFirst()
        tell(added: told, by: nil)
        guard adding.chance(40) else { return }
        told.revokedAt = now
        tell(added: told, by: "REFUND")
        guard adding.chance(40) else { return }
        told.revokedAt = nil
        tell(added: told, by: "REFUND_REVERSED")
    }

    private mutating func tell(added: TransactionStatement, by type: String?) {
        now = now.advanced(by: Int64(adding.pick(0...100_000)))
        var event = SubscriptionEvent(
            key: .init(signedAt: now, evidenceID: "\(id)-seats-\(events.count)"),
            source: type == nil ? .status : .notification, originalTransactionID: id)
        event.type = type
        event.status = status
        event.transaction = added
        event.renewal = adding.chance(50) ? renewal : nil
        events.append(event)
    }

    private mutating func putOffer() {
        guard let index = anItem(&random) else { return }
        items[index].offerPeriods = random.pick(2...3)
        if items[index].increase != nil { items[index].increase?.status = "SCHEDULED" }
        happen("OFFER_REDEEMED", "UPGRADE")
    }

    private mutating func refund() {
        if beside.chance(50), let place = charged.indices.first {
            // In part, by its amount; the transaction may stand.
            let amount = Int64(beside.pick(1...5)) * 1000
            refunds[place, default: []].append(StatementRefund(amount: amount, at: now))
        }
        revokedAt = now
        status = random.chance(70) ? 5 : 1
        happen(random.chance(80) ? "REFUND" : "REVOKE")
        if random.chance(50) {
            revokedAt = nil
            if beside.chance(70) { refunds = [:] }
            status = 1
            happen("REFUND_REVERSED")
        }
    }

    private mutating func failToCharge() {
        status = random.chance(50) ? 4 : 3
        happen("DID_FAIL_TO_RENEW", status == 4 ? "GRACE_PERIOD" : nil)
        if status == 4, random.chance(50) {
            status = 3
            happen("GRACE_PERIOD_EXPIRED")
        }
    }

    private mutating func expire() {
        status = 2
        autoRenews = false
        intent = random.pick(1...5)
        happen(
            "EXPIRED",
            ["VOLUNTARY", "PRICE_INCREASE", "BILLING_RETRY", "PRODUCT_NOT_FOR_SALE", nil][
                random.pick(0...4)])
        guard random.chance(60) else { return }
        autoRenews = true
        if items.filter(\.renews).isEmpty { addItem() }
        beginPeriod("PURCHASE")
        happen("SUBSCRIBED", "RESUBSCRIBE")
    }

    private mutating func extend() {
        if learnsLate { knownExpiresAt = knownExpiresAt ?? expiresAt }
        expiresAt = expiresAt.advanced(by: Int64(random.pick(1...30)) * Self.day)
        happen("RENEWAL_EXTENDED")
    }

    private mutating func toggle() {
        autoRenews.toggle()
        happen(
            "DID_CHANGE_RENEWAL_STATUS",
            autoRenews ? "AUTO_RENEW_ENABLED" : "AUTO_RENEW_DISABLED")
    }

    /// A V1 notification, unsigned and coarse.
    private mutating func hint() {
        happen("DID_CHANGE_RENEWAL_STATUS", source: .legacy)
        let last = events.count - 1
        events[last].status = nil
        events[last].transaction = nil
        events[last].renewal = nil
        var legacy = LegacyStatement(autoRenews: random.chance(50))
        legacy.isInBillingRetry = random.chance(50) ? true : nil
        legacy.expiresAt = expiresAt.advanced(by: Int64(random.pick(-9...9)) * Self.day)
        events[last].legacy = legacy
    }

    /// What no App Store should sign, and a product meets once.
    private mutating func nonsense() {
        happen(
            ["A_TYPE_OF_TOMORROW", "REFUND", "DID_RENEW", "METADATA_UPDATE"][random.pick(0...3)])
        let last = events.count - 1
        switch random.pick(0...7) {
        case 0: events[last].transaction?.purchasedAt = Instant(milliseconds: -62_135_596_800_000)
        case 1: events[last].transaction?.expiresAt = Instant(milliseconds: 9_000_000_000_000_000)
        case 2:
            events[last].transaction?.purchasedAt = now.advanced(by: -400 * Self.day)
        case 3: events[last].renewal?.items = []
        case 4:
            events[last].renewal?.items = (0..<40).map {
                Self.item("MANY\($0 % 30)", price: -5)
            }
        case 5:
            events[last].status = Int.max
            events[last].transaction?.items = [
                Self.item("", price: 1), Self.item("X", price: -1),
            ]
        case 6:
            var item = StatementItem(sku: "NEVER_SEEN")
            item.increaseStatus = "?"
            events[last].renewal?.items?.append(item)
        default: events[last].transaction?.currency = String(repeating: "x", count: 300)
        }
    }
}
