-- What Apple has told us of each subscription: the newest facts, every signed statement, the charges, the notifications
-- as evidence, and the inbox of notifications that are not folded yet. Also what we tell other programs: the outbox.
-- Locks: none on existing tables.
-- breaking: no

-- A fold updates a row in place, and a claim locks it. Pages keep a seventh free, so that a new version of a row stays
-- beside the old one and no index gets a new entry.
CREATE TABLE repricer.subscriptions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    status integer,
    auto_renews boolean,
    in_billing_retry boolean NOT NULL DEFAULT false,
    grace_period_expires_at timestamptz,
    expiration_intent integer,
    storefront text,
    currency text,
    period text,
    renewal_period text,
    product_id text,
    app_account_token text,
    -- Neither the price nor the renewal date of a family member's subscription, or of an assigned seat, can be changed.
    ownership_type text,
    -- For a subscription sold without Advanced Commerce this says whether it is in a free trial; the price of an item does
    -- not. The renewal date of a free trial can't be extended either.
    offer_discount_type text,
    -- These columns are queried. The rest of what was signed has one column, which is null for nearly all rows.
    offer_type integer,
    quantity integer,
    transaction_reason text,
    app_transaction_id text,
    auto_renew_product_id text,
    renewal_price_milliunits bigint,
    renewal_currency text,
    renewal_offer_type integer,
    signed_details jsonb,
    latest_transaction_id text,
    original_purchase_at timestamptz,
    recent_subscription_start_at timestamptz,
    purchased_at timestamptz,
    expires_at timestamptz,
    renewal_at timestamptz,
    consistency_token text,
    items jsonb NOT NULL DEFAULT '[]',
    increases jsonb NOT NULL DEFAULT '[]',
    renames jsonb,
    seen_skus text[] NOT NULL DEFAULT '{}',
    signed_at timestamptz,
    known_since timestamptz,
    folded_signed_at timestamptz,
    folded_evidence_id text,
    checkpoint_at timestamptz,
    CONSTRAINT subscriptions_pkey PRIMARY KEY (original_transaction_id, bucket),
    CONSTRAINT subscriptions_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    CONSTRAINT subscriptions_id_size CHECK (length(original_transaction_id) BETWEEN 1 AND 64),
    CONSTRAINT subscriptions_items_are_a_list CHECK (jsonb_typeof(items) = 'array'),
    CONSTRAINT subscriptions_increases_are_a_list CHECK (jsonb_typeof(increases) = 'array')
) WITH (fillfactor = 85);
CREATE INDEX subscriptions_customer ON repricer.subscriptions (app_account_token)
    WHERE app_account_token IS NOT NULL;
COMMENT ON TABLE repricer.subscriptions IS
    'The newest facts of each subscription, folded from subscription_events in the order of signed_at.';
COMMENT ON COLUMN repricer.subscriptions.known_since IS
    'Start of the period since which no increase can have gone unseen: statements tell of every later period, or of prices '
    'that can be compared with those of the period told before.';
COMMENT ON COLUMN repricer.subscriptions.offer_discount_type IS
    'Of the running period of an ordinary subscription: FREE_TRIAL, PAY_AS_YOU_GO, PAY_UP_FRONT, ONE_TIME; null: '
    'no offer.';

COMMENT ON COLUMN repricer.subscriptions.offer_type IS
    'Of the running period: 1 introductory, 2 promotional, 3 offer code, 4 win-back; null: no offer.';
COMMENT ON COLUMN repricer.subscriptions.renewal_period IS
    'The length of the periods from the next renewal on, where the customer chose another one. Null: they stay as long as '
    'period says, which is about the running one.';
COMMENT ON COLUMN repricer.subscriptions.quantity IS
    'Of the running period: how many were bought, or how many seats, including those added during the period.';
COMMENT ON COLUMN repricer.subscriptions.transaction_reason IS
    'Why the running period was charged: PURCHASE (the customer bought it) or RENEWAL.';
COMMENT ON COLUMN repricer.subscriptions.app_transaction_id IS
    'The download of the app that it was bought in: the same for all purchases of one Apple account in the app.';
COMMENT ON COLUMN repricer.subscriptions.auto_renew_product_id IS
    'The product that the subscription renews to. Where it differs from product_id, the customer chose it for the next period.';
COMMENT ON COLUMN repricer.subscriptions.renewal_price_milliunits IS
    'What the whole next period costs, in thousandths of renewal_currency; where there are several seats, the average price '
    'of one. Null where the newest renewal info does not say.';
COMMENT ON COLUMN repricer.subscriptions.renewal_currency IS 'ISO 4217: in which the next period is charged.';
COMMENT ON COLUMN repricer.subscriptions.renewal_offer_type IS
    'As offer_type, of the next period; null: no offer.';
COMMENT ON COLUMN repricer.subscriptions.signed_details IS
    'What else was signed, under Apple''s own names and only what is there. transaction, of the running period: '
    'offerIdentifier, offerPeriod, revocationDate (UTC milliseconds), revocationReason, revocationType, '
    'revocationPercentage, isUpgraded, billingPlanType, additionalTransactionReason. renewal, of the newest renewal '
    'info: offerIdentifier, offerPeriod, offerDiscountType, eligibleWinBackOfferIds, priceIncreaseStatus, '
    'renewalBillingPlanType, renewalQuantity. addedSeats, of the running period: the quantity of its own transaction and '
    'each transaction that added seats. Null: none of it.';

COMMENT ON COLUMN repricer.subscriptions.renames IS
    'Former names of items: what an item was called, until when, and the transaction of the period that ran then. '
    'isDoubtful: the only evidence is that this transaction lists the new name, at another price. isOfItsTransaction: the '
    'rename concerns this transaction alone. Null: nothing was renamed lately.';
COMMENT ON COLUMN repricer.subscriptions.checkpoint_at IS
    'subscription_checkpoints stands for the statements signed before it; one that arrives later goes to overdue_statements. '
    'Null: all statements are kept.';

-- Every signed statement about a subscription, decoded once. A fold from the beginning reads these, never the
-- evidence. V1 notifications are unsigned hints: they stand among the statements, and their source says what they are.
CREATE TABLE repricer.subscription_events (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    signed_at timestamptz NOT NULL,
    evidence_id text NOT NULL,
    source text NOT NULL,
    type text,
    subtype text,
    statement jsonb NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT repricer.recording_instant(),
    CONSTRAINT subscription_events_pkey PRIMARY KEY (original_transaction_id, signed_at, evidence_id, bucket),
    CONSTRAINT subscription_events_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    CONSTRAINT subscription_events_source
        CHECK (source IN ('notification', 'response', 'status', 'legacy'))
) PARTITION BY RANGE (signed_at);
-- The default partition takes rows of months that have none of their own; prepare_months moves them once the month has one.
CREATE TABLE repricer.subscription_events_default PARTITION OF repricer.subscription_events DEFAULT;
-- Before retention drops a month, it searches by this index for what arrived while it was at work. Writers pay next to
-- nothing for it.
CREATE INDEX subscription_events_recorded ON repricer.subscription_events USING brin (recorded_at);
-- The statements of which something was left out. There are next to none.
CREATE INDEX subscription_events_left_out ON repricer.subscription_events (original_transaction_id)
    WHERE statement -> 'ignored' IS NOT NULL;
COMMENT ON TABLE repricer.subscription_events IS
    'Append-only, except for a statement that reprocess reads anew from its evidence. evidence_id is the '
    'notificationUUID, the requestReferenceId or the digest of a status. Retention drops old months, once '
    'subscription_checkpoints stands for them.';

-- A checkpoint replaces the statements of a subscription that retention drops: it is the state from which a fold of the
-- later ones starts. Its columns are those of subscriptions. `rest` holds how far each change had come, money that may
-- still move, dependents, our own cancellations, and the paid periods that a late statement may be compared with.
CREATE TABLE repricer.subscription_checkpoints (
    LIKE repricer.subscriptions INCLUDING DEFAULTS,
    covers_before timestamptz NOT NULL,
    rest jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT subscription_checkpoints_pkey PRIMARY KEY (original_transaction_id, bucket),
    CONSTRAINT subscription_checkpoints_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
COMMENT ON TABLE repricer.subscription_checkpoints IS
    'The state of a subscription after all statements signed before covers_before. One row a subscription; the next '
    'checkpoint replaces it.';

-- What is kept of dropped months. For subscriptions without a checkpoint these are the whole statements. For all others it
-- is only what reports ask for (statement is null then): that there was a statement of an end, a failure or a refund;
-- whether it told when the paid period ends; which status it told; and which paid period it told of that no charge tells.
CREATE TABLE repricer.kept_statements (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    signed_at timestamptz NOT NULL,
    evidence_id text NOT NULL,
    source text NOT NULL,
    type text,
    subtype text,
    statement jsonb,
    recorded_at timestamptz NOT NULL,
    told_period_at timestamptz,
    tells_end boolean NOT NULL DEFAULT false,
    left_out jsonb,
    status text,
    renewal_told jsonb,
    CONSTRAINT kept_statements_pkey PRIMARY KEY (original_transaction_id, signed_at, evidence_id, bucket),
    CONSTRAINT kept_statements_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
CREATE INDEX kept_statements_whole ON repricer.kept_statements (original_transaction_id) WHERE statement IS NOT NULL;
CREATE INDEX kept_statements_left_out ON repricer.kept_statements (original_transaction_id) WHERE left_out IS NOT NULL;
COMMENT ON TABLE repricer.kept_statements IS
    'What is left of dropped months of subscription_events: the statements that a fold still needs, and what reports ask '
    'for of the others.';

COMMENT ON COLUMN repricer.kept_statements.told_period_at IS
    'Start of the paid period that the statement told of before any charge did. Null: a charge tells it, or the column '
    'statement does.';
COMMENT ON COLUMN repricer.kept_statements.renewal_told IS
    'What the statement told of the renewal, in the form of the column statement, as far as reports ask for it. Null: nothing, '
    'or the column statement says it.';
COMMENT ON COLUMN repricer.kept_statements.tells_end IS
    'Whether the statement told when the paid period ends. Where the column statement is kept, that column says it.';

COMMENT ON COLUMN repricer.kept_statements.status IS
    'The status that Apple told of the subscription. Null: the statement told none, or the column statement says it.';
COMMENT ON COLUMN repricer.kept_statements.left_out IS
    'The names of the parts that were left out because they make no sense. Null: nothing was left out.';

CREATE FUNCTION repricer.tells_end(p_statement jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN p_statement @? '$.transaction.expiresAt ? (@ != null)';

-- The part of a statement that reports ask for after retention has dropped the rest: which items renew, in which period, whether
-- they do, and since when the subscription has been running.
CREATE FUNCTION repricer.renewal_told(p_statement jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN jsonb_typeof(p_statement -> 'renewal') = 'object' THEN jsonb_build_object('renewal', jsonb_strip_nulls(
        jsonb_build_object(
            'period', p_statement #> '{renewal,period}', 'autoRenewStatus', p_statement #> '{renewal,autoRenewStatus}',
            'recentSubscriptionStartAt', p_statement #> '{renewal,recentSubscriptionStartAt}',
            'items', CASE WHEN jsonb_typeof(p_statement #> '{renewal,items}') = 'array' THEN coalesce((
                SELECT jsonb_agg(jsonb_build_object('sku', i -> 'sku'))
                FROM jsonb_array_elements(p_statement #> '{renewal,items}') i), '[]') END))) END;

CREATE VIEW repricer.told_statements AS
SELECT original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, statement, recorded_at,
    coalesce(repricer.tells_end(statement), false) AS tells_end, statement -> 'ignored' AS left_out, statement ->> 'status' AS status
FROM repricer.subscription_events
UNION ALL
SELECT original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, coalesce(statement, renewal_told), recorded_at,
    tells_end OR coalesce(repricer.tells_end(statement), false), left_out, coalesce(statement ->> 'status', status)
FROM repricer.kept_statements;
-- Whether a sum of money depends on one of these names: an amount, or what says that there is an amount, of which item, when
-- and in which currency.
CREATE FUNCTION repricer.lacks_amount(p_left_out jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN p_left_out @? '$[*] ? (@ like_regex "^transaction[.](transactionId|purchaseDate|quantity|currency|taxExclusivePrice|revocation(Date|Type|Percentage)|items|items[.](price|offer[.]price|refunds|revocationDate))$")';

COMMENT ON VIEW repricer.told_statements IS
    'All statements, together with what retention kept of dropped months. A statement may appear twice until its month is '
    'dropped.';

-- Statements that arrived too late: they were signed before the checkpoint of their subscription. Nearly all of them are
-- repetitions, but that can no longer be checked. So they are recorded here and not folded.
CREATE TABLE repricer.overdue_statements (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    signed_at timestamptz NOT NULL,
    evidence_id text NOT NULL,
    type text,
    subtype text,
    recorded_at timestamptz NOT NULL DEFAULT repricer.recording_instant(),
    CONSTRAINT overdue_statements_pkey PRIMARY KEY (original_transaction_id, signed_at, evidence_id, bucket),
    CONSTRAINT overdue_statements_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
-- Retention deletes the oldest first, a few at a time.
CREATE INDEX overdue_statements_recorded ON repricer.overdue_statements (recorded_at);
COMMENT ON TABLE repricer.overdue_statements IS
    'Statements that arrived after a checkpoint of their subscription, and were signed before it. They were not folded.';

-- The SQL statement that replaces what Apple stated writes the former version here.
CREATE TABLE repricer.subscription_event_versions (
    LIKE repricer.subscription_events,
    recorded_until timestamptz NOT NULL,
    CONSTRAINT subscription_event_versions_pkey
        PRIMARY KEY (original_transaction_id, signed_at, evidence_id, recorded_until, bucket),
    CONSTRAINT subscription_event_versions_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
) PARTITION BY RANGE (recorded_until);
CREATE TABLE repricer.subscription_event_versions_default PARTITION OF repricer.subscription_event_versions DEFAULT;
COMMENT ON TABLE repricer.subscription_event_versions IS
    'Append-only. Statements that reprocess read anew, as they were read before.';

-- What a renewal or purchase charged for each item, as it is known now. Uplift is counted from these rows, never from
-- intentions.
CREATE TABLE repricer.charges (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    transaction_id text NOT NULL,
    sku text NOT NULL,
    purchased_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    price_milliunits bigint NOT NULL,
    quantity bigint NOT NULL DEFAULT 1,
    currency text NOT NULL,
    storefront text,
    is_offer boolean NOT NULL DEFAULT false,
    is_purchase boolean NOT NULL DEFAULT false,
    is_added_seat boolean NOT NULL DEFAULT false,
    is_relisted boolean NOT NULL DEFAULT false,
    period text,
    refunded_milliunits bigint NOT NULL DEFAULT 0,
    recorded_at timestamptz NOT NULL DEFAULT repricer.recording_instant(),
    CONSTRAINT charges_pkey PRIMARY KEY (original_transaction_id, transaction_id, sku, bucket),
    CONSTRAINT charges_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    CONSTRAINT charges_quantity CHECK (quantity >= 1)
);
COMMENT ON COLUMN repricer.charges.price_milliunits IS 'Of one seat; price times quantity was charged.';
COMMENT ON COLUMN repricer.charges.expires_at IS 'When the period that it pays for ends. Null: no statement told.';
COMMENT ON COLUMN repricer.charges.revoked_at IS
    'When the item was revoked, whatever part of the money was refunded. Null: it was not, or the revocation was reversed.';
COMMENT ON COLUMN repricer.charges.is_offer IS 'Charged at the price of an offer.';
COMMENT ON COLUMN repricer.charges.is_purchase IS
    'The customer bought it: a purchase, a modification or an added seat. It is no renewal.';
COMMENT ON COLUMN repricer.charges.is_added_seat IS
    'A purchase of seats that are added to those of the period. Any other charge takes the place of the charge before it.';
COMMENT ON COLUMN repricer.charges.is_relisted IS
    'A later statement of its transaction lists another item in place of this one, at another price. The two count as one '
    'charge, with what the newest statement says, under the name that the item had first.';
COMMENT ON COLUMN repricer.charges.period IS
    'The length of the plan''s period that it pays, as signed: P1W, P1M, P2M, P3M, P6M or P1Y; null: no statement says it.';
COMMENT ON COLUMN repricer.charges.refunded_milliunits IS
    'How much was refunded and not reversed, as money_entries say.';
COMMENT ON COLUMN repricer.charges.recorded_at IS
    'When it was recorded as it stands here. What was known before is in charge_versions.';

-- The SQL statement that replaces a charge writes its former version here. Charges are corrected rarely, so the whole row is
-- kept.
CREATE TABLE repricer.charge_versions (
    LIKE repricer.charges,
    recorded_until timestamptz NOT NULL,
    CONSTRAINT charge_versions_pkey PRIMARY KEY (original_transaction_id, transaction_id, sku, recorded_until, bucket),
    CONSTRAINT charge_versions_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
) PARTITION BY RANGE (recorded_until);
CREATE TABLE repricer.charge_versions_default PARTITION OF repricer.charge_versions DEFAULT;
COMMENT ON TABLE repricer.charge_versions IS 'Append-only. What a charge was, from recorded_at until recorded_until.';

-- The money ledger: one line for each signed charge, refund or reversal of one item, whatever the order and the
-- repeats of the statements. A line is never changed. Where a later statement says otherwise, the difference is added as the
-- line's next correction, so that the sum of what was recorded by an instant is what was known then.
CREATE TABLE repricer.money_entries (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    transaction_id text NOT NULL,
    sku text NOT NULL,
    kind text NOT NULL,
    occurred_at timestamptz NOT NULL,
    number integer NOT NULL,
    correction integer NOT NULL,
    amount_milliunits bigint NOT NULL,
    tax_exclusive_milliunits bigint,
    currency text NOT NULL,
    storefront text,
    evidence_id text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT repricer.recording_instant(),
    -- These four say what explains the line today. Only summarise_figures writes them. They hold while the subscription has
    -- no row in stale_figures.
    change_id uuid,
    batch_id uuid,
    explained_as text,
    uplift_milliunits bigint,
    CONSTRAINT money_entries_pkey PRIMARY KEY
        (original_transaction_id, transaction_id, sku, kind, occurred_at, number, currency, correction, bucket),
    CONSTRAINT money_entries_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    CONSTRAINT money_entries_kind CHECK (kind IN ('charge', 'refund', 'reversal'))
);
-- The first index finds the lines of a batch, the second those of a time.
CREATE INDEX money_entries_batch ON repricer.money_entries (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX money_entries_time ON repricer.money_entries (occurred_at);
COMMENT ON TABLE repricer.money_entries IS
    'Append-only, except for the columns that say what explains a line. What the App Store signed as charged, refunded or '
    'reversed, for each item of a transaction by itself.';
COMMENT ON COLUMN repricer.money_entries.explained_as IS
    'Why the charge is as it is; null: it has an exception, or no change of ours is about it.';
COMMENT ON COLUMN repricer.money_entries.uplift_milliunits IS
    'How much more the renewal brought than at the old price. Only the first line of a charge at the price of its change has it.';
COMMENT ON COLUMN repricer.money_entries.number IS 'Numbers the refunds of one item at one instant, from 0 on.';
COMMENT ON COLUMN repricer.money_entries.correction IS
    '0: the amount as it was first told. Higher numbers are differences. All of them together add up to what is known.';

-- Past increases that a person imported because no notification told of them. They count for the rule of 12 months, but
-- do not prove that there were no others. history_imports has a row for each import, imported_increases a row for each
-- increase. Only import_history adds rows.
CREATE TABLE repricer.history_imports (
    number integer NOT NULL,
    imported_at timestamptz NOT NULL,
    imported_by text NOT NULL DEFAULT session_user,
    file text NOT NULL,
    content_sha256 text NOT NULL,
    CONSTRAINT history_imports_pkey PRIMARY KEY (number),
    CONSTRAINT history_imports_number CHECK (number > 0),
    CONSTRAINT history_imports_file_size CHECK (length(file) BETWEEN 1 AND 4096)
);
COMMENT ON TABLE repricer.history_imports IS
    'Append-only. Who imported past increases, when and from which file.';

CREATE TABLE repricer.imported_increases (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    sku text NOT NULL,
    increased_on date NOT NULL,
    old_price_milliunits bigint NOT NULL,
    new_price_milliunits bigint NOT NULL,
    currency text NOT NULL,
    number integer NOT NULL,
    CONSTRAINT imported_increases_pkey PRIMARY KEY (original_transaction_id, sku, increased_on, bucket),
    CONSTRAINT imported_increases_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    -- No program can read a date outside this range. The App Store opened in 2008, so every real increase is within it.
    CONSTRAINT imported_increases_day CHECK (increased_on BETWEEN '1970-01-01' AND '9999-12-31'),
    CONSTRAINT imported_increases_import FOREIGN KEY (number) REFERENCES repricer.history_imports (number),
    CONSTRAINT imported_increases_id_size CHECK (length(original_transaction_id) BETWEEN 1 AND 64),
    CONSTRAINT imported_increases_sku_size CHECK (length(sku) BETWEEN 1 AND 128),
    CONSTRAINT imported_increases_currency CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT imported_increases_rise CHECK (0 < old_price_milliunits AND old_price_milliunits < new_price_milliunits)
);
COMMENT ON TABLE repricer.imported_increases IS
    'Append-only. Increases from before the time that statements cover. A day begins at 00:00 UTC. The subscription need '
    'not be known.';

-- A notification is stored once. The table that makes its id unique is separate, because the key of a partitioned or sharded
-- table must contain the column that it is partitioned by.
CREATE TABLE repricer.notification_ids (
    notification_uuid text NOT NULL,
    received_at timestamptz NOT NULL,
    CONSTRAINT notification_ids_pkey PRIMARY KEY (notification_uuid)
);
-- The newest arrival is asked for every few seconds.
CREATE INDEX notification_ids_received ON repricer.notification_ids (received_at);

CREATE TABLE repricer.signing_headers (
    digest bytea NOT NULL,
    header bytea NOT NULL,
    CONSTRAINT signing_headers_pkey PRIMARY KEY (digest),
    CONSTRAINT signing_headers_digest_size CHECK (octet_length(digest) = 32)
);
COMMENT ON TABLE repricer.signing_headers IS
    'The header of each signing chain, as sent, under its SHA-256. Rows are never deleted: a chain takes a few kilobytes, '
    'and evidence cannot be rebuilt without it.';

-- The evidence, to the byte, by month. A payload of 20 KB is packed to a seventh of its size. Its headers repeat the
-- certificate chain and are stored once, in signing_headers; the rest is decoded and compressed. A payload of an odd shape
-- stays whole.
CREATE TABLE repricer.notifications (
    notification_uuid text NOT NULL,
    received_at timestamptz NOT NULL,
    signed_at timestamptz,
    type text,
    subtype text,
    original_transaction_id text,
    understood boolean NOT NULL,
    -- The parts of a notification that the product does not know are stored in its row. So each is counted once over all
    -- replicas, and `repricer reprocess` can remove it after an upgrade.
    unknown text[],
    signed_payload text COMPRESSION lz4,
    packed bytea COMPRESSION lz4,
    header_digests bytea,
    CONSTRAINT notifications_pkey PRIMARY KEY (notification_uuid, received_at),
    CONSTRAINT notifications_whole_or_packed CHECK (
        (signed_payload IS NULL) = (packed IS NOT NULL)
        AND (packed IS NULL) = (header_digests IS NULL)
        AND octet_length(header_digests) % 32 = 0)
) PARTITION BY RANGE (received_at);
CREATE INDEX notifications_type ON repricer.notifications (type, subtype);
CREATE INDEX notifications_not_understood ON repricer.notifications (type, subtype) WHERE NOT understood;
CREATE INDEX notifications_to_reprocess ON repricer.notifications (received_at, notification_uuid)
    WHERE NOT understood OR unknown IS NOT NULL;
-- The default partition takes rows of months that have none of their own; prepare_months moves them once the month has one.
-- Every partition stores payloads out of line (TOAST), so that reports read 160 bytes a notification and not 2 KB.
CREATE TABLE repricer.notifications_default PARTITION OF repricer.notifications DEFAULT
    WITH (toast_tuple_target = 128);
COMMENT ON COLUMN repricer.notifications.signed_payload IS
    'The whole payload, where it could not be restored to the byte from packed.';
COMMENT ON COLUMN repricer.notifications.packed IS
    'The payload without its headers, decoded; `repricer evidence` prints it as it was signed.';
COMMENT ON COLUMN repricer.notifications.header_digests IS
    'SHA-256 of each header of the payload, 32 bytes each, in the order in which packed numbers them.';
COMMENT ON COLUMN repricer.notifications.unknown IS
    'The parts that the product did not know when it read the notification, each as kind:name. Null: none.';

CREATE VIEW repricer.evidence_size AS
SELECT n.notifications, s.bytes, s.bytes / nullif(n.notifications, 0) AS bytes_per_notification
FROM (SELECT count(*) AS notifications FROM repricer.notifications) n
CROSS JOIN (
    SELECT sum(pg_total_relation_size(t.relation))::bigint AS bytes
    FROM (
        SELECT relid AS relation FROM pg_partition_tree('repricer.notifications')
        UNION ALL SELECT 'repricer.notification_ids'::regclass
        UNION ALL SELECT 'repricer.signing_headers'::regclass
    ) t
) s;
COMMENT ON VIEW repricer.evidence_size IS
    'How much disk the raw evidence takes, with all its tables and indexes.';

-- Live work only: a row is deleted when it is folded, or stays with the error that stopped it.
CREATE TABLE repricer.inbox (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    notification_uuid text NOT NULL,
    received_at timestamptz NOT NULL,
    signed_at timestamptz,
    error text,
    is_reread boolean NOT NULL DEFAULT false,
    CONSTRAINT inbox_pkey PRIMARY KEY (original_transaction_id, notification_uuid, bucket),
    CONSTRAINT inbox_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
COMMENT ON COLUMN repricer.inbox.is_reread IS
    'Whether the notification was folded before. Its fold then replaces the statement that was read from it. Until then that '
    'statement stays, so that no fold misses a part of the history.';
-- The queue of a bucket. The condition that something was received after -infinity is always true, and only the query that
-- reads a queue repeats it. Without it the planner would read the queue of a whole bucket for each subscription, because
-- its statistics describe a table that is empty most of the time.
CREATE INDEX inbox_waiting ON repricer.inbox (bucket, received_at)
    WHERE error IS NULL AND received_at > '-infinity';
-- This index is in the order of signing, so that a subscription with thousands of waiting notifications is folded in
-- pieces.
CREATE INDEX inbox_of_subscription ON repricer.inbox (original_transaction_id, signed_at)
    WHERE error IS NULL;

-- What the App Store told of extended renewal dates, by subscription. Only the fold writes it.
CREATE TABLE repricer.renewal_extensions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    evidence_id text NOT NULL,
    told_at timestamptz NOT NULL,
    outcome text NOT NULL,
    product_id text,
    storefront text,
    renewal_before timestamptz,
    renewal_at timestamptz,
    CONSTRAINT renewal_extensions_pkey PRIMARY KEY (original_transaction_id, evidence_id, bucket),
    CONSTRAINT renewal_extensions_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    CONSTRAINT renewal_extensions_outcome CHECK (outcome IN ('extended', 'failed', 'seen'))
);
CREATE INDEX renewal_extensions_of_product ON repricer.renewal_extensions (product_id, told_at);
COMMENT ON COLUMN repricer.renewal_extensions.outcome IS
    'extended, failed (of a mass extension), seen (by another statement, without its notification).';

-- SUMMARY notifications name no subscription, so they have an inbox of their own.
CREATE TABLE repricer.extension_summaries (
    notification_uuid text NOT NULL,
    received_at timestamptz NOT NULL,
    signed_at timestamptz,
    folded_at timestamptz,
    request_identifier text,
    product_id text,
    storefronts text[],
    succeeded bigint,
    failed bigint,
    -- It is null for a request that was never made here.
    extension_id uuid,
    detail text,
    CONSTRAINT extension_summaries_pkey PRIMARY KEY (notification_uuid)
);
CREATE INDEX extension_summaries_waiting ON repricer.extension_summaries (received_at)
    WHERE folded_at IS NULL;

-- Subscriptions with unsent changes whose renewal moved, so that the dates of these changes must be computed anew.
CREATE TABLE repricer.moved_renewals (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    moved_at timestamptz NOT NULL,
    CONSTRAINT moved_renewals_pkey PRIMARY KEY (original_transaction_id, bucket),
    CONSTRAINT moved_renewals_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
CREATE INDEX moved_renewals_waiting ON repricer.moved_renewals (bucket, moved_at);

-- The columns of Debezium's outbox event router, which sends `payload` to the topic of `aggregatetype` under the key
-- `aggregateid`. `position` orders the events of one aggregate; every writer holds the lock of its subscription.
CREATE TABLE repricer.outbox (
    aggregateid text NOT NULL,
    bucket smallint NOT NULL,
    position bigint NOT NULL,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    aggregatetype text NOT NULL,
    type text NOT NULL,
    payload jsonb NOT NULL,
    "timestamp" timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT outbox_pkey PRIMARY KEY (aggregateid, position, bucket),
    CONSTRAINT outbox_bucket CHECK (bucket = repricer.bucket_of(aggregateid))
);
CREATE INDEX outbox_by_time ON repricer.outbox ("timestamp");
COMMENT ON TABLE repricer.outbox IS
    'Events for other programs. An event is written in the transaction that changes what it reports, is never updated, and '
    'is deleted when its retention ends.';
COMMENT ON COLUMN repricer.outbox.aggregateid IS 'The subscription. Its events are in order.';
COMMENT ON COLUMN repricer.outbox.position IS 'Grows within an aggregate; has gaps.';
COMMENT ON COLUMN repricer.outbox.id IS 'Identifies the event for ever. A receiver that knows this id has the event already.';
COMMENT ON COLUMN repricer.outbox."timestamp" IS
    'When it was written, by the machine''s clock; payload has the business instants.';

-- The delivery of each event as a webhook. It has a table of its own, because rows of the outbox are only ever inserted.
CREATE TABLE repricer.webhook_deliveries (
    aggregateid text NOT NULL,
    bucket smallint NOT NULL,
    position bigint NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    attempts integer NOT NULL DEFAULT 0,
    -- By the machine's clock. Delivery is tried for three days from here; a replay sets it anew.
    due_since timestamptz NOT NULL DEFAULT now(),
    next_attempt_at timestamptz,
    lease_until timestamptz,
    fence bigint NOT NULL DEFAULT 0,
    settled_at timestamptz,
    last_error text,
    CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (aggregateid, position, bucket),
    CONSTRAINT webhook_deliveries_bucket CHECK (bucket = repricer.bucket_of(aggregateid)),
    CONSTRAINT webhook_deliveries_event FOREIGN KEY (aggregateid, position, bucket)
        REFERENCES repricer.outbox (aggregateid, position, bucket) ON DELETE CASCADE,
    CONSTRAINT webhook_deliveries_state CHECK (state IN ('pending', 'delivered', 'given_up'))
);
CREATE INDEX webhook_deliveries_pending ON repricer.webhook_deliveries (aggregateid, position)
    WHERE state = 'pending';
-- The order in which events are due. An event behind one that waits bears that one's next attempt, so that no query reads
-- it before it can be sent.
CREATE INDEX webhook_deliveries_due
    ON repricer.webhook_deliveries ((coalesce(next_attempt_at, '-infinity')), position) WHERE state = 'pending';
-- A gauge counts them every few seconds. Without a configured webhook nothing is tried and there is nothing to repair, so
-- those rows are left out.
CREATE INDEX webhook_deliveries_given_up ON repricer.webhook_deliveries (settled_at)
    WHERE state = 'given_up' AND last_error <> 'no webhook was configured';
