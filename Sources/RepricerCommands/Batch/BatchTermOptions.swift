import Batches
import Pricing

/// The options that say how a batch is to be delivered, for `plan` and `submit` alike.
enum BatchTermOptions {
    static let grouping = ValueOption(
        "grouping", "HOW", "which items of a subscription share a call; see below",
        choices: RequestGrouping.allCases.map(\.rawValue))
    static let waves = ValueOption(
        "waves", "LIST", "send in waves: 1%,10%,rest or USA,GBR+IRL,rest; see below")

    static let haltIf = ValueOption(
        "halt-if", "LIST",
        "pause the batch by itself: errors>2%,declined>5%,moved>5%")

    static let holdout = ValueOption(
        "holdout", "PERCENT", "hold so many subscriptions out, to compare with; 5, at most 50")

    static let all: [any OptionSpecification] = [grouping, waves]

    static let discussion = """
        --grouping: increases that need no consent share one call a subscription, decreases another, and each that \
        needs consent is alone; `item` sends every item alone, `subscription` all that can go at the same time.
        --waves: shares of all subscriptions (by a hash of the id), each in addition to those before it, or \
        storefronts; all items of a subscription are in one wave. The first wave goes with the approval, \
        which covers all; the others wait for `repricer release`, or name their time: 10%@2026-12-01T00:00:00Z, \
        rest@+2d (after the wave before it), 1%@hand.
        """

    static let haltDiscussion = """
        --halt-if pauses the batch when more than so many percent of its changes were refused by the App Store (of \
        those answered: errors), of its customers did not consent (of those asked: declined) or turned renewal off (of \
        those told: auto_renew_off), or of its rows missed their renewal (of those queued or sent: moved). \
        Nothing is judged before 50 are counted; errors>2%/200 waits for 200. Errors of batches with fewer rows are \
        counted together, within a day. Left out it is errors>5%/50; `none` \
        switches that off. Only a person resumes; then what was sent before counts no more.
        """

    static let holdoutDiscussion = """
        --holdout: so many subscriptions, chosen by a hash of the file and the id, are stored and never sent; they end \
        with the approval (aborted, held_out), and `report holdout` compares who left among them and among the others.
        """

    static func terms(_ arguments: ParsedArguments) throws(UsageError) -> BatchTerms {
        var terms = BatchTerms(guards: GuardRail.byDefault)
        if let text = arguments[grouping], let grouping = RequestGrouping(rawValue: text) {
            terms.grouping = grouping
        }
        if let text = arguments[waves] {
            let plan: WavePlan
            do throws(WavePlan.Fault) { plan = try WavePlan(text) } catch {
                throw UsageError("--waves: \(error)")
            }
            if let unknown = plan.storefronts.first(where: { !AppStorefronts.all.contains($0) }) {
                throw UsageError("--waves: the App Store has no storefront \(unknown)")
            }
            terms.waves = plan
        }
        if let text = arguments[haltIf] {
            do throws(GuardRail.Fault) { terms.guards = try GuardRail.list(text) } catch {
                throw UsageError("--halt-if: \(error)")
            }
        }
        if let text = arguments[holdout] {
            guard let share = BatchTerms.holdout(text) else {
                throw UsageError(
                    "--holdout: '\(text)' is no share; write 5 or 2.5, above 0 and at most 50 (percent)"
                )
            }
            terms.holdout = share
        }
        return terms
    }
}
