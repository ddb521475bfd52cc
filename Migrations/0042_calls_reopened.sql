-- A call that a statement had settled, and that a later one shows to have been about another, is opened again: it is
-- looked at until it was seen applied or can't be on its way any more, and never sent again. Its change is then judged
-- anew: what was true when the call was written may be long past.
-- Locks: price_change_requests, for a moment.
-- breaking: no

ALTER TABLE repricer.price_change_requests ADD COLUMN is_reopened boolean DEFAULT false NOT NULL;
COMMENT ON COLUMN repricer.price_change_requests.is_reopened IS
    'A late statement took its proof away: from then on it is looked at and never sent.';
