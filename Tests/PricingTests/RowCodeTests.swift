import Testing

@testable import Pricing

struct RowCodeTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var row: BatchRow
        var context: JudgeContext
        var change: @Sendable (inout SubscriptionFacts) -> Void
        var code: RowCode?

        init(
            _ name: String, _ code: RowCode?, row: BatchRow = .make(),
            context: JudgeContext = JudgeContext(),
            change: @escaping @Sendable (inout SubscriptionFacts) -> Void = { _ in }
        ) {
            self.name = name
            self.row = row
            self.context = context
            self.change = change
            self.code = code
        }

        var testDescription: String { name }
    }

    static func open(_ sku: String, _ state: ChangeState) -> JudgeContext {
        JudgeContext(openChanges: [
            .init(changeID: "c1", sku: sku, newPrice: 11_990, dependentSKUs: [], state: state)
        ])
    }

    static func increase(
        _ status: String, _ facts: inout SubscriptionFacts, sku: String = "ITEM"
    ) {
        facts.edit(sku) {
            $0.increase = .init(status: status, price: 11_990, dependentSKUs: [])
            $0.renewalPrice = 11_990
        }
    }

    static let cases = [
        Case("nothing wrong", nil),
        Case("other currency", .currencyMismatch, row: .make(currency: "EUR")),
        Case("currency not sent", .unknownSubscription) { $0.currency = nil },
        Case("other storefront", .storefrontMismatch, row: .make(storefront: "CAN")),
        Case("same storefront", nil, row: .make(storefront: "USA")),
        Case("no such item", .unknownItem, row: .make(sku: "NONE")),
        Case("item dropped at the renewal", .unknownItem) { $0.edit { $0.renews = false } },
        Case("item without a price", .unknownItem) {
            $0.edit {
                $0.currentPrice = nil; $0.renewalPrice = nil
            }
        },
        Case("item that joins at the renewal", nil) { $0.edit { $0.currentPrice = nil } },
        // Before a move to another storefront the renewal is told in its currency.
        Case("a smaller number in another currency at the renewal", nil) {
            $0.renewalCurrency = "KWD"
            $0.edit { $0.renewalPrice = 3000 }
        },
        Case("the row's number in another currency at the renewal", nil) {
            $0.renewalCurrency = "CAD"
            $0.edit { $0.renewalPrice = 12_990 }
        },
        Case("item that joins at a renewal in another currency", .unknownItem) {
            $0.renewalCurrency = "CAD"
            $0.edit { $0.currentPrice = nil }
        },
        Case("active, no item renews", .unknownItem) {
            $0.edit { $0.renews = false }
            $0.edit("OTHER") { $0.renews = false }
        },
        Case("same price", .noChange, row: .make(9990)),
        Case("same price, Apple has told of another", .alreadyCommunicated, row: .make(9990)) {
            increase("PENDING", &$0)
        },
        Case("the price that Apple has told of", .noChange, row: .make(11_990)) {
            increase("PENDING", &$0)
        },
        Case("same price, a decrease was set", .conflictOpenChange, row: .make(9990)) {
            $0.edit { $0.renewalPrice = 7990 }
        },
        Case("same price, a higher one was agreed elsewhere", .conflictOpenChange, row: .make(9990))
        {
            $0.edit { $0.renewalPrice = 12_990 }
        },
        Case("the price that was agreed elsewhere", .noChange, row: .make(12_990)) {
            $0.edit { $0.renewalPrice = 12_990 }
        },
        Case(
            "between today's price and the one that was agreed elsewhere", .conflictOpenChange,
            row: .make(10_990)
        ) { $0.edit { $0.renewalPrice = 12_990 } },
        Case(
            "a cent below the price that was agreed elsewhere", .conflictOpenChange,
            row: .make(12_980)
        ) { $0.edit { $0.renewalPrice = 12_990 } },
        Case("above the price that was agreed elsewhere", nil, row: .make(13_990)) {
            $0.edit { $0.renewalPrice = 12_990 }
        },
        Case("below today's price, a higher one was agreed elsewhere", nil, row: .make(8990)) {
            $0.edit { $0.renewalPrice = 12_990 }
        },
        Case("below a price that Apple has told of", .alreadyCommunicated, row: .make(10_990)) {
            increase("ACCEPTED", &$0)
        },
        Case("below a price that Apple has scheduled", .conflictOpenChange, row: .make(10_990)) {
            increase("SCHEDULED", &$0)
        },
        Case("expected another price", .drifted, row: .make(expected: 8990)),
        Case("expected this price", nil, row: .make(expected: 9990)),
        Case("our change is open", .conflictOpenChange, context: open("ITEM", .queued)),
        Case("our change waits", .conflictOpenChange, context: open("ITEM", .pendingConsent)),
        Case("our change has ended", nil, context: open("ITEM", .effective)),
        Case("a sibling's change is open", nil, context: open("OTHER", .queued)),
        Case("Apple has scheduled one", .conflictOpenChange) { increase("SCHEDULED", &$0) },
        Case("a status that nobody knows", .conflictOpenChange) { increase("NOVEL", &$0) },
        Case("Apple has told of one", .alreadyCommunicated) { increase("PENDING", &$0) },
        Case("Apple has an accepted one", .alreadyCommunicated) { increase("ACCEPTED", &$0) },
        Case("a sibling has one", nil) { increase("PENDING", &$0, sku: "OTHER") },
        Case("ours, communicated", .conflictOpenChange, context: open("ITEM", .accepted)) {
            increase("ACCEPTED", &$0)
        },
        Case("names itself", .dependentSelf, row: .make(dependents: ["OTHER", "ITEM"])),
        Case("unknown dependent", .dependentUnknown, row: .make(dependents: ["FAR"])),
        Case(
            "dependent on a sibling subscription", nil, row: .make(dependents: ["FAR"]),
            context: JudgeContext(siblingSKUs: ["FAR"])),
        Case("dependent that is dropped", .dependentUnknown, row: .make(dependents: ["OTHER"])) {
            $0.edit("OTHER") { $0.renews = false }
        },
        Case("expired", .notActive) { $0.status = 2 },
        Case("a family member's", .notActive) { $0.ownershipType = "FAMILY_SHARED" },
        Case("revoked", .notActive) { $0.status = 5 },
        Case("status not sent", .notActive) { $0.status = nil },
        Case("expired, no item renews", .notActive) {
            $0.status = 2
            $0.edit { $0.renews = false }
            $0.edit("OTHER") { $0.renews = false }
        },
        Case("renewal off", .autoRenewOff) { $0.autoRenews = false },
        Case("renewal off, no item renews", .autoRenewOff) {
            $0.autoRenews = false
            $0.edit { $0.renews = false }
            $0.edit("OTHER") { $0.renews = false }
        },
        Case("billing retry", .billingRetry) { $0.status = 3 },
        Case("billing retry by the flag", .billingRetry) { $0.isInBillingRetry = true },
        Case("grace period", .gracePeriod) {
            $0.status = 4
            $0.isInBillingRetry = true
        },
        Case("in its offer", .itemInOffer) {
            $0.edit { $0.offer = .init(price: 0, period: "P1M", periodsLeft: nil, isRunning: true) }
        },
        Case("offer next", .itemInOffer) {
            $0.edit { $0.offer = .init(price: 0, period: "P1M", periodsLeft: 2, isRunning: false) }
        },
        Case("offer over", nil) {
            $0.edit { $0.offer = .init(price: 0, period: "P1M", periodsLeft: 0, isRunning: false) }
        },
        Case("a sibling's offer", nil) { $0.edit("OTHER") { $0.offer = .init(isRunning: true) } },
        Case("increase in India", .indiaIncrease) { $0.storefront = "IND" },
        Case("decrease in India", nil, row: .make(7990)) { $0.storefront = "IND" },
        Case("renewal date not sent", .unknownSubscription) { $0.renewalAt = nil },
        Case("renewal date only as the end", nil) {
            $0.expiresAt = $0.renewalAt
            $0.renewalAt = nil
        },
        Case("storefront not sent", .unknownSubscription) { $0.storefront = nil },
        Case("storefront only in the file", nil, row: .make(storefront: "USA")) {
            $0.storefront = nil
        },
        Case("period not sent", .unknownSubscription) { $0.period = nil },
        Case("period that cannot be stepped", .unknownSubscription) { $0.period = "P1Q" },
        Case(
            "held back beyond the calendar", .malformedRow,
            row: .make(onOrAfter: "9999-12-02")),
        Case("held back to its end", nil, row: .make(onOrAfter: "9999-12-01")),
        Case("the first code counts", .drifted, row: .make(expected: 8990)) {
            $0.status = 3
            $0.storefront = "IND"
        },
    ]

    @Test(arguments: cases)
    func row_whenJudged_hasTheFirstCodeThatApplies(_ item: Case) {
        var facts = SubscriptionFacts.make()
        item.change(&facts)

        let plan = Judge.make().one(item.row, facts, item.context)

        #expect(plan.code == item.code)
        #expect((plan.effectiveAt == nil) == (item.code != nil))
        #expect(plan.fault.map { !$0.message.isEmpty && !$0.remedy.isEmpty } ?? true)
    }

    /// Swift takes the two for the same text, PostgreSQL and the App Store do not.
    @Test func skuWithAnotherEncodingOfAnAccent_isNotKnown() {
        var facts = SubscriptionFacts.make()
        facts.edit { $0.sku = "CAF\u{C9}" }
        facts.edit("OTHER") { $0.sku = "TH\u{C9}" }
        let context = JudgeContext()

        let same = Judge.make().one(
            .make(sku: "CAF\u{C9}", dependents: ["TH\u{C9}"]), facts, context)
        let sku = Judge.make().one(.make(sku: "CAFE\u{301}"), facts, context)
        let dependent = Judge.make().one(
            .make(sku: "CAF\u{C9}", dependents: ["THE\u{301}"]), facts, context)

        #expect(same.code == nil)
        #expect(sku.code == .unknownItem)
        #expect(sku.fault?.message.contains("other Unicode characters") == true)
        #expect(dependent.code == .dependentUnknown)
    }

    /// Nobody has said that the subscription has ended, so the row is not to be removed but its state to be read.
    @Test func row_whoseStatusNobodyTold_isNotSaidToBeInactive() throws {
        let told = SubscriptionFacts.make()
        var untold = told
        untold.status = nil
        var ended = told
        ended.status = 2

        let notKnown = try #require(Judge.make().one(.make(), untold, JudgeContext()).fault)
        let known = try #require(Judge.make().one(.make(), ended, JudgeContext()).fault)

        #expect(notKnown.message == "no statement tells whether the subscription is active")
        #expect(notKnown.remedy.contains("repricer sync"))
        #expect(known.message == "the subscription is not active (status 2)")
    }

    /// A change that Apple has can be undone, and one that waits here be aborted. One that a customer was asked about ends
    /// by itself.
    @Test(
        arguments: [
            (ChangeState.awaitingApproval, "wait until it ends, or abort its batch"),
            (.queued, "wait until it ends, or abort its batch"),
            (.sending, "wait until it ends; repricer timeline tells how it stands"),
            (.unknown, "wait until it ends; repricer timeline tells how it stands"),
            (.scheduled, "wait until it ends, or take it back with repricer undo"),
            (.pendingConsent, "wait until it ends; repricer timeline tells how it stands"),
            (.accepted, "wait until it ends; repricer timeline tells how it stands"),
        ])
    func openChange_saysWhatEndsIt(state: ChangeState, remedy: String) {
        let plan = Judge.make().one(.make(), .make(), Self.open("ITEM", state))

        #expect(plan.fault?.remedy == remedy)
    }

    /// Prices are told with the decimals of their currency, and of one that Apple does not list with two.
    @Test(
        arguments: [
            ("JPY", 980_000, 900_000, "ITEM costs 980 JPY, not 900 JPY as expected"),
            ("USD", 9900, 8900, "ITEM costs 9.90 USD, not 8.90 USD as expected"),
            ("XTS", 9900, 8900, "ITEM costs 9.90 XTS, not 8.90 XTS as expected"),
        ] as [(String, Int64, Int64, String)])
    func drift_isToldInTheDecimalsOfTheCurrency(
        currency: String, price: Int64, expected: Int64, message: String
    ) {
        let plan = Judge.make().one(
            .make(2 * price, currency: currency, expected: expected),
            .make(price: price, currency: currency))

        #expect(plan.fault?.message == message)
    }

    @Test func row_whenTheSubscriptionIsUnknown_saysSo() {
        let plan = Judge.make().one(.make(), nil)

        #expect(plan.code == .unknownSubscription)
        #expect(plan.newPrice == 12_990)
        #expect(plan.currentPrice == nil)
    }

    @Test func rows_whenDuplicate_allCarryTheCode() {
        let rows = [
            BatchRow.make(line: 2), .make(sku: "OTHER", line: 3), .make(13_990, line: 4),
            .make(line: 9),
        ]

        let plans = Judge.make().judge(rows: rows, facts: .make(), context: JudgeContext())

        #expect(plans.map(\.code) == [.duplicateRow, nil, .duplicateRow, .duplicateRow])
        #expect(plans[0].fault?.message.contains("line 4, 9") == true)
    }

    /// What the file shows by itself counts before what the facts hold against a row.
    @Test func rows_whenTheFileAndTheFactsFindFaults_carryTheFilesOne() {
        let duplicates: [BatchRow] = [
            .make(line: 2, currency: "EUR"), .make(line: 3, storefront: "CAN"),
        ]
        let absent: [BatchRow] = [.make(sku: "NONE", line: 2), .make(sku: "NONE", line: 3)]
        let shared: [BatchRow] = [
            .make(line: 2, currency: "EUR", dependents: ["THIRD"]),
            .make(4200, sku: "OTHER", line: 3, dependents: ["THIRD"]),
        ]
        let chained: [BatchRow] = [
            .make(line: 2, dependents: ["OTHER"], expected: 1),
            .make(4200, sku: "OTHER", line: 3, dependents: ["NOBODY"]),
        ]
        let facts = SubscriptionFacts.make { $0.items.append(.make("THIRD", price: 990)) }
        func codes(_ rows: [BatchRow], _ facts: SubscriptionFacts?) -> [RowCode?] {
            Judge.make().judge(rows: rows, facts: facts, context: JudgeContext()).map(\.code)
        }

        #expect(codes(duplicates, facts) == [.duplicateRow, .duplicateRow])
        #expect(codes(absent, facts) == [.duplicateRow, .duplicateRow])
        #expect(codes(duplicates, nil) == [.duplicateRow, .duplicateRow])
        #expect(codes(shared, facts) == [.dependentShared, .dependentShared])
        #expect(codes(chained, facts) == [.dependentChained, .dependentChained])
        #expect(codes([.make(dependents: ["ITEM"], expected: 1)], facts) == [.dependentSelf])
        #expect(codes([.make(dependents: ["ITEM"])], nil) == [.dependentSelf])
        #expect(codes([.make(dependents: ["FAR"], expected: 1)], facts) == [.drifted])
    }

    /// An item of another subscription that a row of the same file names too, or that has dependents there.
    @Test func rows_acrossSubscriptions_carryTheFilesFaultFirst() {
        let row = BatchRow.make(currency: "EUR", dependents: ["2000000000000002/FAR"])
        var chained = JudgeContext()
        chained.siblingSKUs = ["2000000000000002/FAR"]
        chained.fileObstacles = ["2000000000000002/FAR": .parent(["DEEP"])]
        var shared = JudgeContext()
        shared.siblingSKUs = chained.siblingSKUs
        shared.claims = [
            "2000000000000002/FAR": [
                DependentClaim(
                    originalTransactionID: "2000000000000003", sku: "ELSE", line: 9)
            ]
        ]
        var open = shared
        open.claims["2000000000000002/FAR"]?[0].line = nil

        #expect(Judge.make().one(row, .make(), chained).code == .dependentChained)
        #expect(Judge.make().one(row, .make(), shared).code == .dependentShared)
        #expect(Judge.make().one(row, .make(), open).code == .currencyMismatch)
    }

    @Test func codes_whenListed_keepTheContractsOrder() {
        let names = """
            malformed_row bad_transaction_id bad_sku bad_price price_decimals unknown_currency \
            currency_mismatch storefront_mismatch unknown_subscription unknown_item duplicate_row \
            no_change drifted conflict_open_change dependent_self dependent_unknown \
            dependent_shared dependent_chained not_active auto_renew_off billing_retry \
            grace_period item_in_offer india_increase already_communicated
            """

        #expect(RowCode.allCases.map(\.rawValue) == names.split(separator: " ").map(String.init))
    }

    @Test func fault_whenShown_namesFileLineCodeAndRemedy() {
        let fault = RowFault(.badPrice, "'x' is no price", remedy: "write it like 12.99")

        #expect(
            fault.text(file: "batch.csv", line: 7)
                == "batch.csv:7: bad_price: 'x' is no price; write it like 12.99")
    }
}
