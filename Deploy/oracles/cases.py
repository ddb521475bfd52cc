"""Cases worked by hand: the source page's own examples, and each boundary of the fine print. What they must say stands here
as text; both the product and the judge of this folder are held against it."""

from dataclasses import dataclass

from batch import Row, money
from dates import instant_of, step, text_of
from facts import Item, Offer, Period, Statement, Subscription
from rulebook import Rulebook

MINUTE = 60_000
ALWAYS = "always_consent_storefront"
OVER = "threshold"
RECENT = "increase_within_12_months"
KOREA = "korea_offer_conversion"


@dataclass
class Worked:
    """A subscription by its dates and prices, the row, and what its answer must hold."""
    name: str
    plan: str
    home: str
    # The renewal that comes, and the price today and tomorrow.
    renews: str
    prices: tuple
    now: str
    says: dict
    # When the running subscription began: as many periods earlier as these, all of them told.
    periods: int = 1
    # Earlier prices: (how many periods ago the present price began, the price before).
    raised: tuple = None
    # Only the running period is told of.
    is_young: bool = False
    # Of these periods nobody told: how many periods ago each was, the running one being the first.
    untold: tuple = ()
    not_before: str = ""
    sibling: Item = None
    sibling_renews: Item = None
    sibling_raised: tuple = None
    # Since so many periods the sibling is there.
    sibling_joined: int = 1000
    # The same file raises the sibling, too, to this price.
    with_sibling: int = None
    began: str = None
    moved_from: tuple = None
    imported: str = None
    environment: str = "Production"
    lasts: int = None

    def subscription(self, number):
        storefront, currency = self.home.split("/")
        end = instant_of(self.renews)
        began = instant_of(self.began) if self.began else self._back(end, self.periods)
        starts = [step(began, self.plan, count) for count in range(self.periods)] if not self.lasts else [
            end - self.lasts * (self.periods - count) for count in range(self.periods)]
        statements = []
        for index, start in enumerate(starts):
            ago = self.periods - index
            here = (currency, storefront)
            if self.moved_from and ago > 1:
                here = self.moved_from[:2]
            items = [Item("ITEM", self._price(ago, self.raised, self.prices[0]))]
            if self.moved_from and ago > 1:
                items = [Item("ITEM", self.moved_from[2])]
            if self.sibling and ago <= self.sibling_joined:
                price = self._price(ago, self.sibling_raised, self.sibling.price)
                items.append(Item("SIBLING", price, self.sibling.offer if ago == 1 else None))
            expires = starts[index + 1] if index + 1 < len(starts) else end
            period = Period(start, expires, tuple(items), *here)
            renewal = tuple(items)
            if ago == 1 and self.sibling:
                renewal = (items[0], self.sibling_renews or Item("SIBLING", self.sibling.price))
            if ago == 1 or not self.is_young and ago not in self.untold:
                statements.append(Statement(
                    "DID_RENEW" if index else "SUBSCRIBED", None if index else "INITIAL_BUY", start + 1000, 1, period,
                    renewal))
        found = Subscription(str(2000000001000000 + number * 10000 + 7), str(73000000000000000 + number), self.plan,
                             starts[0], starts[0], statements, environment=self.environment)
        if self.imported:
            found.imported.append(("ITEM", instant_of(self.imported), None))
        return found

    def _price(self, ago, raised, price):
        return raised[1] if raised and ago > raised[0] else price

    def _back(self, end, count):
        return step(end, self.plan, -count)

    def rows(self, subscription):
        storefront, currency = self.home.split("/")
        rows = [Row({
            "original_transaction_id": subscription.id, "sku": "ITEM", "price": money(self.prices[1]),
            "currency": currency, "storefront": storefront, "dependent_skus": "", "expected_price": "",
            "effective_on_or_after": self.not_before}, price=self.prices[1])]
        if self.with_sibling:
            rows.append(Row(dict(rows[0].cells, sku="SIBLING", price=money(self.with_sibling),
                                 effective_on_or_after=""), price=self.with_sibling))
        return rows


def dollars(name, plan, old, new, *reasons):
    """A threshold alone: the history is known, the renewal far away."""
    consent = "required" if reasons else "not_required"
    return Worked(name, plan, "USA/USD", "2027-12-15T12:00:00Z", (old, new), "2027-11-16T00:00:00Z",
                  {"consent": consent, "reasons": list(reasons), "not_known": []},
                  periods=13 if plan == "P1M" else 2)


MONTHLY = ("P1M", "USA/USD", "2027-04-15T12:00:00Z")
WEEKLY = ("P1W", "USA/USD", "2027-04-15T12:00:00Z")
ANNUAL = ("P1Y", "USA/USD", "2027-04-15T12:00:00Z")
TRIAL = dict(sibling=Item("SIBLING", 9_900_000, Offer(0, "P2M", 1)), sibling_renews=Item("SIBLING", 9_900_000))
SHOWN = dict(sibling=Item("SIBLING", 9990))

CASES = [
    # The source: more than 50 percent and more than 5 USD, or 50 USD a year.
    dollars("60 percent and 6 dollars", "P1M", 9990, 15990, OVER),
    dollars("167 percent and exactly 5 dollars", "P1M", 2990, 7990),
    dollars("a cent above 5 dollars", "P1M", 2990, 8000, OVER),
    dollars("exactly 50 percent", "P1M", 10000, 15000),
    dollars("a cent above 50 percent and 5 dollars", "P1M", 10000, 15010, OVER),
    dollars("exactly 50 percent a year", "P1Y", 600000, 900000),
    dollars("50.005 percent and exactly 50 dollars a year", "P1Y", 99990, 149990),
    dollars("a cent above 50 dollars a year", "P1Y", 99990, 150000, OVER),
    dollars("49 percent, however much", "P1Y", 1000000, 1490000),
    dollars("six months count as a period", "P6M", 9990, 15990, OVER),
    dollars("from nothing to 5 dollars", "P1M", 0, 5000),
    dollars("from nothing to a cent more", "P1M", 0, 5010, OVER),
    # 27, 60, 7 days, and a day: the last instant, and the one after it.
    Worked("27 days, consent", *MONTHLY, (9990, 19990), "2027-03-19T12:00:00Z", {
        "consent": "required", "effective_at": "2027-04-15T12:00:00Z", "notice_at": "2027-03-19T12:00:00Z",
        "send_by": "2027-03-19T12:00:00Z", "send_after": None}),
    Worked("27 days, too late", *MONTHLY, (9990, 19990), "2027-03-19T12:00:00.001Z", {
        "effective_at": "2027-05-15T12:00:00Z", "notice_at": "2027-04-18T12:00:00Z",
        "send_by": "2027-04-18T12:00:00Z"}),
    Worked("27 days, announced only", *MONTHLY, (9990, 10990), "2027-03-19T12:00:00Z", {
        "consent": "not_required", "effective_at": "2027-04-15T12:00:00Z", "notice_at": "2027-03-19T12:00:00Z"}),
    Worked("27 days, announced, too late", *MONTHLY, (9990, 10990), "2027-03-19T12:00:00.001Z", {
        "effective_at": "2027-05-15T12:00:00Z"}),
    Worked("60 days a year", *ANNUAL, (99990, 199990), "2027-02-14T12:00:00Z", {
        "consent": "required", "effective_at": "2027-04-15T12:00:00Z", "notice_at": "2027-02-14T12:00:00Z"}),
    Worked("60 days a year, too late", *ANNUAL, (99990, 199990), "2027-02-14T12:00:00.001Z", {
        "effective_at": "2028-04-15T12:00:00Z", "send_by": "2028-02-15T12:00:00Z"}),
    Worked("a year, announced only", *ANNUAL, (99990, 109990), "2027-03-19T12:00:00Z", {
        "consent": "not_required", "effective_at": "2027-04-15T12:00:00Z"}),
    Worked("three months", "P3M", "USA/USD", "2027-04-15T12:00:00Z", (9990, 19990), "2027-02-14T12:00:00.001Z", {
        "effective_at": "2027-07-15T12:00:00Z", "send_by": "2027-05-16T12:00:00Z"}),
    Worked("7 days a week", *WEEKLY, (9990, 19990), "2027-04-08T12:00:00Z", {
        "consent": "required", "effective_at": "2027-04-15T12:00:00Z", "notice_at": "2027-04-08T12:00:00Z"}),
    Worked("7 days a week, too late", *WEEKLY, (9990, 19990), "2027-04-08T12:00:00.001Z", {
        "effective_at": "2027-04-22T12:00:00Z"}),
    # The fourth consecutive renewal, counted from the first that is a day away.
    Worked("weekly, announced only", *WEEKLY, (9990, 10990), "2027-04-14T12:00:00Z", {
        "consent": "not_required", "effective_at": "2027-05-06T12:00:00Z", "send_by": "2027-04-14T12:00:00Z",
        "notice_at": "2027-04-14T12:00:00Z"}),
    Worked("weekly, announced, a day late", *WEEKLY, (9990, 10990), "2027-04-14T12:00:00.001Z", {
        "effective_at": "2027-05-13T12:00:00Z", "send_by": "2027-04-21T12:00:00Z",
        "notice_at": "2027-04-16T12:00:00Z"}),
    Worked("weekly, held: the date binds the fourth", *WEEKLY, (9990, 10990), "2027-04-09T00:00:00Z", {
        "effective_at": "2027-05-20T12:00:00Z", "send_after": "2027-04-21T12:00:00.001Z",
        "send_by": "2027-04-28T12:00:00Z", "judged_at": "2027-04-21T12:00:00.001Z"}, not_before="2027-05-14"),
    Worked("a decrease, a day before", *MONTHLY, (9990, 7990), "2027-04-14T12:00:00Z", {
        "direction": "decrease", "consent": "none", "effective_at": "2027-04-15T12:00:00Z", "notice_at": None,
        "send_by": "2027-04-14T12:00:00Z", "at_risk_milliunits": None}),
    Worked("a decrease, a day late", *MONTHLY, (9990, 7990), "2027-04-14T12:00:00.001Z", {
        "effective_at": "2027-05-15T12:00:00Z"}),
    # Twelve calendar months, to the millisecond.
    Worked("raised a year ago, but for an instant", "P1M", "USA/USD", "2027-04-15T12:00:00Z", (9990, 10990),
           "2027-04-15T11:59:59.999Z", {"consent": "required", "reasons": [RECENT]}, periods=14, raised=(12, 8990)),
    Worked("raised a year ago", "P1M", "USA/USD", "2027-04-15T12:00:00Z", (9990, 10990), "2027-04-15T12:00:00Z", {
        "consent": "not_required"}, periods=14, raised=(12, 8990)),
    Worked("raised by its sibling", *MONTHLY, (9990, 10990), "2027-03-16T00:00:00Z", {
        "consent": "required", "reasons": [RECENT]}, periods=4, sibling=Item("SIBLING", 5990),
        sibling_raised=(2, 4990)),
    Worked("held until after the year", "P1M", "USA/USD", "2027-04-15T12:00:00Z", (9990, 10990),
           "2027-04-01T00:00:00Z", {"consent": "not_required", "effective_at": "2028-03-15T12:00:00Z",
                                    "send_after": "2028-01-19T12:00:00.001Z",
                                    "send_by": "2028-02-17T12:00:00Z"},
           periods=5, raised=(3, 8990), not_before="2028-02-16"),
    Worked("a move is no increase", "P1M", "CAN/CAD", "2027-04-15T12:00:00Z", (13990, 14990), "2027-03-16T00:00:00Z", {
        "consent": "not_known", "reasons": [], "not_known": [ALWAYS]}, periods=4, moved_from=("USD", "USA", 9990)),
    # Periods that nobody told: a rise in them shows where prices can be compared.
    Worked("untold, and compared", *MONTHLY, (9990, 10990), "2027-03-16T00:00:00Z", {
        "consent": "not_required"}, periods=4, untold=(2, 3)),
    Worked("untold, and risen", *MONTHLY, (9990, 10990), "2027-03-16T00:00:00Z", {
        "consent": "required", "reasons": [RECENT]}, periods=4, untold=(2, 3), raised=(3, 8990)),
    Worked("a move that nobody told", "P1M", "CAN/CAD", "2027-04-15T12:00:00Z", (13990, 14990), "2027-03-16T00:00:00Z", {
        "consent": "not_known", "reasons": [], "not_known": [ALWAYS, RECENT]}, periods=4, untold=(2, 3),
        moved_from=("USD", "USA", 9990)),
    Worked("a sibling that joined while nobody told", *MONTHLY, (9990, 10990), "2027-03-16T00:00:00Z", {
        "consent": "not_known", "reasons": [], "not_known": [RECENT]}, periods=4, untold=(2, 3), sibling_joined=2,
        sibling=Item("SIBLING", 5990)),
    Worked("a sibling that joined, and was told", *MONTHLY, (9990, 10990), "2027-03-16T00:00:00Z", {
        "consent": "not_required"}, periods=4, sibling_joined=2, sibling=Item("SIBLING", 5990)),
    Worked("nothing is known of a year", *MONTHLY, (9990, 10990), "2027-03-20T00:00:00Z", {
        "consent": "not_known", "not_known": [RECENT], "effective_at": "2027-05-15T12:00:00Z"}, periods=6,
        is_young=True),
    # An increase of 28 February 2028 counts until the end of 28 February 2029.
    Worked("a year from a leap day", "P1M", "USA/USD", "2028-03-29T10:00:00Z", (9990, 10990), "2029-02-28T12:00:00Z", {
        "consent": "not_known", "not_known": [RECENT], "effective_at": "2029-03-29T10:00:00Z"}, periods=4,
        began="2027-11-29T10:00:00Z", is_young=True),
    Worked("a year from a leap day, over", "P1M", "USA/USD", "2028-03-29T10:00:00Z", (9990, 10990),
           "2029-03-01T00:00:00Z", {"consent": "not_required", "not_known": []}, periods=4,
           began="2027-11-29T10:00:00Z", is_young=True),
    # A stated day is over everywhere two days after it began in UTC.
    Worked("imported, and counting", *MONTHLY, (9990, 10990), "2027-03-18T23:59:59.999Z", {
        "consent": "required", "reasons": [RECENT]}, periods=13, imported="2026-03-17"),
    Worked("imported, and over", *MONTHLY, (9990, 10990), "2027-03-19T00:00:00Z", {
        "consent": "not_required"}, periods=13, imported="2026-03-17"),
    # Which storefronts always need consent: none is known, and Apple's own amount says no.
    Worked("nothing is known of Germany", "P1M", "DEU/EUR", "2027-04-15T12:00:00Z", (10000, 13000),
           "2027-03-16T00:00:00Z", {"consent": "not_known", "not_known": [ALWAYS], "reasons": []}),
    Worked("Austria has an amount", "P1M", "AUT/EUR", "2027-04-15T12:00:00Z", (10000, 13000), "2027-03-16T00:00:00Z", {
        "consent": "not_required"}),
    # Estimates: of the known amounts in dollars, 5 is the median and 1 the error.
    Worked("a cent below the estimate's doubt", "P1M", "ECU/USD", "2027-04-15T12:00:00Z", (1000, 5000),
           "2027-03-16T00:00:00Z", {"not_known": [ALWAYS], "reasons": []}),
    Worked("in the estimate's doubt", "P1M", "ECU/USD", "2027-04-15T12:00:00Z", (1000, 5010), "2027-03-16T00:00:00Z", {
        "not_known": [ALWAYS, OVER], "reasons": []}),
    Worked("above the estimate's doubt", "P1M", "ECU/USD", "2027-04-15T12:00:00Z", (1000, 7000),
           "2027-03-16T00:00:00Z", {"consent": "required", "reasons": [OVER]}),
    Worked("no rate", "P1M", "CHL/CLP", "2027-04-15T12:00:00Z", (1_000_000, 1_501_000), "2027-03-16T00:00:00Z", {
        "not_known": [ALWAYS, OVER], "consent": "not_known"}),
    # Korea: a two-month trial from 1 March converts on 1 May; consent between 1 and 30 April, days of Seoul.
    Worked("Korea: the source's own example", "P2M", "KOR/KRW", "2027-04-30T15:00:00Z", (9_900_000, 10_900_000),
           "2027-03-10T00:00:00Z", {
               "consent": "required", "reasons": [KOREA], "effective_at": "2027-04-30T15:00:00Z",
               "notice_at": "2027-03-31T15:00:00Z", "send_by": "2027-03-31T15:00:00Z",
               "window": ("2027-04-01", "2027-04-30")}, began="2027-02-28T15:00:00Z", **TRIAL),
    Worked("Korea: too late for the conversion", "P2M", "KOR/KRW", "2027-04-30T15:00:00Z", (9_900_000, 10_900_000),
           "2027-03-31T15:00:00.001Z", {
               "consent": "not_known", "reasons": [], "effective_at": "2027-06-30T15:00:00Z"},
           began="2027-02-28T15:00:00Z", **TRIAL),
    Worked("Korea: a year converts", "P1Y", "KOR/KRW", "2027-02-15T03:00:00Z", (99_000_000, 109_000_000),
           "2027-01-10T00:00:00Z", {
               "consent": "required", "reasons": [KOREA], "effective_at": "2027-02-15T03:00:00Z",
               "notice_at": "2027-01-16T03:00:00Z", "window": ("2027-01-16", "2027-02-14")}, **TRIAL),
    Worked("elsewhere a trial ends without consent", "P2M", "AUT/EUR", "2027-04-30T15:00:00Z", (9900, 10900),
           "2027-03-10T00:00:00Z", {"consent": "not_required", "reasons": []}, began="2027-02-28T15:00:00Z",
           sibling=Item("SIBLING", 9900, Offer(0, "P2M", 1))),
    # India, and anchors.
    Worked("India, up", "P1M", "IND/INR", "2027-04-15T12:00:00Z", (99_000, 109_000), "2027-03-16T00:00:00Z", {
        "code": "india_increase"}),
    Worked("India, down", "P1M", "IND/INR", "2027-04-15T12:00:00Z", (99_000, 89_000), "2027-03-16T00:00:00Z", {
        "code": None, "consent": "none"}),
    Worked("the 31st comes back", "P1M", "USA/USD", "2027-02-28T12:00:00Z", (9990, 10990), "2027-02-20T00:00:00Z", {
        "renewal_at": "2027-02-28T12:00:00Z", "effective_at": "2027-03-31T12:00:00Z"}, periods=1,
        began="2027-01-31T12:00:00Z"),
    Worked("an extension has its own day", "P1M", "USA/USD", "2027-03-10T12:00:00Z", (9990, 10990),
           "2027-02-20T00:00:00Z", {"effective_at": "2027-04-10T12:00:00Z"}, began="2027-01-31T12:00:00Z"),
    Worked("stale", *MONTHLY, (9990, 10990), "2027-05-20T00:00:00Z", {
        "stale": True, "renewal_at": "2027-06-15T12:00:00Z", "effective_at": "2027-07-15T12:00:00Z"}),
    Worked("not stale at the renewal itself", *MONTHLY, (9990, 10990), "2027-04-15T12:00:00Z", {
        "stale": False, "renewal_at": "2027-04-15T12:00:00Z", "effective_at": "2027-05-15T12:00:00Z"}),
    # Siblings: Apple's, and those of the same file.
    Worked("a sibling that Apple asks for", *MONTHLY, (9990, 10990), "2027-03-20T00:00:00Z", {
        "consent": "required", "reasons": [RECENT], "effective_at": "2027-05-15T12:00:00Z"},
        sibling_renews=Item("SIBLING", 11990, None, ("PENDING", 11990)), **SHOWN),
    Worked("a sibling that goes at the same renewal", *MONTHLY, (9990, 10990), "2027-03-16T00:00:00Z", {
        "consent": "not_required", "effective_at": "2027-04-15T12:00:00Z"},
        sibling_renews=Item("SIBLING", 11990, None, ("ACCEPTED", 11990)), **SHOWN),
    Worked("line beside line", *MONTHLY, (9990, 10990), "2027-03-16T00:00:00Z", {
        "consent": "required", "reasons": [RECENT], "effective_at": "2027-06-15T12:00:00Z",
        "because": "line 3"}, with_sibling=10_490, not_before="2027-05-20", **SHOWN),
    Worked("line beside line, together", *MONTHLY, (9990, 10990), "2027-03-16T00:00:00Z", {
        "consent": "not_required", "effective_at": "2027-04-15T12:00:00Z"}, with_sibling=10_490, **SHOWN),
    Worked("a weekly line that goes first", *WEEKLY, (9990, 10990), "2027-04-09T00:00:00Z", {
        "consent": "required", "reasons": [RECENT], "effective_at": "2027-04-29T12:00:00Z"}, with_sibling=29_990,
        **SHOWN),
    # Apple's Sandbox: a month of five minutes.
    Worked("Sandbox, up", "P1M", "USA/USD", "2027-04-15T12:05:00Z", (9990, 19990), "2027-04-15T12:04:30Z", {
        "effective_at": "2027-04-15T12:10:00Z", "notice_at": "2027-04-15T12:05:00Z",
        "send_by": "2027-04-15T12:05:00Z", "send_after": None}, environment="Sandbox", lasts=5 * MINUTE),
    Worked("Sandbox, down", "P1M", "USA/USD", "2027-04-15T12:05:00Z", (9990, 8990), "2027-04-15T12:04:30Z", {
        "effective_at": "2027-04-15T12:05:00Z", "notice_at": None, "send_by": "2027-04-15T12:05:00Z"},
        environment="Sandbox", lasts=5 * MINUTE),
    Worked("Sandbox, stale", "P1M", "USA/USD", "2027-04-15T12:05:00Z", (9990, 8990), "2027-04-15T12:12:00Z", {
        "renewal_at": "2027-04-15T12:15:00Z", "effective_at": "2027-04-15T12:15:00Z", "stale": True},
        environment="Sandbox", lasts=5 * MINUTE),
    Worked("Sandbox, held", "P1M", "USA/USD", "2027-04-15T12:05:00Z", (9990, 8990), "2027-04-15T12:04:30Z", {
        "code": "malformed_row"}, environment="Sandbox", lasts=5 * MINUTE, not_before="2027-05-01"),
]


class CaseWorld:
    """All cases of one environment, with the shipped rules alone."""

    def __init__(self, cases, environment):
        self.environment, self.cases = environment, cases
        self.subscriptions = [case.subscription(number) for number, case in enumerate(cases)]
        self.by_id = {each.id: each for each in self.subscriptions}
        self.homes = {each.id: each.newest.period.storefront for each in self.subscriptions}
        self.rulebook = Rulebook()

    @staticmethod
    def home_of(id_, sku):
        """Nobody here has two subscriptions."""
        return id_

    def teach(self, product, signer, at):
        product.ingest([each.payload(statement, signer)
                        for each in self.subscriptions for statement in each.statements])
        lines = [f"{each.id},{sku},{text_of(on)[:10]},1.99,2.99,USD"
                 for each in self.subscriptions for sku, on, _ in each.imported]
        if lines:
            header = "original_transaction_id,sku,increased_on,old_price,new_price,currency"
            product.expect(0, "history", "import", "-", text="\n".join([header, *lines]) + "\n")
        for each in self.subscriptions:
            each.imported = [(sku, on, at) for sku, on, _ in each.imported]


def all_cases(surroundings, report, asked):
    # The clock stands before all cases, so that every import is known to each.
    begun = instant_of("2027-01-01")
    for environment in ["Production", "Sandbox"]:
        world = CaseWorld([case for case in CASES if case.environment == environment], environment)
        product = surroundings.product(f"cases_{environment.lower()}", begun, environment)
        world.teach(product, surroundings.signer, begun)
        for case, subscription in zip(world.cases, world.subscriptions):
            rows = case.rows(subscription)
            plan = asked(product, world, rows, instant_of(case.now))
            plan.judge(report, "rows of worked cases")
            answer, verdict = plan.answers[0], plan.expectation.verdicts[2]
            about = f"{case.name}\n    {plan.about(rows[0])}"
            report.add("worked cases", about, _missed(case.says, answer))
            report.add("the judge's own answers to worked cases", about, _missed(case.says, _as_answer(verdict)))
        product.drop()


def _missed(says, answer):
    found = []
    rules = {each["rule"]: each["inputs"] for each in answer.get("rules", [])}
    for name, expected in says.items():
        if name == "window":
            answered = tuple(rules.get(KOREA, {}).get(each) for each in ["window_first_on", "window_last_on"])
        elif name == "because":
            answered = rules.get(RECENT, {}).get("because")
        else:
            answered = answer[name]
        if expected != answered:
            found.append((name, expected, answered))
    return found


def _as_answer(verdict):
    """The judge's verdict in the form of the product's answer."""
    answer = {name: None if (at := getattr(verdict, name)) is None else text_of(at)
              for name in ["judged_at", "renewal_at", "notice_at", "send_after", "send_by", "effective_at"]}
    for name in ["code", "direction", "consent", "reasons", "not_known", "stale"]:
        answer[name] = getattr(verdict, name)
    answer["at_risk_milliunits"] = verdict.at_risk
    first, last = verdict.window or (None, None)
    answer["rules"] = [{"rule": KOREA, "inputs": {"window_first_on": first, "window_last_on": last}},
                       {"rule": RECENT, "inputs": {"because": verdict.because}}]
    return answer
