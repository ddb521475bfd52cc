import Pricing

/// One judge for each wave of a batch, which judges its rows as of the release of the wave.
struct WaveJudges: Sendable {
    private let plan: WavePlan
    /// The judge of each wave; nil for a wave that may be sent at once.
    private let judges: [Judge?]

    /// - Parameter judge: Judges rows of a batch that is approved now and has no waves.
    init(_ plan: WavePlan, _ judge: Judge) {
        self.plan = plan
        judges = plan.earliestReleases(approvedAt: judge.now).map { release in
            release > judge.now ? judge.calling(from: release) : nil
        }
    }

    /// The judge of a subscription's rows; nil where they may be sent at once, or where the subscription is unknown.
    ///
    /// - Parameter storefront: What the rows say, where the facts do not.
    func judge(of facts: SubscriptionFacts?, storefront: String?) -> Judge? {
        guard let facts,
            let wave = plan.wave(
                ofSubscription: facts.originalTransactionID,
                storefront: facts.storefront ?? storefront)
        else { return nil }
        return judges[wave - 1]
    }
}
