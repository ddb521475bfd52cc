/// The fold: one signed statement after another, in the order of `SubscriptionEvent.Key`, into facts, states
/// of our changes and cancellations of dependents. A pure function of the set of statements.
///
/// A statement has four kinds of content, applied in this order:
/// 1. names: items that a metadata change or a migration renamed get their new SKU;
/// 2. facts: the running period (transaction) and what is set to renew (renewal info);
/// 3. progress of changes: applied, asked, accepted, postponed, charged, dropped, ended;
/// 4. dependents: they are cancelled with a parent that was not consented to, and their absence proves it.
///
/// What moves a change is mostly what a statement shows, not its type. The types that matter by themselves:
///
/// | type | effect on an open change |
/// | --- | --- |
/// | `METADATA_UPDATE`, `MIGRATION` (`MIGRATE`) | a SKU in place of another is the same product: the change follows |
/// | `DID_CHANGE_RENEWAL_PREF`, `OFFER_REDEEMED`, `SUBSCRIBED` | another SKU or new cycle without the new price: invalidated at its start |
/// | `EXPIRED` | ended by its subtype, else by `expirationIntent` |
/// | `EXPIRED` signed after the customer's return | no effect on what runs; says how a change ended before the return |
/// | `REFUND`, `REVOKE` | running period: cancelled, unless its status shows that it continues; earlier period: only its charge is marked |
/// | `REFUND_REVERSED` | the charge counts again, and a change that the refund had ended continues |
/// | `RENEWAL_EXTENDED` | its renewal moves along, as it does whenever the running period is seen to end later |
/// | `DID_FAIL_TO_RENEW`, `GRACE_PERIOD_EXPIRED`, `DID_CHANGE_RENEWAL_STATUS` | facts alone: the change waits |
/// | all others, unknown ones too | what their transaction and renewal info show |
package enum Lifecycle {
    /// Folds `events` into `state` and returns the lines of history in order.
    ///
    /// The events must be newer than `state.foldedThrough` and sorted by key. A caller with an older event must fold
    /// all events from the beginning.
    package static func fold(
        _ events: [SubscriptionEvent], into state: inout SubscriptionState
    ) -> [Transition] {
        var transitions: [Transition] = []
        for event in events {
            transitions += apply(event, to: &state)
        }
        transitions += state.closeSuperseded(at: nil)
        return transitions
    }

    private static func apply(
        _ event: SubscriptionEvent, to state: inout SubscriptionState
    ) -> [Transition] {
        guard event.source != .legacy else {
            state.facts.overlay(legacy: event)
            state.foldedThrough = event.key
            return []
        }
        let event = state.facts.isFormerEnd(event) ? event.ofFormerEnd : event
        let renames = state.facts.renames(toldBy: event)
        if !renames.isEmpty { state.rename(renames, at: event) }
        state.noteRenamesUntold(before: event)
        let before = state.facts
        state.facts.overlay(event)
        state.noteSeenSKUs()
        state.noteMoney(of: event)
        state.noteReenabled(event)
        let reading = Reading(
            event: event, before: before, facts: state.facts, renames: renames,
            isCancelledByUs: state.isCancelledByUs(at: event.key.signedAt))
        state.noteIncreases(reading)
        state.noteCoverage(reading)
        state.notePeriod(reading)
        state.noteExtension(reading)

        var transitions = state.closeSuperseded(at: event.key.signedAt)
        let explained = state.explainedByOthers(at: reading.at)
        for index in state.changes.indices {
            let isExplained = explained.contains(state.changes[index].changeID)
            transitions +=
                isExplained
                ? state.changes[index].takeNameAfterEnd(reading)
                : state.changes[index].follow(reading)
            state.changes[index].noteChargeUnderNewName(reading)
        }
        transitions += state.dropDependentsOfDecliners(reading)
        state.cancelDependents(reading, transitions)
        state.settleDependents(reading)
        state.foldedThrough = event.key
        return transitions
    }
}
