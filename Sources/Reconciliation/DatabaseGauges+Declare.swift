import ServiceKit

extension DatabaseGauges {
    static func declare(_ metrics: Metrics) {
        metrics.declareGauge(
            "repricer_database_up",
            "1 while the database answers within 20 seconds; gauges of the database are old while it is 0."
        )
        declareQueues(metrics)
        declareRates(metrics)
    }

    /// What `CountGauges` tells.
    static func declareCounts(_ metrics: Metrics) {
        metrics.declareGauge("repricer_changes", "Changes that have not ended, by state.")
        metrics.declareGauge(
            "repricer_changes_oldest_age_seconds",
            "How long the oldest change of a state is in it, by the service's clock; 0: none is.")
        metrics.declareGauge(
            "repricer_changes_late_at_rate",
            "Unsent changes that will miss their planned renewal at the allowed rate.")
        metrics.declareGauge("repricer_database_size_bytes", "What the database takes on disk.")
        metrics.declareGauge(
            "repricer_kept_bytes", "What a table that is kept by month takes on disk.")
        metrics.declareGauge(
            "repricer_kept_since_timestamp_seconds",
            "Start of the oldest month that a table keeps, in seconds since 1970.")
        metrics.declareGauge(
            "repricer_months_prepared_until_timestamp_seconds",
            "End of the months that are prepared for a table, in seconds since 1970.")
    }

    private static func declareQueues(_ metrics: Metrics) {
        metrics.declareGauge(
            "repricer_changes_due_undelivered",
            "1: changes are due, calls are allowed, and no process asks for any.")
        metrics.declareGauge(
            "repricer_calls_open", "Calls to the App Store without an end, by kind and state.")
        metrics.declareGauge(
            "repricer_calls_oldest_age_seconds",
            "How long the oldest call without an end is open, by the service's clock; 0: none is.")
        metrics.declareGauge(
            "repricer_inbox_waiting", "Notifications that are not folded yet; at most 100,000.")
        metrics.declareGauge(
            "repricer_inbox_quarantined", "Notifications that can't be folded; at most 100,000.")
        metrics.declareGauge(
            "repricer_webhooks_pending", "Events that are not delivered yet; at most 100,000.")
        metrics.declareGauge(
            "repricer_webhooks_given_up",
            "Events that were given up after their last attempt, until they are replayed; at most 100,000."
        )
        metrics.declareGauge(
            "repricer_webhooks_oldest_age_seconds",
            "How long the oldest event waits for its delivery; 0: none does, or no webhook is set.")
        metrics.declareGauge(
            "repricer_figures_unsummed",
            "Subscriptions whose figures of reports are not summed up yet; at most 100,000.")
        metrics.declareGauge(
            "repricer_catching_up", "1 while calls wait until the notification history is read.")
    }

    private static func declareRates(_ metrics: Metrics) {
        metrics.declareGauge(
            "repricer_rate_limit_calls_per_second",
            "Calls a second that settings allow, over all replicas.")
        metrics.declareGauge(
            "repricer_rate_used_calls_per_second",
            "Calls of the last second, over all replicas; absent where permits are not counted.")
        metrics.declareGauge(
            "repricer_rate_silence_seconds",
            "How long the App Store still asks for silence at an endpoint; 0: it does not.")
    }
}
