import Pricing

/// The options that say how a batch is to be delivered, for `plan` and `submit` alike.
enum BatchTermOptions {
    static let grouping = ValueOption(
        "grouping", "HOW", "which items of a subscription share a call; see below",
        choices: RequestGrouping.allCases.map(\.rawValue))
    static let waves = ValueOption(
        "waves", "LIST", "send in waves: 1%,10%,rest or USA,GBR+IRL,rest; see below")

    static let all: [any OptionSpecification] = [grouping, waves]

    static let discussion = """
        --grouping: increases that need no consent share one call a subscription, decreases another, and each that \
        needs consent is alone; `item` sends every item alone, `subscription` all that can go at the same time. \
        --waves: shares of all subscriptions (by a hash of the id), each in addition to those before it, or \
        storefronts; all items of a subscription are in one wave. The first wave goes with the approval, \
        which covers all; the others wait for `repricer release`, or name their time: 10%@2026-12-01T00:00:00Z, \
        rest@+2d (after the wave before it), 1%@hand.
        """

    static func terms(_ arguments: ParsedArguments) throws(UsageError) -> BatchTerms {
        var terms = BatchTerms()
        if let text = arguments[grouping], let grouping = RequestGrouping(rawValue: text) {
            terms.grouping = grouping
        }
        if let text = arguments[waves] {
            do throws(WavePlan.Fault) { terms.waves = try WavePlan(text) } catch {
                throw UsageError("--waves: \(error)")
            }
        }
        return terms
    }
}
