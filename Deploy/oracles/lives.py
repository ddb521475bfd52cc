"""Random subscribers: what happened to each, and which of it was told to us."""

from dataclasses import replace

from dates import DAY, HOUR, MONTHS, add_months, moment, step
from facts import Item, Offer, Period, Statement, Subscription
from rulebook import grain

# Storefronts with Apple's own row, without any, with an entry in the list of the world, and with rules of their own.
HOMES = [("USA", "USD"), ("USA", "USD"), ("ALB", "USD"), ("AUS", "AUD"), ("AUT", "EUR"), ("DEU", "EUR"),
         ("FRA", "EUR"), ("BRA", "BRL"), ("BGR", "BGN"), ("KOR", "KRW"), ("KOR", "KRW"), ("IND", "INR"),
         ("JPN", "JPY"), ("GBR", "GBP"), ("CHL", "CLP"), ("SWE", "SEK"), ("CAN", "CAD"), ("ECU", "USD"),
         ("POL", "PLN"), ("VNM", "VND")]
PLANS = ["P1W", "P1M", "P1M", "P1M", "P2M", "P3M", "P6M", "P1Y", "P1Y"]
SKUS = ["FILM", "SPORT", "NEWS", "KIDS"]
# Of more periods than these nobody is told: each costs three signatures.
MOST_TOLD = 14
WORTH = {"JPY": 150, "KRW": 1400, "INR": 90, "CLP": 950, "SEK": 10, "VND": 26000, "BRL": 5}


def some_price(chance, currency, annual):
    worth = WORTH.get(currency, 1) * (10 if annual else 1)
    base = chance.choice([990, 1990, 2990, 4990, 9990, 9990, 10000, 12990, 19990, 30000, 63990, 99990])
    price = base * worth
    return max(grain(currency), price // grain(currency) * grain(currency))


class LifeMaker:
    def __init__(self, chance, now, environment="Production"):
        self.chance, self.now, self.environment = chance, now, environment

    def maybe(self, percent):
        return self.chance.random() * 100 < percent

    def subscription(self, number):
        chance = self.chance
        plan = chance.choice(PLANS)
        storefront, currency = chance.choice(HOMES)
        starts = self._start(plan)
        renewals = self._periods(starts, plan)
        skus = chance.sample(SKUS, chance.choice([1, 1, 2, 2, 3, 4]))
        items = [Item(f"{sku}_{plan[1:]}", some_price(chance, currency, plan == "P1Y")) for sku in skus]
        periods = self._history(renewals, items, currency, storefront)
        bought = began = starts
        if self.maybe(8):
            bought, before = self._earlier_life(starts, plan, periods[0])
            periods = before + periods
        if self.maybe(30 if bought != starts else 4):
            began = None
        found = Subscription(
            str(2000000000000000 + number * 10000 + chance.randint(1, 9)), str(72000000000000000 + number), plan, bought,
            began, [], environment=self.environment)
        if self.maybe(15):
            periods = [replace(each, seats=chance.choice([1, 2, 3, 7, 250])) for each in periods]
        found.family = self.maybe(2)
        self._tell(found, periods)
        if self.maybe(8) and found.newest.period.items:
            at = self.now - chance.randint(0, 900) * DAY
            found.imported.append((found.newest.period.items[0].sku, at // DAY * DAY, None))
        return found

    def _start(self, plan):
        chance = self.chance
        at = self.now - int(chance.random() ** 2 * 3 * 366 * DAY) - HOUR
        if self.maybe(45):
            day = moment(at)
            for wanted in chance.sample([28, 29, 30, 31], 4):
                try:
                    at += (day.replace(day=wanted) - day).days * DAY
                    break
                except ValueError:
                    continue
        if self.maybe(15):
            at = at // DAY * DAY
        return at if at < self.now else at - 31 * DAY

    def _periods(self, start, plan):
        """The starts of all periods until the one that runs now, and its end."""
        found, count = [start], 1
        while found[-1] <= self.now:
            found.append(step(start, plan, count, moment(start).day))
            count += 1
        if self.maybe(6) and len(found) > 2:
            # Nothing was heard of the last renewals.
            del found[-self.chance.randint(1, min(3, len(found) - 2)):]
        elif self.maybe(6) and len(found) > 1:
            found[-1] += self.chance.randint(1, 60) * DAY
        return found

    def _history(self, renewals, items, currency, storefront):
        """What each period cost: raises, decreases, and at times a move to another storefront, or an item that joins."""
        chance, found = self.chance, []
        count = len(renewals) - 1
        turns = {chance.randrange(count) for _ in range(chance.choice([0, 0, 1, 1, 2]))}
        moved = chance.randrange(1, count) if count > 1 and self.maybe(12) else 0
        joined = chance.randrange(1, count) if count > 1 and len(items) > 1 and self.maybe(25) else 0
        for index in range(count):
            if index in turns and index:
                items = self._turn(items, currency)
            here = (currency, storefront)
            if index < moved:
                here = chance.choice([("USD", "USA"), ("CAD", "CAN"), ("EUR", "FRA")])
            here_now = items[:-1] if index < joined else items
            found.append(Period(renewals[index], renewals[index + 1], tuple(here_now), *here))
        return found

    def _turn(self, items, currency):
        changed = list(items)
        at = self.chance.randrange(len(changed))
        step_size = grain(currency)
        share = self.chance.choice([5, 10, 30, 60, -10, -30])
        if not changed[at].price:
            share = abs(share)
        price = changed[at].price + max(step_size, abs(changed[at].price * share // 100)) * (1 if share > 0 else -1)
        changed[at] = Item(changed[at].sku, max(step_size, price // step_size * step_size))
        return changed

    def _earlier_life(self, starts, plan, first):
        """A running subscription before a lapse of more than 60 days: its start, and one period of it."""
        gap = self.chance.randint(61, 300) * DAY
        began = add_months(starts - gap, -MONTHS.get(plan, 1))
        items = tuple(Item(each.sku, each.price if self.maybe(50) else max(grain(first.currency), each.price
                      * 2 // 3 // grain(first.currency) * grain(first.currency))) for each in first.items)
        other = ("P1M" if plan == "P1W" else "P1W") if self.maybe(30) else None
        period = Period(began, step(began, other or plan, 1), items, first.currency, first.storefront, plan=other)
        return began, [period]

    def _tell(self, found, periods):
        """Makes statements of a part of the periods; the running one is always told of."""
        chance, last = self.chance, periods[-1]
        told = chance.choice([
            periods, periods[-MOST_TOLD:], [periods[0], last], [last], periods[-3:], periods[:2],
            chance.sample(periods, chance.randint(1, len(periods)))])
        if len(told) > MOST_TOLD:
            told = chance.sample(told, MOST_TOLD)
        for period in sorted({*told, last}, key=lambda each: each.purchased):
            is_first = period.purchased == found.bought
            signed = period.purchased + chance.randint(1, 3600_000)
            if period is last:
                # At times the newest is told long after the period began.
                if self.maybe(40):
                    signed = chance.randint(signed, max(signed, min(self.now, period.expires) - HOUR))
                self._tell_newest(found, period, min(signed, self.now - 1))
            else:
                found.statements.append(Statement(
                    "SUBSCRIBED" if is_first else "DID_RENEW", "INITIAL_BUY" if is_first else None, signed, 1,
                    period, period.items))

    def _tell_newest(self, found, period, signed):
        chance = self.chance
        status, auto_renews = 1, True
        draw = chance.random() * 100
        if draw < 2:
            status = chance.choice([2, 5])
        elif draw < 4:
            status = 3
        elif draw < 6:
            status = 4
        elif draw < 9:
            auto_renews = False
        period, renewal = self._offers(found, period)
        renewal = self._shown(renewal, period)
        if len(renewal) > 1 and self.maybe(5):
            # One item leaves at the renewal.
            leaves = chance.randrange(len(renewal))
            renewal = renewal[:leaves] + renewal[leaves + 1:]
        type_, subtype = "DID_RENEW", None
        if period.purchased == found.bought:
            type_, subtype = "SUBSCRIBED", "INITIAL_BUY"
        if any(each.increase for each in renewal):
            statuses = {each.increase[0] for each in renewal if each.increase}
            type_, subtype = ("PRICE_CHANGE", None) if statuses == {"SCHEDULED"} else (
                "PRICE_INCREASE", "PENDING" if "PENDING" in statuses else "ACCEPTED")
        elif not auto_renews:
            type_, subtype = "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED"
        elif status == 3:
            type_, subtype = "DID_FAIL_TO_RENEW", None
        elif status == 4:
            type_, subtype = "DID_FAIL_TO_RENEW", "GRACE_PERIOD"
        elif status == 2:
            type_, subtype = "EXPIRED", "VOLUNTARY"
        elif status == 5:
            type_, subtype = "REVOKE", None
        asked = tuple(Item(each.sku, each.price, each.offer, each.increase and ("PENDING", each.increase[1]))
                      for each in renewal)
        if type_ == "PRICE_CHANGE" and self.maybe(60) and signed - HOUR > period.purchased:
            # It was shown before: since then consent may have become needless.
            found.statements.append(Statement(
                "PRICE_CHANGE", None, chance.randint(period.purchased + 1, signed - HOUR), 1, period, renewal))
        if subtype == "ACCEPTED" and self.maybe(50) and signed - HOUR > period.purchased:
            found.statements.append(Statement(
                "PRICE_INCREASE", "PENDING", signed - HOUR, 1, period, asked))
        found.statements.append(Statement(type_, subtype, signed, status, period, renewal, auto_renews))

    def _offers(self, found, period):
        """At times an item runs in an offer, which ends at the next renewal or at a later one."""
        chance = self.chance
        if not self.maybe(25 if period.storefront == "KOR" else 10):
            return period, period.items
        at = chance.randrange(len(period.items))
        item = period.items[at]
        price = chance.choice([0, item.price // 2 // grain(period.currency) * grain(period.currency)])
        left = chance.choice([0, 0, 0, 1, 2])
        # Mostly of the plan's own periods; a longer plan may have offers of months.
        is_plain = found.plan == "P1W" or self.environment == "Sandbox"
        span = found.plan if is_plain else chance.choice([found.plan, found.plan, "P1M"])
        running, coming = list(period.items), list(period.items)
        running[at] = Item(item.sku, item.price, Offer(price, span, left + 1))
        if left:
            coming[at] = Item(item.sku, item.price, Offer(price, span, left))
        return replace(period, items=tuple(running)), tuple(coming)

    def _shown(self, renewal, period):
        """At times Apple shows an increase under way, or a decrease that was made elsewhere."""
        chance = self.chance
        if period.expires < self.now:
            return tuple(renewal)
        changed = list(renewal)
        at = chance.randrange(len(changed))
        item = changed[at]
        unit = grain(period.currency)
        if item.offer or any(each.sku == item.sku and each.offer for each in period.items):
            return tuple(renewal)
        draw = chance.random() * 100
        if draw < 7:
            price = item.price + max(unit, item.price * chance.choice([5, 20, 60]) // 100 // unit * unit)
            status = chance.choice(["SCHEDULED", "PENDING", "ACCEPTED"])
            shown = item.price if status == "SCHEDULED" else price
            changed[at] = Item(item.sku, shown, None, (status, price))
        elif draw < 10:
            lower = max(unit, item.price * 3 // 4 // unit * unit)
            changed[at] = Item(item.sku, lower)
        elif draw < 13:
            # A higher price that the customer agreed to elsewhere, such as with another item.
            changed[at] = Item(item.sku, item.price + max(unit, item.price * 3 // 10 // unit * unit))
        return tuple(changed)
