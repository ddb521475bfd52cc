/// How a batch is to be delivered: agreed at its submission, approved with it, never changed.
package struct BatchTerms: Hashable, Sendable {
    package var grouping: RequestGrouping
    /// Nil: all rows may go from the approval on.
    package var waves: WavePlan?
    package var guards: [GuardRail]

    package init(
        grouping: RequestGrouping = .announced, waves: WavePlan? = nil, guards: [GuardRail] = []
    ) {
        self.grouping = grouping
        self.waves = waves
        self.guards = guards
    }
}
