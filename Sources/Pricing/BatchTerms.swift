/// How a batch is to be delivered. The terms are given at its submission, approved with it, and never changed.
package struct BatchTerms: Hashable, Sendable {
    package var grouping: RequestGrouping
    /// The waves; nil where all rows may be sent from the approval on.
    package var waves: WavePlan?
    package var guards: [GuardRail]
    /// The share of subscriptions that are held out (never sent), in hundredths of a percent, at most `holdoutMax`. The
    /// others are compared with them.
    package var holdout: Int

    /// The largest share is a half, because with more than that most subscriptions would not be changed.
    package static let holdoutMax = 5000

    package init(
        grouping: RequestGrouping = .announced, waves: WavePlan? = nil, guards: [GuardRail] = [],
        holdout: Int = 0
    ) {
        self.grouping = grouping
        self.waves = waves
        self.guards = guards
        self.holdout = holdout
    }

    /// Reads `5`, `2.5` or `5%` as hundredths of a percent; nil for anything but a share above 0 % and up to 50 %.
    package static func holdout(_ text: String) -> Int? {
        let share = WavePlan.hundredths(text.hasSuffix("%") ? String(text.dropLast()) : text)
        return share.flatMap { (1...holdoutMax).contains($0) ? $0 : nil }
    }
}
