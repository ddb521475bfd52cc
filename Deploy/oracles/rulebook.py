"""The rules: thresholds, storefronts that always need consent, decimals, rates; in force by date, known by date."""

from dataclasses import dataclass
from fractions import Fraction

NO_DECIMALS = set(
    "CLP COP DKK HKD HUF IDR INR JPY KRW KZT MXN NGN NOK PHP PKR RUB SEK THB TWD TZS VND".split())
TWO_DECIMALS = set(
    "AED AUD BGN BRL CAD CHF CNY CZK EGP EUR GBP ILS MYR NZD PEN PLN QAR RON SAR SGD TRY USD ZAR".split())
CURRENCIES = NO_DECIMALS | TWO_DECIMALS

# Apple's table as far as it is known: storefront, currency, amount a period, amount a year.
APPLE = {storefront: (currency, short * 1000, annual * 1000) for currency, short, annual, storefronts in [
    ("USD", 5, 50, "USA AFG DZA AGO AIA ATG ARG AZE BHS BHR BLZ BMU BTN BOL BWA VGB BRN"),
    ("USD", 6, 60, "ALB ARM BRB BLR BEN"),
    ("AUD", 8, 80, "AUS"), ("EUR", 5, 50, "AUT BEL BIH"), ("BRL", 40, 400, "BRA"), ("BGN", 12, 120, "BGR"),
] for storefront in storefronts.split()}
USD_BASE = {"nonannual": 5000, "annual": 50000}


def grain(currency):
    """The smallest step of a price in milliunits."""
    return 1000 if currency in NO_DECIMALS else 10


@dataclass(frozen=True)
class Rule:
    """One row of an import; `key` names what it is about, `value` is None where the row takes another back."""
    key: tuple
    value: object
    valid_from: int
    known_from: int
    withdraws: bool = False


@dataclass(frozen=True)
class Threshold:
    amount: object
    source: str
    error: object = None


def kind_of(period):
    return "annual" if period == "P1Y" else "nonannual"


class Rulebook:
    def __init__(self):
        self.rules = []
        for storefront, (currency, short, annual) in APPLE.items():
            for kind, amount in [("nonannual", short), ("annual", annual)]:
                self.rules.append(Rule(("threshold", storefront, currency, kind), amount, 0, 0))

    def add(self, rule):
        self.rules.append(rule)

    def instants(self):
        return {rule.valid_from for rule in self.rules if rule.valid_from}

    def in_force(self, at, known):
        """What each key says at an instant, of what was known at another."""
        standing = {}
        for rule in self.rules:
            if rule.known_from > known:
                continue
            rows = standing.setdefault(rule.key, {})
            if rule.withdraws:
                rows.pop(rule.valid_from, None)
            else:
                rows[rule.valid_from] = rule.value
        answer = {}
        for key, rows in standing.items():
            begun = [valid_from for valid_from in rows if valid_from <= at]
            if begun:
                answer[key] = rows[max(begun)]
        return answer


class Book:
    """The rules of one instant."""

    def __init__(self, rules):
        self.rules = rules

    def always_consent(self, storefront):
        """True or false as the list says; false where Apple gives an amount; else None: not known."""
        said = self.rules.get(("always_consent", storefront))
        if said is not None:
            return said
        named = any(key[:2] == ("threshold", storefront) for key in self.rules)
        return False if named else None

    def threshold(self, storefront, currency, kind):
        own = self.rules.get(("threshold", storefront, currency, kind))
        if own is not None:
            return Threshold(own, "apple")
        return self._estimate(currency, kind)

    def _uncorrected(self, currency, kind):
        """Apple's amount in USD, by the rates."""
        if currency == "USD":
            return Fraction(USD_BASE[kind])
        rate, dollar = (self._rate(each) for each in [currency, "USD"])
        if rate is None or dollar is None:
            return None
        return USD_BASE[kind] * rate / dollar

    def _rate(self, currency):
        return Fraction(1) if currency == "EUR" else self.rules.get(("exchange_rate", currency))

    def _estimate(self, currency, kind):
        rows = [(key[2], amount) for key, amount in self.rules.items()
                if key[0] == "threshold" and key[3] == kind]
        same = [amount for each, amount in rows if each == currency]
        if same and len(set(same)) == 1:
            return Threshold(Fraction(same[0]), "estimated", Fraction(0))
        plain = self._uncorrected(currency, kind)
        if plain is None:
            return Threshold(None, "unknown")
        of_interest = [(currency, amount) for amount in same] or rows
        known = [(Fraction(amount) / base) for each, amount in of_interest
                 if (base := self._uncorrected(each, kind)) is not None]
        if not known:
            return Threshold(plain, "estimated", Fraction(0))
        factor = median(known)
        error = max(abs(ratio - factor) for ratio in known)
        return Threshold(plain * factor, "estimated", plain * error)


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    if len(values) % 2:
        return values[middle]
    return (values[middle - 1] + values[middle]) / 2
