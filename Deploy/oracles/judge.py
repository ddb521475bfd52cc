"""The contract of one row of a plan, written from its words: consent, dates, money, refusals."""

from bisect import bisect_left
from dataclasses import dataclass, field
from fractions import Fraction

from dates import DAY, MONTHS, add_months, moment, seoul_day, step
from facts import twelve_months_after
from rulebook import Book, kind_of

CONSENT_LEAD = {"P1W": 7 * DAY, "P1M": 27 * DAY}
LONG_LEAD, NOTICE_LEAD, KOREA_LEAD = 60 * DAY, 27 * DAY, 30 * DAY
RULES = ["always_consent_storefront", "threshold", "increase_within_12_months", "korea_offer_conversion"]


@dataclass
class Verdict:
    """What a row's answer must say; None where the contract leaves it open."""
    code: str = None
    direction: str = None
    consent: str = None
    reasons: list = field(default_factory=list)
    not_known: list = field(default_factory=list)
    judged_at: int = None
    renewal_at: int = None
    notice_at: int = None
    send_after: int = None
    send_by: int = None
    effective_at: int = None
    stale: bool = None
    at_risk: int = None
    elsewhere: list = field(default_factory=list)
    # The dependents by (subscription, SKU): what each is charged, and whether the row's own sum has it.
    dependents: dict = field(default_factory=dict)
    threshold: object = None
    # The latest increase that counts: a line, or its instant.
    because: object = None
    window: tuple = None
    facts: dict = field(default_factory=dict)
    doubts: set = field(default_factory=set)


RAISED = "renews at a higher price"


@dataclass(frozen=True)
class Past:
    """What happened or will: an increase of another item of the same subscription."""
    sku: str
    at: int
    why: str


class Renewals:
    """R0, R1 … of one subscription as seen at an instant."""

    def __init__(self, subscription, now, statement=None):
        """By the newest statement, or by an earlier one."""
        self.plan = subscription.plan
        known = (statement or subscription.newest).period.expires
        self.anchor = self._anchor(subscription, known)
        self.stale = known < now
        skip = 0
        while self._step(known, skip) < now:
            skip += 1
        self.known, self.skip, self.dates = known, skip, []

    def _anchor(self, subscription, known):
        start = subscription.began if subscription.began is not None else subscription.bought
        if self.plan == "P1W":
            return None
        at, end = moment(start), moment(known)
        months = (end.year - at.year) * 12 + end.month - at.month
        if months > 0 and months % MONTHS[self.plan] == 0 and add_months(start, months) == known:
            return at.day
        return end.day

    def _step(self, known, count):
        return step(known, self.plan, count, self.anchor)

    def __getitem__(self, index):
        while len(self.dates) <= index:
            self.dates.append(self._step(self.known, self.skip + len(self.dates)))
        return self.dates[index]

    def first_not_before(self, instant):
        index = 0
        while self[index] < instant:
            index += 1
        return index


class Case:
    """One row that is an increase or a decrease of one item, without what forbids it."""

    def __init__(self, subscription, sku, new_price, rulebook, now, siblings, not_before=None, known=None,
                 statement=None):
        self.subscription, self.sku, self.new = subscription, sku, new_price
        self.rulebook, self.now = rulebook, now
        self.current = subscription.item(sku).price
        # The instant as of which the rules and the imported increases are known.
        self.known = now if known is None else known
        self.is_increase = new_price > self.current
        self.renewals = Renewals(subscription, now, statement)
        self.siblings = siblings + self._raised()
        self.not_before = not_before
        self.past = subscription.increases(self.known)
        self.books = {}
        self.doubts = set()
        storefront = subscription.newest.period.storefront
        self.storefront, self.currency = storefront, subscription.newest.period.currency
        self.conversions = self._conversions() if storefront == "KOR" else set()

    def _raised(self):
        """Items that renew at a higher price, for which Apple shows no increase: once that is charged it is one.
        The open changes here were never sent, so none of them explains such a price."""
        found = []
        for item in self.subscription.newest.renewal:
            running = self.subscription.item(item.sku)
            if running and not item.offer and not item.increase and item.price > running.price:
                found.append(Past(item.sku, self.renewals.known, RAISED))
        return found

    def _conversions(self):
        """The renewals, counted from the next, at which another item's offer ends: the first after its periods are over."""
        found, known = set(), self.renewals.known
        for item in self.subscription.newest.period.items:
            if not item.offer or item.sku == self.sku:
                continue
            renewing = self.subscription.renewing(item.sku)
            if renewing is None:
                continue
            offer, count = renewing.offer, 0
            over = step(known, offer.period, offer.count) if offer else known
            while step(known, self.subscription.plan, count, self.renewals.anchor) < over:
                count += 1
            found.add(count - self.renewals.skip)
        return found

    def book(self, at):
        edges = sorted(self.rulebook.instants())
        key = bisect_left(edges, at + 1)
        if key not in self.books:
            self.books[key] = Book(self.rulebook.in_force(at, self.known))
        return self.books[key]

    def answers(self, at, index):
        """Each rule's answer for a call at an instant that would take effect at the renewal of this index."""
        book = self.book(at)
        kind = kind_of(self.subscription.plan)
        self.last_threshold = threshold = book.threshold(self.storefront, self.currency, kind)
        return [
            book.always_consent(self.storefront), self._over(threshold), self._increased(at, index),
            self.storefront == "KOR" and index in self.conversions]

    def _over(self, threshold):
        difference = self.new - self.current
        if 2 * difference <= self.current:
            return False
        if threshold.amount is None:
            return None
        if threshold.source == "estimated":
            beyond = abs(difference - threshold.amount) - threshold.error
            # To a thousandth of a milliunit, for the rates are decimals.
            if threshold.error and abs(beyond) < Fraction(1, 1000):
                self.doubts.add("an estimate is rounded")
            if beyond < 0:
                return None
        return difference > threshold.amount

    def _increased(self, at, index):
        counting = [each for each in self.past if each.until > at]
        siblings = [each for each in self.siblings if each.at < self.renewals[index] and
                    twelve_months_after(each.at) > at]
        if counting or siblings:
            return True
        if self.subscription.known_from_start():
            return False
        # Around a leap day twelve months forward and twelve months back are not the same: both must be told of.
        since = self.subscription.known_since()
        return False if twelve_months_after(since) <= at and add_months(at, -12) >= since else None

    def _because(self, at, index):
        """The latest increase that counts, as its row in this file or as its instant; None where nothing does or where
        two are the latest."""
        counting = [(each.at, each.at) for each in self.past if each.until > at]
        counting += [(each.at, each.why if each.why.startswith("line ") else each.at if each.why == RAISED else None)
                     for each in self.siblings
                     if each.at < self.renewals[index] and twelve_months_after(each.at) > at]
        latest = max((when for when, _ in counting), default=None)
        names = {name for when, name in counting if when == latest}
        return names.pop() if len(names) == 1 else None

    def verdict(self, at, index):
        """Consent and lead for a call at an instant that would take effect at the renewal of this index."""
        if not self.is_increase:
            return "none", 0, [], []
        answers = self.answers(at, index)
        reasons = [name for name, each in zip(RULES, answers) if each is True]
        not_known = [name for name, each in zip(RULES, answers) if each is None]
        if "korea_offer_conversion" in reasons:
            return "required", KOREA_LEAD, reasons, not_known
        if reasons or not_known:
            lead = CONSENT_LEAD.get(self.subscription.plan, LONG_LEAD)
            return ("required" if reasons else "not_known"), lead, reasons, not_known
        return "not_required", NOTICE_LEAD, [], []

    def gives(self, at):
        """The index of the renewal at which a call at this instant takes effect."""
        index = self.renewals.first_not_before(at)
        while True:
            consent, lead, _, _ = self.verdict(at, index)
            if consent == "not_required" and self.subscription.plan == "P1W":
                if index >= 3 and at <= self.renewals[index - 3] - DAY:
                    return index
            elif at <= self.renewals[index] - max(lead, DAY):
                return index
            index += 1

    def edges(self, until):
        """The instants from which on a call may be judged otherwise than just before."""
        found, index = set(), 0
        while self.renewals[index] - LONG_LEAD <= until or index < 4:
            for lead in [DAY, 7 * DAY, NOTICE_LEAD, KOREA_LEAD, LONG_LEAD]:
                found.add(self.renewals[index] - lead + 1)
            index += 1
        found |= {each.until for each in self.past}
        for at in [*(each.at for each in self.siblings), self.subscription.known_since()]:
            found.add(twelve_months_after(at))
        year = twelve_months_after(self.subscription.known_since())
        # A leap day begins or ends on the midnight after it, and repeats its time of day.
        found |= {year // DAY * DAY + DAY, year + DAY}
        return sorted((found | self.rulebook.instants()) - {0})

    def allowed(self, index):
        return self.not_before is None or self.renewals[index] >= self.not_before

    def judge(self):
        """The whole verdict: the first instant at which a call is given a renewal that is allowed."""
        horizon = (self.not_before or self.now) + 2 * 366 * DAY
        for at in [self.now, *(each for each in self.edges(horizon) if each > self.now)]:
            index = self.gives(at)
            if self.allowed(index):
                return self._verdict(at, index)
        raise ValueError("no renewal is given within two years")

    def judge_in_sandbox(self):
        """Apple's shortened periods: the next renewal keeps the old price, and nothing is held back."""
        self.renewals.dates = sandbox_renewals(self.subscription, self.now)
        first = self.renewals[0]
        found = self._verdict(self.now, 1 if self.is_increase else 0)
        found.send_after, found.send_by, found.renewal_at = None, first, first
        found.notice_at = first if self.is_increase else None
        found.doubts = set(self.doubts)
        return found

    def _verdict(self, at, index):
        consent, lead, reasons, not_known = self.verdict(at, index)
        effective = self.renewals[index]
        found = Verdict(
            direction="increase" if self.is_increase else "decrease", consent=consent, reasons=reasons,
            not_known=not_known, judged_at=at, renewal_at=self.renewals[0], effective_at=effective,
            stale=self.renewals.stale)
        if self.is_increase:
            found.threshold = self.last_threshold
            found.notice_at = max(self.now, effective - lead)
            found.because = self._because(at, index)
            if "korea_offer_conversion" in reasons:
                found.window = (seoul_day(effective - KOREA_LEAD), seoul_day(effective - DAY))
        newest = self.subscription.newest
        found.facts = {
            "currency": self.currency, "storefront": self.storefront, "period": self.subscription.plan,
            "current_price_milliunits": self.current, "new_price_milliunits": self.new,
            "seats": self.subscription.newest.period.seats,
            "facts_at": newest.signed, "known_since": self.subscription.known_since()}
        found.send_after = at if at > self.now else None
        ends = [each - 1 for each in self.edges(effective) if at < each <= effective]
        giving = [each for each in ends if self.gives(each) == index]
        found.send_by = max(giving) if giving else None
        # Where consent turns while the renewal can still be given, "the last instant" has more than one reading.
        if giving:
            between = [each for each in ends if each <= found.send_by]
            if any(self.gives(each) != index for each in between):
                found.doubts.add("given, then not, then given again")
        found.doubts |= self.doubts
        earlier = [each for each in self.edges(effective) if each > at and self.gives(each) < index]
        if earlier:
            found.doubts.add("an earlier renewal is given later")
        return found


def sandbox_renewals(subscription, now):
    """The next two: there a period lasts as long as the running one does."""
    running = subscription.newest.period
    lasts = running.expires - running.purchased
    behind = max(0, -((running.expires - now) // lasts))
    return [running.expires + lasts * (behind + more) for more in range(2)]


def shown_increases(subscription, rulebook, now, environment="Production"):
    """What Apple shows of increases under way: each as another row's history."""
    found = []
    for item in subscription.newest.renewal:
        if not item.increase:
            continue
        status, price = item.increase
        renewals = Renewals(subscription, min(now, subscription.newest.signed))
        was_pending = any(
            (each := next((i for i in s.renewal if i.sku == item.sku), None)) and each.increase
            and each.increase[0] == "PENDING" for s in subscription.statements)
        # The statement that first showed it so tells which renewal was the next one then.
        first = min((s for s in subscription.statements
                     if any(i.sku == item.sku and i.increase == item.increase for i in s.renewal)),
                    key=lambda each: each.signed)
        if environment == "Sandbox":
            at = sandbox_renewals(subscription, subscription.newest.signed)[status == "SCHEDULED"]
        elif status == "SCHEDULED":
            case = Case(subscription, item.sku, price, rulebook, first.signed, [], known=now, statement=first)
            at = case.renewals[case.gives(first.signed)]
        elif status == "ACCEPTED" and not was_pending and subscription.plan == "P1W":
            at = Renewals(subscription, first.signed, first)[3]
        else:
            at = renewals[0]
        # What should have taken effect before is due next.
        at = max(at, renewals[0]) if environment != "Sandbox" else at
        found.append(Past(item.sku, at, status))
    return found
