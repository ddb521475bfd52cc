"""One world: its subscribers, its rules, and how both are told to the product."""

import csv
import io
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

from dates import DAY, day_of, instant_of, text_of
from lives import LifeMaker
from rulebook import Book, Rule, Rulebook, grain, kind_of

RATES = {"USD": "1.1", "JPY": "165.5", "KRW": "1540", "GBP": "0.84", "SEK": "11.3", "CAD": "1.51", "AUD": "1.68",
         "BRL": "6.2", "BGN": "1.9558", "INR": "93.1", "PLN": "4.28"}


LONG_AGO = instant_of("2001-09-09")


class World:
    def __init__(self, chance, now, size, environment="Production"):
        self.chance, self.now, self.environment = chance, now, environment
        maker = LifeMaker(chance, now, environment)
        self.subscriptions = [maker.subscription(number + 1) for number in range(size)]
        for one, other in zip(self.subscriptions[::5], self.subscriptions[1::5]):
            # Every fifth customer has two.
            other.customer = one.customer
        self.by_id = {each.id: each for each in self.subscriptions}
        self.homes = {each.id: each.newest.period.storefront for each in self.subscriptions}
        self.by_customer = defaultdict(list)
        for each in self.subscriptions:
            self.by_customer[each.customer].append(each)
        self.rulebook = Rulebook()
        # Two imports: the second is known later, and takes rows of the first back.
        self.imports, self.later_imports = [], []
        self._make_rules()
        self._make_later_rules()

    def _make_rules(self):
        chance = self.chance
        if chance.random() < 0.8:
            for currency, rate in RATES.items():
                if chance.random() < 0.85:
                    self._rule("exchange_rate", {"currency": currency, "per_euro": rate},
                               ("exchange_rate", currency), Fraction(rate))
        for storefront in ["USA", "DEU", "FRA", "CHL", "KOR", "JPN", "POL", "SWE", "CAN", "GBR"]:
            if chance.random() < 0.6:
                required = chance.random() < 0.25
                self._rule("always_consent", {"storefront": storefront, "required": str(required).lower()},
                           ("always_consent", storefront), required)
        for storefront, currency, short in [("JPN", "JPY", 700), ("KOR", "KRW", 6000), ("GBR", "GBP", 5),
                                            ("DEU", "EUR", 5), ("AUS", "AUD", 9)]:
            if chance.random() < 0.4:
                for kind, amount in [("nonannual", short), ("annual", short * 10)]:
                    self._rule("threshold", {"storefront": storefront, "currency": currency, "period_kind": kind,
                                             "amount": str(amount)},
                               ("threshold", storefront, currency, kind), amount * 1000)

    def _rule(self, name, cells, key, value):
        chance = self.chance
        valid_from = LONG_AGO
        if chance.random() < 0.3:
            valid_from = (self.now + chance.randint(-400, 250) * DAY) // DAY * DAY
        self.imports.append((name, cells, Rule(key, value, valid_from, 0)))

    def _make_later_rules(self):
        """New rows for what has some, rows that are taken back, and one of those that are shipped among them."""
        chance = self.chance
        for name, cells, rule in self.imports:
            draw = chance.random()
            if draw < 0.12:
                self.later_imports.append((name, cells, replace(rule, value=None, withdraws=True)))
            elif draw < 0.25 and rule.key[0] == "always_consent":
                since = (self.now + chance.randint(-300, 300) * DAY) // DAY * DAY + DAY // 2
                cells = dict(cells, required=str(not rule.value).lower())
                self.later_imports.append((name, cells, replace(rule, value=not rule.value, valid_from=since)))
        if chance.random() < 0.5:
            kind = chance.choice(["annual", "nonannual"])
            storefront, currency = chance.choice([("AUS", "AUD"), ("ALB", "USD"), ("BRA", "BRL")])
            cells = {"storefront": storefront, "currency": currency, "period_kind": kind}
            self.later_imports.append(("threshold", cells, Rule(
                ("threshold", storefront, currency, kind), None, 0, 0, withdraws=True)))

    def teach(self, product, signer, at):
        """Tells the product what is known from an instant on."""
        self.teach_rules(product, at, self.imports)
        product.ingest(self.payloads(signer))
        self.teach_history(product, at, self.subscriptions[::2])

    def teach_more(self, product, at):
        """Tells it what is known from a later instant on: its clock must stand there."""
        self.teach_rules(product, at, self.later_imports)
        self.teach_history(product, at, self.subscriptions[1::2])

    def of_customer(self, subscription):
        """The customer's other subscriptions."""
        return [each for each in self.by_customer[subscription.customer] if each is not subscription]

    def home_of(self, id_, sku):
        """Where a SKU that a row names without a subscription renews: on its own, else on the customer's others."""
        own = self.by_id.get(id_)
        if own is None or own.renewing(sku) is not None:
            return id_
        # Nothing of a subscription is set to renew whose renewal is turned off.
        homes = [each.id for each in self.of_customer(own) if each.newest.auto_renews and each.renewing(sku) is not None]
        return homes[0] if homes else id_

    def teach_rules(self, product, at, imports):
        columns = ["rule", "storefront", "currency", "period_kind", "amount", "required", "per_euro", "valid_from",
                   "withdrawn"]
        out = io.StringIO()
        writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for name, cells, rule in imports:
            row = {"rule": name, **cells, "valid_from": text_of(rule.valid_from) if rule.valid_from else "ever"}
            if rule.withdraws:
                row = {key: cell for key, cell in row.items() if key not in ("amount", "required", "per_euro")}
                row["withdrawn"] = "true"
            writer.writerow(row)
            self.rulebook.add(replace(rule, known_from=at))
        if imports:
            product.expect(0, "rules", "import", "-", "--accept-implausible", text=out.getvalue())

    def teach_history(self, product, at, of):
        """States the past increases of some subscriptions."""
        lines = ["original_transaction_id,sku,increased_on,old_price,new_price,currency"]
        for each in of:
            told = []
            for sku, instant, recorded in each.imported:
                unit = grain(each.newest.period.currency) // 10
                lines.append(f"{each.id},{sku},{day_of(instant)},{unit},{unit * 2},{each.newest.period.currency}")
                told.append((sku, instant, at))
            each.imported = told
        if len(lines) > 1:
            product.expect(0, "history", "import", "-", text="\n".join(lines) + "\n")

    def payloads(self, signer):
        found = [(statement.signed, each, statement)
                 for each in self.subscriptions for statement in each.statements]
        self.chance.shuffle(found)
        return [each.payload(statement, signer) for _, each, statement in found]

    def some_threshold(self, subscription, chance):
        """The amount that decides for a subscription, or near to it."""
        period = subscription.newest.period
        book = Book(self.rulebook.in_force(self.now, self.now))
        threshold = book.threshold(period.storefront, period.currency, kind_of(subscription.plan))
        amount = int(threshold.amount if threshold.amount is not None else 5000)
        if threshold.error and chance.random() < 0.5:
            amount += int(threshold.error) * chance.choice([-1, 1])
        return amount
