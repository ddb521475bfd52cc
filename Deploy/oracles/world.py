"""One world: its subscribers, its rules, and how both are told to the product."""

import csv
import io

from dates import DAY, day_of, text_of
from facts import Subscription
from lives import LifeMaker
from rulebook import Book, Rule, Rulebook, grain, kind_of
from fractions import Fraction

RATES = {"USD": "1.1", "JPY": "165.5", "KRW": "1540", "GBP": "0.84", "SEK": "11.3", "CAD": "1.51", "AUD": "1.68",
         "BRL": "6.2", "BGN": "1.9558", "INR": "93.1", "PLN": "4.28"}


class World:
    def __init__(self, chance, now, size, environment="Production"):
        self.chance, self.now, self.environment = chance, now, environment
        maker = LifeMaker(chance, now, environment)
        self.subscriptions = [maker.subscription(number + 1) for number in range(size)]
        self.by_id = {each.id: each for each in self.subscriptions}
        self.rulebook = Rulebook()
        self.imports = []
        self._make_rules()

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
        valid_from = None
        if chance.random() < 0.3:
            valid_from = (self.now + chance.randint(-400, 250) * DAY) // DAY * DAY
        self.imports.append((name, cells, key, value, valid_from))

    def teach(self, product, signer, at):
        """Tells the product everything, as of an instant."""
        self.teach_rules(product, at)
        product.ingest(self.payloads(signer))
        self.teach_history(product, at)

    def teach_rules(self, product, at):
        columns = ["rule", "storefront", "currency", "period_kind", "amount", "required", "per_euro", "valid_from"]
        out = io.StringIO()
        writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
        writer.writeheader()
        long_ago = 1_000_000_000_000 // DAY * DAY
        for name, cells, key, value, valid_from in self.imports:
            since = long_ago if valid_from is None else valid_from
            writer.writerow({"rule": name, **cells, "valid_from": text_of(since)})
            self.rulebook.add(Rule(key, value, since, at))
        if self.imports:
            product.expect(0, "rules", "import", "-", "--accept-implausible", text=out.getvalue())

    def teach_history(self, product, at):
        lines = ["original_transaction_id,sku,increased_on,old_price,new_price,currency"]
        for each in self.subscriptions:
            told = []
            for sku, instant, _ in each.imported:
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
