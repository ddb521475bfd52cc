-- Consent thresholds, storefronts that always ask, currency decimals and exchange rates are data. What Apple changes
-- is imported; nothing is overwritten, so an old instant is still judged by the rules of its day. Each row has two
-- instants: valid_from, since when it holds, and recorded_at, since when it is known here. A plan as of an instant knows
-- what was recorded by then.
-- Locks: none on existing tables.
-- breaking: no

-- One row an import; its number is the version of the rules. Of two imports at one moment, the second fails at the primary key
-- and starts again. Only import_rules adds to these tables.
-- A withdrawn row states no rule. It takes back what was recorded before it for its key and valid_from, so that the row of
-- an earlier valid_from holds again.
CREATE TABLE repricer.rule_imports (
    revision integer NOT NULL,
    imported_at timestamptz NOT NULL,
    imported_by text NOT NULL DEFAULT session_user,
    file text NOT NULL,
    content_sha256 text,
    CONSTRAINT rule_imports_pkey PRIMARY KEY (revision),
    -- Lets a rule refer to its import together with person and instant: nobody adds to another's import, or at
    -- another time.
    CONSTRAINT rule_imports_person UNIQUE (revision, imported_by, imported_at),
    CONSTRAINT rule_imports_revision CHECK (revision > 0),
    CONSTRAINT rule_imports_file_size CHECK (length(file) BETWEEN 1 AND 4096)
);
COMMENT ON TABLE repricer.rule_imports IS
    'Who changed the rules, when and from which file. The highest revision is the version of the rules.';

CREATE TABLE repricer.consent_thresholds (
    storefront text NOT NULL,
    currency text NOT NULL,
    period_kind text NOT NULL,
    valid_from timestamptz NOT NULL,
    revision integer NOT NULL,
    imported_by text NOT NULL DEFAULT session_user,
    recorded_at timestamptz NOT NULL,
    withdrawn boolean NOT NULL DEFAULT false,
    amount_milliunits bigint,
    source text,
    -- -infinity: it has always held. Programs can read no other instant outside this range.
    CONSTRAINT consent_thresholds_valid_from CHECK (
        valid_from = '-infinity' OR valid_from BETWEEN '0001-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'),
    CONSTRAINT consent_thresholds_pkey
        PRIMARY KEY (storefront, currency, period_kind, valid_from, revision),
    CONSTRAINT consent_thresholds_import FOREIGN KEY (revision, imported_by, recorded_at)
        REFERENCES repricer.rule_imports (revision, imported_by, imported_at),
    CONSTRAINT consent_thresholds_says CHECK (
        withdrawn = (amount_milliunits IS NULL) AND withdrawn = (source IS NULL)),
    CONSTRAINT consent_thresholds_amount_max CHECK (amount_milliunits <= 1000000000000000),
    CONSTRAINT consent_thresholds_storefront CHECK (storefront ~ '^[A-Z]{3}$'),
    CONSTRAINT consent_thresholds_currency CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT consent_thresholds_kind CHECK (period_kind IN ('annual', 'nonannual')),
    CONSTRAINT consent_thresholds_amount CHECK (amount_milliunits >= 0),
    CONSTRAINT consent_thresholds_source CHECK (source IN ('apple', 'estimated'))
);
COMMENT ON TABLE repricer.consent_thresholds IS
    'Append-only. An increase above 50 % that also exceeds the amount needs consent. The newest valid_from at '
    'an instant is in force then; of equal ones, the highest revision. -infinity: it has always held. A withdrawn row '
    'takes back what earlier revisions say for its key and valid_from.';

CREATE TABLE repricer.always_consent_storefronts (
    storefront text NOT NULL,
    valid_from timestamptz NOT NULL,
    revision integer NOT NULL,
    imported_by text NOT NULL DEFAULT session_user,
    recorded_at timestamptz NOT NULL,
    withdrawn boolean NOT NULL DEFAULT false,
    is_required boolean,
    source text,
    -- -infinity: it has always held. Programs can read no other instant outside this range.
    CONSTRAINT always_consent_storefronts_valid_from CHECK (
        valid_from = '-infinity' OR valid_from BETWEEN '0001-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'),
    CONSTRAINT always_consent_storefronts_pkey PRIMARY KEY (storefront, valid_from, revision),
    CONSTRAINT always_consent_storefronts_import FOREIGN KEY (revision, imported_by, recorded_at)
        REFERENCES repricer.rule_imports (revision, imported_by, imported_at),
    CONSTRAINT always_consent_storefronts_says CHECK (
        withdrawn = (is_required IS NULL) AND withdrawn = (source IS NULL)),
    CONSTRAINT always_consent_storefronts_storefront CHECK (storefront ~ '^[A-Z]{3}$'),
    CONSTRAINT always_consent_storefronts_source CHECK (source IN ('apple', 'estimated'))
);
COMMENT ON TABLE repricer.always_consent_storefronts IS
    'Append-only. Storefronts where every increase needs consent, or (is_required false) no longer does.';

CREATE TABLE repricer.currency_decimals (
    currency text NOT NULL,
    valid_from timestamptz NOT NULL,
    revision integer NOT NULL,
    imported_by text NOT NULL DEFAULT session_user,
    recorded_at timestamptz NOT NULL,
    withdrawn boolean NOT NULL DEFAULT false,
    decimals integer,
    source text,
    -- -infinity: it has always held. Programs can read no other instant outside this range.
    CONSTRAINT currency_decimals_valid_from CHECK (
        valid_from = '-infinity' OR valid_from BETWEEN '0001-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'),
    CONSTRAINT currency_decimals_pkey PRIMARY KEY (currency, valid_from, revision),
    CONSTRAINT currency_decimals_import FOREIGN KEY (revision, imported_by, recorded_at)
        REFERENCES repricer.rule_imports (revision, imported_by, imported_at),
    CONSTRAINT currency_decimals_says CHECK (
        withdrawn = (decimals IS NULL) AND withdrawn = (source IS NULL)),
    CONSTRAINT currency_decimals_currency CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT currency_decimals_range CHECK (decimals BETWEEN 0 AND 3),
    CONSTRAINT currency_decimals_source CHECK (source IN ('apple', 'estimated'))
);
COMMENT ON TABLE repricer.currency_decimals IS
    'Append-only. The currencies that Apple prices in, with the decimals that its prices have.';

CREATE TABLE repricer.exchange_rates (
    currency text NOT NULL,
    valid_from timestamptz NOT NULL,
    revision integer NOT NULL,
    imported_by text NOT NULL DEFAULT session_user,
    recorded_at timestamptz NOT NULL,
    withdrawn boolean NOT NULL DEFAULT false,
    billionths_per_euro bigint,
    source text,
    -- -infinity: it has always held. Programs can read no other instant outside this range.
    CONSTRAINT exchange_rates_valid_from CHECK (
        valid_from = '-infinity' OR valid_from BETWEEN '0001-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'),
    CONSTRAINT exchange_rates_pkey PRIMARY KEY (currency, valid_from, revision),
    CONSTRAINT exchange_rates_import FOREIGN KEY (revision, imported_by, recorded_at)
        REFERENCES repricer.rule_imports (revision, imported_by, imported_at),
    CONSTRAINT exchange_rates_says CHECK (
        withdrawn = (billionths_per_euro IS NULL) AND withdrawn = (source IS NULL)),
    CONSTRAINT exchange_rates_currency CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT exchange_rates_positive CHECK (billionths_per_euro > 0),
    CONSTRAINT exchange_rates_source_size CHECK (length(source) BETWEEN 1 AND 64)
);
COMMENT ON TABLE repricer.exchange_rates IS
    'Append-only. What one euro costs, in billionths of the currency: to estimate thresholds, and to convert sums into one '
    'currency.';

-- What is known on the day the product ships: the part of Apple's table of storefronts that could be read (AFG to
-- BGR), the rule's own text for the USA, and Apple's currencies. The annual amount is always ten times the other one.
-- Apple's list of storefronts that always ask could not be read: the table is empty, not guessed.
INSERT INTO repricer.rule_imports (revision, imported_at, file)
    VALUES (1, '-infinity', 'shipped with the product');
INSERT INTO repricer.consent_thresholds
        (storefront, currency, period_kind, valid_from, revision, recorded_at, amount_milliunits, source)
    SELECT s.storefront, a.currency, k.kind, '-infinity', 1, '-infinity', a.units * 1000 * k.factor, 'apple'
    FROM (VALUES
        ('USA AFG DZA AGO AIA ATG ARG AZE BHS BHR BLZ BMU BTN BOL BWA VGB BRN', 'USD', 5),
        ('ALB ARM BRB BLR BEN', 'USD', 6),
        ('AUT BEL BIH', 'EUR', 5),
        ('AUS', 'AUD', 8),
        ('BRA', 'BRL', 40),
        ('BGR', 'BGN', 12)) AS a (storefronts, currency, units)
    CROSS JOIN LATERAL unnest(string_to_array(a.storefronts, ' ')) AS s (storefront)
    CROSS JOIN (VALUES ('nonannual', 1), ('annual', 10)) AS k (kind, factor);
INSERT INTO repricer.currency_decimals (currency, valid_from, revision, recorded_at, decimals, source)
    SELECT c.currency, '-infinity', 1, '-infinity', d.decimals, 'apple'
    FROM (VALUES
        ('CLP COP DKK HKD HUF IDR INR JPY KRW KZT MXN NGN NOK PHP PKR RUB SEK THB TWD TZS VND', 0),
        ('AED AUD BGN BRL CAD CHF CNY CZK EGP EUR GBP ILS MYR NZD PEN PLN QAR RON SAR SGD TRY USD ZAR',
            2)) AS d (currencies, decimals)
    CROSS JOIN LATERAL unnest(string_to_array(d.currencies, ' ')) AS c (currency);
