-- The forecast against what the App Store did, by reason as well, and the day with its sign.
-- Locks: report.forecast_accuracy, for an instant.
-- breaking: no (columns are added at the end)

-- Each change counts once, under all its reasons together: the rows of a batch add up to its changes.
CREATE OR REPLACE VIEW report.forecast_accuracy AS
WITH outcomes AS (
    SELECT batch_id, direction, forecast_consent, forecast_threshold_source, forecast_reasons,
        CASE
            WHEN consent_asked_at IS NOT NULL OR acceptance = 'consented' THEN 'required'
            WHEN acceptance = 'informed' THEN 'not_required'
            WHEN direction = 'decrease' AND coalesce(scheduled_at, effective_at) IS NOT NULL THEN 'none'
        END AS came_consent,
        effective_at, forecast_effective_at
    FROM repricer.price_changes
)
SELECT o.batch_id, b.name AS batch_name, o.direction, o.forecast_consent,
    o.forecast_threshold_source, o.came_consent, count(*) AS changes,
    o.came_consent = o.forecast_consent AS is_as_forecast,
    count(*) FILTER (WHERE o.effective_at IS NOT NULL) AS effective,
    count(*) FILTER (WHERE o.effective_at = o.forecast_effective_at) AS effective_as_forecast,
    o.forecast_reasons,
    count(*) FILTER (WHERE o.effective_at < o.forecast_effective_at) AS effective_earlier,
    count(*) FILTER (WHERE o.effective_at > o.forecast_effective_at) AS effective_later,
    CASE
        WHEN o.came_consent IS NULL THEN 'not_known'
        WHEN o.came_consent = o.forecast_consent THEN 'as_forecast'
        WHEN o.came_consent = 'required' THEN 'missed'
        ELSE 'false_alarm'
    END AS consent_outcome
FROM outcomes o JOIN repricer.batches b ON b.batch_id = o.batch_id
GROUP BY o.batch_id, b.name, o.direction, o.forecast_consent, o.forecast_threshold_source,
    o.came_consent, o.forecast_reasons;
COMMENT ON VIEW report.forecast_accuracy IS
    'The forecast of consent and of its day against what the App Store did: a confusion matrix for each '
    'batch, by reason and by the source of the threshold.';
COMMENT ON COLUMN report.forecast_accuracy.forecast_reasons IS
    'Why consent was forecast as required, all reasons of the change; empty: it was not.';
COMMENT ON COLUMN report.forecast_accuracy.effective_earlier IS
    'Changes that took effect before the renewal of the forecast.';
COMMENT ON COLUMN report.forecast_accuracy.effective_later IS
    'Changes that took effect after the renewal of the forecast.';
COMMENT ON COLUMN report.forecast_accuracy.consent_outcome IS
    'as_forecast, missed (the App Store asked, not forecast), false_alarm (forecast, not asked) or not_known.';
