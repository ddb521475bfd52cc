import Testing

@testable import Calls
@testable import Facts

/// What one process remembers of calls, beside what all of them have written down.
@Suite struct RecentAnswersTests {
    private static func scope(
        wasParked: Bool = false, staleTokens: Int = 0, isHalted: Bool = false
    ) -> CallScope {
        CallScope(
            batchID: "batch", storefront: "USA", wasParked: wasParked, staleTokens: staleTokens,
            isHalted: isHalted)
    }

    private static func refusal(
        _ meaning: StoreRefusal.Meaning, _ code: Int = 4_030_010
    ) -> StoreRefusal {
        StoreRefusal(code: code, name: "code", message: "", meaning: meaning)
    }

    private static let batch = RefusalVerdict.systemic(.batch(CallScope(batchID: "batch")))

    @Test func refusal_inABatchThatAnotherProcessHasHalted_endsNothing() {
        let recent = RecentAnswers()

        let verdict = recent.judge(
            Self.refusal(.reject), of: "1", .priceChange, [Self.scope(isHalted: true)], realNow: 0)

        #expect(verdict == Self.batch)
    }

    @Test func refusal_whileTheServiceHasHalted_endsNothing() {
        let recent = RecentAnswers()
        var controls = ServiceControlQueries.Everything(isPaused: false, isHeld: false)
        controls.haltedAt = 0
        recent.note(controls)

        let verdict = recent.judge(
            Self.refusal(.reject), of: "1", .priceChange, [Self.scope()], realNow: 0)

        #expect(verdict == .systemic(.all))
    }

    /// Rows that were parked yesterday end no more freely than others.
    @Test func refusalsOfRowsThatWereParked_areCountedWhereTheyWouldEnd() {
        let recent = RecentAnswers()

        let verdicts = (0..<30).map { number in
            recent.judge(
                Self.refusal(.reject), of: "\(number)", .priceChange,
                [Self.scope(wasParked: true)], realNow: 0)
        }

        #expect(verdicts.count { $0 == .believed } < 15)
        #expect(verdicts.last == Self.batch)
    }

    /// As many odd ones as are known may come again, and more. At 45 in a row nobody is asked any more.
    @Test(arguments: [
        (0, StoreRefusal.Meaning.suspect, 3), (1, .suspect, 5), (4, .suspect, 11),
        (9, .suspect, 21),
        (200, .suspect, 45), (200, .haltBatch, 45), (200, .reject, 10),
    ])
    func refusalsBesideParkedRows_areCountedFurther(
        parked: Int, meaning: StoreRefusal.Meaning, halts: Int
    ) {
        let recent = RecentAnswers()
        var scope = Self.scope()
        scope.parked = [4_030_010: parked, 4_030_011: 1]

        let verdicts = (1...50).map { number in
            recent.judge(
                Self.refusal(meaning), of: "\(number)", .priceChange, [scope], realNow: 0)
        }

        #expect(verdicts.firstIndex(of: Self.batch) == halts - 1)
        #expect(verdicts[(halts - 1)...].allSatisfy { $0 == Self.batch })
    }

    /// Another process's probe was answered, or a person has resumed it: the refusals from before are history.
    @Test(arguments: [(30_000, false), (61_000, true)])
    func streak_ofABatchThatGoesOn_isForgottenAfterAMinute(realNow: Int64, isForgotten: Bool) {
        let recent = RecentAnswers()
        for number in 0..<15 {
            _ = recent.judge(
                Self.refusal(.reject), of: "\(number)", .priceChange, [Self.scope()], realNow: 0)
        }

        recent.state.withLock {
            $0.forgetEnded(.priceChange, [Self.scope()], realNow: realNow)
        }
        let verdict = recent.judge(
            Self.refusal(.reject), of: "next", .priceChange, [Self.scope()], realNow: realNow)

        #expect(verdict == (isForgotten ? .believed : Self.batch))
    }

    /// The product has no price in one storefront, and two batches meet it before any call succeeds.
    @Test func storefrontOfTwoBatches_withoutAPrice_haltsThatStorefrontInEach() {
        let recent = RecentAnswers()
        recent.noteLive(batches: 2)

        let verdicts = (0..<12).map { number in
            recent.judge(
                Self.refusal(.haltStorefront, 4_000_134), of: "\(number)", .priceChange,
                [CallScope(batchID: number % 2 == 0 ? "one" : "two", storefront: "USA")],
                realNow: 0)
        }

        for (number, verdict) in verdicts.enumerated().dropFirst(4) {
            #expect(
                verdict
                    == .systemic(
                        .storefront(
                            CallScope(
                                batchID: number % 2 == 0 ? "one" : "two", storefront: "USA"))),
                "\(number)")
        }
        #expect(!verdicts.contains(.believed))
    }

    @Test func streak_ofABatchThatIsStillHalted_isKept() {
        let recent = RecentAnswers()
        for number in 0..<15 {
            _ = recent.judge(
                Self.refusal(.reject), of: "\(number)", .priceChange, [Self.scope()], realNow: 0)
        }

        recent.state.withLock {
            $0.forgetEnded(.priceChange, [Self.scope(isHalted: true)], realNow: 600_000)
        }
        let verdict = recent.judge(
            Self.refusal(.reject), of: "next", .priceChange, [Self.scope()], realNow: 600_000)

        #expect(verdict == Self.batch)
    }

    /// Where new tokens are taken, old ones say nothing; once new ones are refused, few of them suffice.
    @Test func staleTokens_whereTheStatusesShowGoodOnes_haltNothing() {
        let recent = RecentAnswers()
        let stale = Self.refusal(.refresh, 4_000_082)
        recent.noteSuccess(.priceChange, [Self.scope(staleTokens: 1)])

        let old = (0..<40).map {
            recent.judge(stale, of: "\($0)", .priceChange, [Self.scope()], realNow: 0)
        }
        let new = (0..<5).map {
            recent.judge(stale, of: "\($0)", .priceChange, [Self.scope(staleTokens: 1)], realNow: 0)
        }

        #expect(old.allSatisfy { $0 == .believed })
        #expect(new.last == Self.batch)
        let again = recent.judge(stale, of: "old", .priceChange, [Self.scope()], realNow: 0)
        #expect(again == Self.batch)
    }

    @Test func statusThatIsAnswered_provesTheKeyAndNothingElse() {
        let recent = RecentAnswers()
        for number in 0..<9 {
            _ = recent.judge(Self.refusal(.reject), of: "\(number)", .cancel, [], realNow: 0)
        }

        recent.state.withLock { $0.noteGoodKey(.cancel) }
        let verdict = recent.judge(Self.refusal(.reject), of: "next", .cancel, [], realNow: 0)

        #expect(verdict == .systemic(.kind))
    }

    /// Each call is preceded by a status that is answered, so that our key is good, and the kind is refused for it all the
    /// same.
    @Test func callsRefusedForOurKey_whileStatusesAreAnswered_haltTheirKind() {
        let recent = RecentAnswers()
        let refusal = Self.refusal(.haltService, 4_010_000)

        let verdicts = (0..<6).map { number in
            if recent.doubtsKey(.cancel) { recent.state.withLock { $0.noteGoodKey(.cancel) } }
            return recent.judge(refusal, of: "\(number)", .cancel, [], realNow: 0)
        }

        #expect(verdicts.first == .parked)
        #expect(verdicts.last == .systemic(.kind))
        #expect(!verdicts.contains(.systemic(.all)))
    }

    /// The other batch has one odd row, or was not called yet: nobody knows how it fares.
    @Test(arguments: [(StoreRefusal.Meaning.refresh, 4_000_082), (.haltService, 4_010_000)])
    func refusalsOfOneBatch_whileOthersAreNotKnown_haltThatBatchAlone(
        meaning: StoreRefusal.Meaning, code: Int
    ) {
        let recent = RecentAnswers()
        recent.noteLive(batches: 2)
        let refusal = Self.refusal(meaning, code)
        let odd = recent.judge(
            refusal, of: "odd", .priceChange, [CallScope(batchID: "other", storefront: "USA")],
            realNow: 0)

        let verdicts = (0..<29).map { number in
            recent.judge(refusal, of: "\(number)", .priceChange, [Self.scope()], realNow: 0)
        }

        #expect(odd == .believed || odd == .parked)
        #expect(verdicts.last == Self.batch)
        #expect(!verdicts.contains(.systemic(.all)))
    }

    @Test func refusalsOfEveryBatch_haltAll() {
        let recent = RecentAnswers()
        recent.noteLive(batches: 3)
        let refusal = Self.refusal(.haltService, 4_010_000)

        let verdicts = (0..<12).map { number in
            recent.judge(
                refusal, of: "\(number)", .priceChange,
                [CallScope(batchID: "batch \(number % 3)", storefront: "USA")], realNow: 0)
        }

        #expect(verdicts.last == .systemic(.all))
    }

    /// Many batches of which each has met a few: none is waited for any more.
    @Test func refusalsOfManyBatches_haltAll_beforeFiftyRowsEnd() {
        let recent = RecentAnswers()
        recent.noteLive(batches: 40)

        let verdicts = (0..<60).map { number in
            recent.judge(
                Self.refusal(.reject), of: "\(number)", .priceChange,
                [CallScope(batchID: "batch \(number % 8)", storefront: "USA")], realNow: 0)
        }

        #expect(verdicts.count { $0 == .believed } < 50)
        #expect(verdicts.last == .systemic(.all))
    }

    /// The log says what the code says, and not more.
    @Test(arguments: [
        (StoreRefusal.Meaning.haltService, 4_010_000, "key"),
        (.suspect, 4_040_010, "no transaction"),
        (.refresh, 4_000_082, "token is stale"), (.haltBatch, 4_000_173, "form"),
        (.suspect, 4_040_016, "does not find"), (.haltStorefront, 4_000_134, "storefront"),
        (.suspect, 4_000_999, "does not document"), (.haltService, 403, "HTTP 403 without a code"),
    ])
    func refusal_inTheLog_isSaidAsAppleMeansIt(
        meaning: StoreRefusal.Meaning, code: Int, word: String
    ) {
        #expect(Self.refusal(meaning, code).inWords.contains(word))
    }
}
