/// How a batch is to be delivered: agreed at its submission, approved with it, never changed.
package struct BatchTerms: Hashable, Sendable {
    package var grouping: RequestGrouping
    /// Nil: all rows may go from the approval on.
    package var waves: WavePlan?
    package var guards: [GuardRail]
    /// How many subscriptions are never sent, in hundredths of a percent, at most `holdoutMax`: who is sent is compared
    /// with them.
    package var holdout: Int

    /// Half of them: with more, the comparison would be the rule and the change the exception.
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

    /// `5`, `2.5` or `5%` as hundredths of a percent; nil for what is no share above 0 and up to half.
    package static func holdout(_ text: String) -> Int? {
        let share = WavePlan.hundredths(text.hasSuffix("%") ? String(text.dropLast()) : text)
        return share.flatMap { (1...holdoutMax).contains($0) ? $0 : nil }
    }
}
