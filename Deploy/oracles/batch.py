"""Batches: random rows with faults planted in some, the file that holds them, and what a plan must say of each."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from dates import DAY, day_of, instant_of
from judge import Case, Past, Renewals, Verdict, shown_increases
from rulebook import CURRENCIES, NO_DECIMALS, grain

CODES = """malformed_row bad_transaction_id bad_sku bad_price price_decimals unknown_currency currency_mismatch
storefront_mismatch unknown_subscription unknown_item duplicate_row no_change drifted conflict_open_change dependent_self
dependent_unknown dependent_shared dependent_chained not_active auto_renew_off billing_retry grace_period item_in_offer
india_increase already_communicated""".split()


def money(milliunits):
    text = f"{milliunits // 1000}.{milliunits % 1000:03d}"
    return text.rstrip("0").rstrip(".")


def money_of(text):
    """Milliunits of a decimal text."""
    whole, _, rest = text.partition(".")
    return int(whole) * 1000 + int((rest + "000")[:3])


@dataclass
class Row:
    """A row as its cells say it; `faults` are those of its own cells, planted."""
    cells: dict
    line: int = 0
    faults: set = field(default_factory=set)
    price: int = None

    @property
    def group(self):
        return (self.cells["original_transaction_id"], self.cells["sku"])

    @property
    def dependents(self):
        return list(dict.fromkeys(each for each in self.cells["dependent_skus"].split(";") if each))

    def claims(self, world):
        """Each dependent as (subscription, sku): SUBSCRIPTION/SKU, or a SKU of its own or of the customer's others."""
        own = self.cells["original_transaction_id"]
        found = []
        for each in self.dependents:
            id_, _, sku = each.rpartition("/")
            found.append((id_ or world.home_of(own, sku), sku))
        return list(dict.fromkeys(found))

    @property
    def not_before(self):
        return instant_of(self.cells["effective_on_or_after"] or None)


class BatchMaker:
    def __init__(self, chance, world, now, fault_share=8):
        self.chance, self.world, self.now, self.fault_share = chance, world, now, fault_share

    def maybe(self, percent):
        return self.chance.random() * 100 < percent

    def rows(self, share=100):
        found = []
        for subscription in self.world.subscriptions:
            if not self.maybe(share):
                continue
            items = list(subscription.newest.period.items)
            count = self.chance.choice([1, 1, 2, len(items)])
            for item in self.chance.sample(items, min(count, len(items))):
                found.append(self._row(subscription, item))
        self.chance.shuffle(found)
        for row in list(found):
            if self.maybe(self.fault_share):
                self._spoil(row, found)
        return found

    def _row(self, subscription, item):
        chance, period = self.chance, subscription.newest.period
        price = self._price(item.price, period.currency, subscription)
        not_before = ""
        if self.maybe(35):
            not_before = day_of(self.now + chance.choice([
                chance.randint(-30, 40), chance.randint(0, 200), chance.randint(0, 500), chance.choice([720, 740, 900])]) * DAY)
        others = [each.sku for each in period.items if each.sku != item.sku]
        dependents = chance.sample(others, 1) if others and self.maybe(15) else []
        elsewhere = [each for each in self.world.of_customer(subscription) if each.newest.status == 1
                     and each.newest.auto_renews and not each.family]
        if elsewhere and self.maybe(25):
            other = chance.choice(elsewhere)
            sku = chance.choice(other.newest.period.items).sku
            dependents.append(f"{other.id}/{sku}" if self.maybe(70) or subscription.renewing(sku) else sku)
        return Row({
            "original_transaction_id": subscription.id, "sku": item.sku, "price": money(price),
            "currency": period.currency, "storefront": period.storefront if self.maybe(70) else "",
            "dependent_skus": ";".join(dependents),
            "expected_price": money(item.price) if self.maybe(30) else "",
            "effective_on_or_after": not_before}, price=price)

    def _price(self, current, currency, subscription):
        """Around what decides: a half more, the amounts of thresholds, a step beside each."""
        chance, unit = self.chance, grain(currency)
        amount = self.world.some_threshold(subscription, chance)
        draw = chance.random()
        if draw < 0.15 and current:
            price = current - max(unit, current * chance.choice([1, 10, 50, 80]) // 100)
        elif draw < 0.45:
            price = current + max(unit, current * chance.choice([1, 6, 20, 49]) // 100)
        elif draw < 0.6:
            price = current + (current + 1) // 2 + chance.choice([-unit, 0, unit])
        elif draw < 0.85:
            price = current + amount + chance.choice([-2 * unit, -unit, 0, unit, 2 * unit])
        else:
            price = current * chance.choice([2, 3, 4]) + unit
        price = price // unit * unit
        return max(unit, price)

    def _spoil(self, row, rows):
        for _ in range(self.chance.choice([1, 1, 2, 3])):
            self.chance.choice([
                self._bad_id, self._bad_sku, self._bad_price, self._decimals, self._currency, self._mismatch,
                self._unknown, self._twice, self._drift, self._same, self._date, self._self_dependent,
                self._expected, self._unknown_dependent])(row, rows)

    def _bad_id(self, row, rows):
        row.cells["original_transaction_id"] = self.chance.choice(["", "12ab", "2.0E+15"])
        row.faults.add("bad_transaction_id")

    def _bad_sku(self, row, rows):
        row.cells["sku"] = self.chance.choice(["", "S" * 129])
        row.faults.add("bad_sku")

    def _bad_price(self, row, rows):
        row.faults.discard("price_decimals")
        row.cells["price"] = self.chance.choice(["", "cheap", "0", "-3", "0.00"])
        row.faults.add("bad_price")

    def _decimals(self, row, rows):
        if row.cells["currency"] in CURRENCIES and row.price and "bad_price" not in row.faults:
            row.cells["price"] = money(row.price // 1000 * 1000) + (
                ".5" if row.cells["currency"] in NO_DECIMALS else ".125")
            row.faults.add("price_decimals")

    def _currency(self, row, rows):
        row.cells["currency"] = self.chance.choice(["", "XYZ"])
        row.faults.add("unknown_currency")
        row.faults.discard("price_decimals")

    def _mismatch(self, row, rows):
        if self.maybe(50):
            row.cells["storefront"] = "MEX"
        elif not row.faults:
            other = "CZK" if row.cells["currency"] not in NO_DECIMALS else "HUF"
            row.cells["currency"] = other

    def _unknown(self, row, rows):
        if not row.faults:
            row.cells[self.chance.choice(["original_transaction_id", "sku"])] = "2000999999990000"
            row.cells["dependent_skus"] = ""

    def _twice(self, row, rows):
        copy = Row(dict(row.cells), faults=set(row.faults), price=row.price)
        rows.insert(self.chance.randint(0, len(rows)), copy)

    def _drift(self, row, rows):
        if "bad_price" not in row.faults:
            row.cells["expected_price"] = money(777000)

    def _same(self, row, rows):
        subscription = self.world.by_id.get(row.cells["original_transaction_id"])
        renewing = subscription and subscription.renewing(row.cells["sku"])
        if renewing and not row.faults:
            row.price = renewing.price
            row.cells["price"] = money(renewing.price)

    def _date(self, row, rows):
        row.cells["effective_on_or_after"] = self.chance.choice(["2027-02-30", "soon", "01.02.2027"])
        row.faults.add("malformed_row")

    def _self_dependent(self, row, rows):
        if "bad_sku" not in row.faults:
            row.cells["dependent_skus"] = row.cells["sku"]

    def _expected(self, row, rows):
        row.cells["expected_price"] = "about ten"
        row.faults.add("bad_price")

    def _unknown_dependent(self, row, rows):
        row.cells["dependent_skus"] = "NO_SUCH_ITEM"


class Expectation:
    """What the plan of a batch must say, row by row."""

    def __init__(self, world, rows, now, open_changes=(), environment="Production"):
        self.world, self.rows, self.now, self.environment = world, rows, now, environment
        # Of other batches: (subscription, sku) -> (when it takes effect, None for a decrease; its dependents).
        self.open_changes = dict(open_changes)
        self.verdicts = {}
        self._of_the_file()
        self._of_the_facts()
        self._of_time()
        self._doubt()

    def _refuse(self, row, code):
        said = self.verdicts.get(row.line)
        if said is None or CODES.index(code) < CODES.index(said.code):
            self.verdicts[row.line] = Verdict(code=code)

    def _of_the_file(self):
        self.file_refused = set()
        for row in self.rows:
            if self.environment == "Sandbox" and row.cells["effective_on_or_after"]:
                row.faults.add("malformed_row")
            for code in row.faults:
                self._refuse(row, code)
        readable = [row for row in self.rows if not row.faults & {"bad_transaction_id", "bad_sku"}]
        groups = Counter(row.group for row in readable)
        parents = defaultdict(list)
        for row in readable:
            for claim in row.claims(self.world):
                # A row that names itself as a dependent gets only that fault, and none for sharing.
                if claim != row.group:
                    parents[claim].append(row)
        for row in readable:
            if groups[row.group] > 1:
                self._refuse(row, "duplicate_row")
            if row.group in row.claims(self.world):
                self._refuse(row, "dependent_self")
        for (_, dependent), rows in parents.items():
            if len({row.group for row in rows}) > 1:
                for row in rows:
                    self._refuse(row, "dependent_shared")
        for row in readable:
            for parent in parents.get(row.group, []):
                if parent.group != row.group and set(row.claims(self.world)) - {row.group}:
                    self._refuse(row, "dependent_chained")
                    self._refuse(parent, "dependent_chained")
        self.file_refused = set(self.verdicts)
        for row in readable:
            if row.line not in self.file_refused:
                self._beside_open_changes(row)

    def _beside_open_changes(self, row):
        """The dependents of open changes are of the same household as those of the file."""
        others = {parent: claims for parent, (_, claims) in self.open_changes.items() if parent != row.group}
        claimed, own = {claim for claims in others.values() for claim in claims}, row.claims(self.world)
        if claimed & set(own):
            self._refuse(row, "dependent_shared")
        if any(others.get(each) for each in own) or (own and row.group in claimed):
            self._refuse(row, "dependent_chained")

    def _doubt(self):
        """What can be read in two ways: is who depends on itself a link of a chain?"""
        of_themselves = {row.group for row in self.rows if row.group in row.claims(self.world)}
        for row in self.rows:
            claims = row.claims(self.world)
            if of_themselves & set(claims):
                self.verdicts[row.line].doubts.add("a dependent depends on itself")

    def _of_the_facts(self):
        for row in self.rows:
            if row.line in self.file_refused:
                continue
            # What other batches hold against its dependents stands behind conflicts, as in the order of the list.
            code = self._fact_code(row)
            if code:
                self._refuse(row, code)

    def _fact_code(self, row):
        subscription = self.world.by_id.get(row.group[0])
        if subscription is None:
            return "unknown_subscription"
        newest, sku = subscription.newest, row.group[1]
        if row.cells["currency"] != newest.period.currency:
            return "currency_mismatch"
        if row.cells["storefront"] not in ("", newest.period.storefront):
            return "storefront_mismatch"
        item, renewing = subscription.item(sku), subscription.renewing(sku)
        if item is None or renewing is None:
            return "unknown_item"
        is_decreased = renewing.price < item.price and not renewing.increase and not item.offer
        if not item.offer:
            # A decrease made elsewhere is a conflict at any price, its own too.
            if not is_decreased and row.price == (renewing.increase[1] if renewing.increase else renewing.price):
                return "no_change"
            if row.cells["expected_price"] and money_of(row.cells["expected_price"]) != item.price:
                return "drifted"
        is_scheduled = renewing.increase and renewing.increase[0] == "SCHEDULED"
        # A higher price was agreed elsewhere: a row below it would take it back, or lower it.
        is_lowered = not renewing.increase and not item.offer and item.price <= row.price < renewing.price
        if row.group in self.open_changes or is_scheduled or is_decreased or is_lowered:
            return "conflict_open_change"
        for id_, dependent in row.claims(self.world):
            other = self.world.by_id.get(id_)
            if other is None or other.customer != subscription.customer or other.renewing(dependent) is None:
                return "dependent_unknown"
        if newest.status in (2, 5) or subscription.family:
            return "not_active"
        if not newest.auto_renews:
            return "auto_renew_off"
        if newest.status == 3:
            return "billing_retry"
        if newest.status == 4:
            return "grace_period"
        if item.offer:
            return "item_in_offer"
        if newest.period.storefront == "IND" and row.price > item.price:
            return "india_increase"
        return "already_communicated" if renewing.increase else None

    def _of_time(self):
        """Rows of one subscription are each other's history: the earlier renewal is settled first."""
        going = defaultdict(list)
        for row in self.rows:
            if row.line not in self.verdicts:
                going[row.group[0]].append(row)
        for id_, rows in going.items():
            self._settle(self.world.by_id[id_], rows)

    def _settle(self, subscription, rows):
        if self.environment == "Sandbox":
            return self._settle_in_sandbox(subscription, rows)
        past = shown_increases(subscription, self.world.rulebook, self.now)
        past += [Past(sku, at, "another batch") for (id_, sku), (at, _) in self.open_changes.items()
                 if id_ == subscription.id and at is not None]
        waiting = list(rows)
        while waiting:
            judged = []
            for row in waiting:
                others = [each for each in past if each.sku != row.group[1]]
                case = Case(subscription, row.group[1], row.price, self.world.rulebook, self.now, others,
                            not_before=row.not_before)
                judged.append((row, case.judge()))
            first = min(verdict.effective_at for _, verdict in judged)
            for row, verdict in judged:
                if verdict.effective_at == first:
                    self._settled(subscription, row, verdict)
                    waiting.remove(row)
                    if verdict.direction == "increase":
                        past.append(Past(row.group[1], first, f"line {row.line}"))

    def _settle_in_sandbox(self, subscription, rows):
        """All increases take effect together: at the renewal after the next."""
        past = shown_increases(subscription, self.world.rulebook, self.now, self.environment)
        for row in rows:
            others = [each for each in past if each.sku != row.group[1]]
            case = Case(subscription, row.group[1], row.price, self.world.rulebook, self.now, others)
            self._settled(subscription, row, case.judge_in_sandbox())

    def _settled(self, subscription, row, verdict):
        if verdict.direction == "increase":
            verdict.at_risk = lost(subscription, row.group[1])
            elsewhere = Counter()
            for id_, sku in row.claims(self.world):
                other = self.world.by_id[id_]
                place = (other.newest.period.currency, other.plan)
                here = place == (subscription.newest.period.currency, subscription.plan)
                verdict.dependents[(id_, sku)] = (lost(other, sku), None if here else place)
                if place == (subscription.newest.period.currency, subscription.plan):
                    verdict.at_risk += lost(other, sku)
                else:
                    elsewhere[place] += lost(other, sku)
            verdict.elsewhere = sorted((*place, money_) for place, money_ in elsewhere.items())
        self.verdicts[row.line] = verdict


def lost(subscription, sku):
    """What a period brings no longer when this item ends: all its seats."""
    return subscription.newest.period.seats * subscription.item(sku).charged
