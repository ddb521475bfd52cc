-- Who may act, and what Apple has told us of each subscription.
-- Locks: none on existing tables. Roles belong to the whole cluster, so they may exist already.
-- breaking: no

CREATE SCHEMA IF NOT EXISTS repricer;
CREATE SCHEMA report;
COMMENT ON SCHEMA repricer IS 'The product''s tables. Programs only; finance reads schema report.';
COMMENT ON SCHEMA report IS 'Views that finance may rely on: names and types are a contract.';

DO $roles$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['repricer_pricing', 'repricer_service', 'repricer_finance'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role_name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
        END IF;
    END LOOP;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;  -- Another database of the same cluster was migrated at the same moment.
END
$roles$;

GRANT USAGE ON SCHEMA repricer TO repricer_pricing, repricer_service;
GRANT USAGE ON SCHEMA report TO repricer_pricing, repricer_service, repricer_finance;

-- One subscription belongs to one bucket for ever: a claim names a bucket, so that one shard can answer it.
CREATE FUNCTION repricer.bucket_of(original_transaction_id text) RETURNS smallint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (hashtextextended(original_transaction_id, 0) & 63)::smallint;

CREATE TABLE repricer.subscriptions (
    original_transaction_id text NOT NULL,
    bucket smallint GENERATED ALWAYS AS
        ((hashtextextended(original_transaction_id, 0) & 63)::smallint) STORED,
    status integer,
    auto_renews boolean,
    in_billing_retry boolean NOT NULL DEFAULT false,
    grace_period_expires_at timestamptz,
    expiration_intent integer,
    storefront text,
    currency text,
    period text,
    product_id text,
    app_account_token text,
    latest_transaction_id text,
    original_purchase_at timestamptz,
    recent_subscription_start_at timestamptz,
    purchased_at timestamptz,
    expires_at timestamptz,
    renewal_at timestamptz,
    consistency_token text,
    items jsonb NOT NULL DEFAULT '[]',
    increases jsonb NOT NULL DEFAULT '[]',
    seen_skus text[] NOT NULL DEFAULT '{}',
    signed_at timestamptz,
    folded_signed_at timestamptz,
    folded_evidence_id text,
    CONSTRAINT subscriptions_pkey PRIMARY KEY (original_transaction_id),
    CONSTRAINT subscriptions_id_size CHECK (length(original_transaction_id) BETWEEN 1 AND 64),
    CONSTRAINT subscriptions_items_are_a_list CHECK (jsonb_typeof(items) = 'array'),
    CONSTRAINT subscriptions_increases_are_a_list CHECK (jsonb_typeof(increases) = 'array')
);
CREATE INDEX subscriptions_customer ON repricer.subscriptions (app_account_token)
    WHERE app_account_token IS NOT NULL;
COMMENT ON TABLE repricer.subscriptions IS
    'The newest facts of each subscription, folded from subscription_events in the order of signed_at.';

-- Every signed statement about a subscription, decoded once: what a fold from the beginning reads.
CREATE TABLE repricer.subscription_events (
    original_transaction_id text NOT NULL,
    signed_at timestamptz NOT NULL,
    evidence_id text NOT NULL,
    source text NOT NULL,
    type text,
    subtype text,
    statement jsonb NOT NULL,
    CONSTRAINT subscription_events_pkey
        PRIMARY KEY (original_transaction_id, signed_at, evidence_id),
    CONSTRAINT subscription_events_source
        CHECK (source IN ('notification', 'response', 'status'))
);
COMMENT ON TABLE repricer.subscription_events IS
    'Append-only. evidence_id is the notificationUUID, the requestReferenceId or the digest of a status.';

-- What a renewal or purchase charged for each item. Uplift counts from here, never from intentions.
CREATE TABLE repricer.charges (
    original_transaction_id text NOT NULL,
    transaction_id text NOT NULL,
    sku text NOT NULL,
    purchased_at timestamptz NOT NULL,
    price_milliunits bigint NOT NULL,
    currency text NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT charges_pkey PRIMARY KEY (original_transaction_id, transaction_id, sku)
);

-- Deduplication of notifications: unique in a table of its own, since a sharded table can't do it.
CREATE TABLE repricer.notification_ids (
    notification_uuid text NOT NULL,
    received_at timestamptz NOT NULL,
    CONSTRAINT notification_ids_pkey PRIMARY KEY (notification_uuid)
);

-- The evidence: each signedPayload to the byte. lz4 because a payload is 20 KB of repeating base64.
CREATE TABLE repricer.notifications (
    notification_uuid text NOT NULL,
    received_at timestamptz NOT NULL,
    signed_at timestamptz,
    type text,
    subtype text,
    original_transaction_id text,
    understood boolean NOT NULL,
    signed_payload text COMPRESSION lz4 NOT NULL,
    CONSTRAINT notifications_pkey PRIMARY KEY (notification_uuid, received_at)
) PARTITION BY RANGE (received_at);
CREATE TABLE repricer.notifications_default PARTITION OF repricer.notifications DEFAULT;
CREATE INDEX notifications_type ON repricer.notifications (type, subtype);

-- Live work only: a row leaves when it is folded, or stays with the error that stopped it.
CREATE TABLE repricer.inbox (
    original_transaction_id text NOT NULL,
    notification_uuid text NOT NULL,
    bucket smallint GENERATED ALWAYS AS
        ((hashtextextended(original_transaction_id, 0) & 63)::smallint) STORED,
    received_at timestamptz NOT NULL,
    signed_at timestamptz,
    error text,
    CONSTRAINT inbox_pkey PRIMARY KEY (original_transaction_id, notification_uuid)
);
CREATE INDEX inbox_waiting ON repricer.inbox (bucket, received_at) WHERE error IS NULL;
