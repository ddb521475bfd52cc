import Glibc
import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// Genuine signatures over nonsense: folded without what means nothing, or quarantined by name.
@Suite struct StorableTests {
    private static func odd(_ change: (inout SubscriptionEvent) -> Void) -> SubscriptionEvent {
        var event = Story.event(
            5, "DID_RENEW", purchasedOn: 1, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        change(&event)
        return event
    }

    private static func detail(_ change: (inout SignedDetails) -> Void) -> SubscriptionEvent {
        odd { event in
            event.transaction?.details[.isUpgraded] = .flag(true)
            var details = event.transaction?.details ?? SignedDetails()
            change(&details)
            event.transaction?.details = details
        }
    }

    private static let year1 = Instant(milliseconds: -62_135_596_800_000)
    private static let year300000 = Instant(milliseconds: 9_404_947_584_000_000)
    private static let long = String(repeating: "x", count: 100_000)

    private static let cases: [(String, SubscriptionEvent)] = [
        ("transaction.items.price", odd { $0.transaction?.items[0].price = -1 }),
        ("transaction.items.price", odd { $0.transaction?.items[0].price = .max }),
        ("transaction.items.price", odd { $0.transaction?.items[0].price = nil }),
        ("renewal.items.price", odd { $0.renewal?.items?[0].price = .min }),
        (
            "renewal.items.priceIncreaseInfo.price",
            odd { $0.renewal?.items?[0].increasePrice = -15990 }
        ),
        ("transaction.purchaseDate", odd { $0.transaction?.purchasedAt = year1 }),
        ("transaction.revocationDate", odd { $0.transaction?.revokedAt = year300000 }),
        ("renewal.renewalDate", odd { $0.renewal?.renewalAt = year300000 }),
        ("transaction.expiresDate", odd { $0.transaction?.expiresAt = Story.at(0) }),
        ("transaction.storefront", odd { $0.transaction?.storefront = long }),
        ("transaction.transactionId", odd { $0.transaction?.transactionID = long }),
        ("renewal.appAccountToken", odd { $0.renewal?.appAccountToken = long }),
        ("renewal.consistencyToken", odd { $0.renewal?.consistencyToken = long }),
        ("type", odd { $0.type = long }),
        ("status", odd { $0.status = .max }),
        ("transaction.items", odd { $0.transaction?.items.append(.init(sku: "A", price: 1)) }),
        ("transaction.items", odd { $0.transaction?.items.append(.init(sku: "")) }),
        ("renewal.items", odd { $0.renewal?.items?.append(.init(sku: long)) }),
        ("transaction.quantity", odd { $0.transaction?.quantity = .max }),
        ("transaction.quantity", odd { $0.transaction?.quantity = -1 }),
        ("transaction.quantity", odd { $0.transaction?.quantity = 0 }),
        (
            "transaction.revocationPercentage",
            detail { $0[.revocationPercentage] = .number(100_001) }
        ),
        ("transaction.revocationPercentage", detail { $0[.revocationPercentage] = .number(-1) }),
        ("transaction.quantity", odd { $0.transaction?.quantity = 1_000_001 }),
        (
            // Each alone can be meant, and not both.
            "transaction.quantity",
            odd {
                $0.transaction?.items[0].price = 1_000_000_000_000_000
                $0.transaction?.quantity = 2
            }
        ),
        ("transaction.appTransactionId", odd { $0.transaction?.appTransactionID = long }),
        ("transaction.offerIdentifier", detail { $0[.offerIdentifier] = .text(long) }),
        ("transaction.offerPeriod", detail { $0[.offerPeriod] = .text("P1M\0") }),
        ("transaction.revocationDate", detail { $0[.revocationDate] = .number(-1) }),
        ("transaction.revocationReason", detail { $0[.revocationReason] = .number(.max) }),
        ("renewal.renewalPrice", odd { $0.renewal?.price = -1 }),
        ("renewal.offerType", odd { $0.renewal?.offerType = .min }),
        (
            "renewal.eligibleWinBackOfferIds",
            odd {
                $0.renewal?.details[.eligibleWinBackOfferIds] = .texts(
                    [String](repeating: "offer", count: 101))
            }
        ),
    ]

    @Test(arguments: cases.indices)
    func statement_withAValueThatMeansNothing_isStoredWithoutIt(index: Int) throws {
        let (name, event) = Self.cases[index]

        let storable = try event.storable()

        #expect(storable.ignored == [name])
        #expect(try storable.storable() == storable)
        #expect(Story.fold([Story.bought, storable]).state.facts.items.map(\.sku) == ["A"])
    }

    @Test func statement_plain_isStoredAsItIs() throws {
        #expect(try Story.pending.storable() == Story.pending)
    }

    @Test func statement_withoutAMomentOrASubscription_isRefusedByName() {
        var early = Story.bought
        early.key.signedAt = Self.year1
        var nobody = Story.bought
        nobody.originalTransactionID = Self.long

        #expect(throws: StatementFault.noMoment(milliseconds: -62_135_596_800_000)) {
            try early.storable()
        }
        #expect(throws: StatementFault.noSubscription) { try nobody.storable() }
    }

    @Test func fold_thousandItemsInManyStatements_staysBounded() {
        let skus = (0..<1000).map { "SKU\($0)" }
        let events = (0..<20).map { number in
            Story.event(
                Int64(number), "DID_RENEW", purchasedOn: Int64(number),
                charged: skus.map { Story.charged($0) }, renewing: skus.map { Story.renewing($0) })
        }

        let began = Self.computedSeconds()
        let state = Story.fold(events).state
        let time = Self.computedSeconds() - began

        #expect(state.facts.items.count == 1000)
        #expect(state.money.count == 20_000)
        // Two seconds would be a hundred times what it takes; a product of the two counts takes longer still.
        #expect(time < 20)
    }

    /// What this thread has computed: a machine that stands still computes nothing.
    private static func computedSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
