-- What of a notification the product does not know (types, subtypes, fields, values, shapes): told beside the
-- notification, so that every replica's sightings count once and `repricer reprocess` can take them back after an
-- upgrade. Reprocessing reads evidence anew: it corrects what was read of a notification, and replaces the statement.
-- Locks: notifications while an index is built over those that were not understood.
-- breaking: no

ALTER TABLE repricer.notifications ADD COLUMN unknown text[];
COMMENT ON COLUMN repricer.notifications.unknown IS
    'What of it was not known when it was read, each as kind:name; null: nothing, or read before 0013.';
CREATE INDEX notifications_to_reprocess ON repricer.notifications (received_at, notification_uuid)
    WHERE NOT understood OR unknown IS NOT NULL;
COMMENT ON TABLE repricer.subscription_events IS
    'Append-only, but for a statement that reprocess reads anew from its evidence. evidence_id is the '
    'notificationUUID, the requestReferenceId or the digest of a status.';

CREATE OR REPLACE VIEW report.notification_health AS
SELECT n.type, n.subtype, count(*) AS notifications, min(n.received_at) AS first_received_at,
    max(n.received_at) AS last_received_at, max(n.signed_at) AS last_signed_at,
    count(*) FILTER (WHERE NOT n.understood) AS not_understood,
    count(i.notification_uuid) FILTER (WHERE i.error IS NULL) AS waiting,
    count(i.notification_uuid) FILTER (WHERE i.error IS NOT NULL) AS stuck,
    count(n.unknown) AS with_unknown_parts
FROM repricer.notifications n
LEFT JOIN repricer.inbox i
    ON i.original_transaction_id = n.original_transaction_id
    AND i.notification_uuid = n.notification_uuid
GROUP BY n.type, n.subtype;
COMMENT ON COLUMN report.notification_health.with_unknown_parts IS
    'With something in them that the product does not know; report unknown_part names it.';

CREATE VIEW report.unknown_part AS
SELECT split_part(u.part, ':', 1) AS kind, substr(u.part, strpos(u.part, ':') + 1) AS name,
    count(*) AS notifications, min(n.received_at) AS first_received_at,
    max(n.received_at) AS last_received_at
FROM repricer.notifications n
CROSS JOIN LATERAL unnest(n.unknown) AS u(part)
WHERE n.unknown IS NOT NULL
GROUP BY u.part;
COMMENT ON VIEW report.unknown_part IS
    'What the App Store sent that the product does not know. It is kept, and read anew by `repricer reprocess` '
    'after an upgrade.';
COMMENT ON COLUMN report.unknown_part.kind IS
    'type, subtype, field (not documented), value (of an enumeration), shape (another JSON type), body (missing).';
COMMENT ON COLUMN report.unknown_part.name IS 'Where and what, as in renewal.offerType=5.';
COMMENT ON COLUMN report.unknown_part.notifications IS 'Notifications that hold it, duplicates apart.';
COMMENT ON COLUMN report.unknown_part.first_received_at IS 'When the first arrived.';
COMMENT ON COLUMN report.unknown_part.last_received_at IS 'When the last arrived.';

GRANT SELECT ON report.unknown_part TO repricer_finance, repricer_pricing, repricer_service;
GRANT UPDATE (signed_at, type, subtype, original_transaction_id, understood, unknown)
    ON repricer.notifications TO repricer_service;
GRANT DELETE ON repricer.subscription_events TO repricer_service;
