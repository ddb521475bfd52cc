-- A subscription sold without Advanced Commerce tells a free trial by its offerDiscountType, not by the price of an
-- item: its renewal date can't be extended.
-- Locks: subscriptions, for a moment.
-- breaking: no

ALTER TABLE repricer.subscriptions ADD COLUMN offer_discount_type text;
COMMENT ON COLUMN repricer.subscriptions.offer_discount_type IS
    'Of the running period of an ordinary subscription: FREE_TRIAL, PAY_AS_YOU_GO, PAY_UP_FRONT, ONE_TIME; null: no offer.';
