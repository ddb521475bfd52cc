"""Holds the product's answers against what they must say: each row, and the sums of all."""

import datetime
from collections import Counter, defaultdict

from batch import CODES
from dates import add_months, instant_of, moment
from judge import RULES

INSTANTS = ["judged_at", "renewal_at", "notice_at", "send_after", "send_by", "effective_at"]
PER_PERIOD = ["now", "then", "at_risk", "not_known"]
MONTHS_OF = {"P1W": (52, 12), "P1M": (1, 1), "P2M": (1, 2), "P3M": (1, 3), "P6M": (1, 6), "P1Y": (1, 12)}


class Differences(list):
    def check(self, what, expected, answered):
        if expected != answered:
            self.append((what, expected, answered))


def of_row(row, verdict, answer):
    """Each difference of one row as (what, expected, answered)."""
    found = Differences()
    found.check("code", verdict.code, answer["code"])
    found.check("sku", row.cells["sku"], answer["sku"] or "")
    if answer["code"] is not None:
        found.check("first fault", answer["code"], (answer["faults"] or [None])[0])
        found.check("faults", set(), row.faults - set(answer["faults"]))
        found.check("order of faults", sorted(answer["faults"], key=CODES.index), answer["faults"])
    elif verdict.code is None:
        _of_judged_row(verdict, answer, found)
    return found


def _of_judged_row(verdict, answer, found):
    for name in ["direction", "consent", "reasons", "not_known", "stale"]:
        found.check(name, getattr(verdict, name), answer[name])
    for name in INSTANTS:
        found.check(name, getattr(verdict, name), instant_of(answer[name]))
    for name in ["currency", "storefront", "period", "current_price_milliunits", "new_price_milliunits",
                 "seats"]:
        found.check(name, verdict.facts[name], answer[name])
    for name in ["facts_at", "known_since"]:
        found.check(name, verdict.facts[name], instant_of(answer[name]))
    found.check("faults", [], answer["faults"])
    found.check("at_risk", verdict.at_risk, answer["at_risk_milliunits"])
    found.check("at_risk_elsewhere", verdict.elsewhere, sorted(
        (each["currency"], each["period"], each["milliunits"]) for each in answer["at_risk_elsewhere"]))
    if verdict.direction == "decrease":
        return
    rules = {each["rule"]: each for each in answer["rules"]}
    found.check("rules", RULES, [each["rule"] for each in answer["rules"]])
    for name in RULES:
        said = True if name in verdict.reasons else None if name in verdict.not_known else False
        found.check(f"answer of {name}", said, rules.get(name, {}).get("answer", "missing"))
    inputs = {name: each["inputs"] for name, each in rules.items()}
    if verdict.threshold and "threshold" in inputs:
        found.check("threshold_source", verdict.threshold.source, inputs["threshold"].get("threshold_source"))
        if verdict.threshold.source == "apple":
            found.check("threshold", verdict.threshold.amount, inputs["threshold"].get("threshold_milliunits"))
    if verdict.because is not None and "increase_within_12_months" in inputs:
        because = inputs["increase_within_12_months"].get("because")
        if not isinstance(verdict.because, str) and because and because[:1].isdigit() and "T" in because:
            because = instant_of(because)
        found.check("because", verdict.because, because)
    if verdict.window and "korea_offer_conversion" in inputs:
        said = inputs["korea_offer_conversion"]
        found.check("window", verdict.window, (said.get("window_first_on"), said.get("window_last_on")))


def of_sums(summary, answers, homes, verdicts):
    """Each difference of the summary and the sums of its own rows; `homes`: the storefront of each subscription; `verdicts`,
    by line, know the dependents."""
    found = Differences()
    going = [each for each in answers if each["code"] is None]
    refused = [each for each in answers if each["code"] is not None]
    found.check("rows", len(answers), summary["rows"])
    found.check("can_go", len(going), summary["can_go"])
    found.check("refused", len(refused), summary["refused"])
    found.check("rejected_rows", dict(Counter(each["code"] for each in refused)), summary["rejected_rows"])
    for name in ["direction", "consent"]:
        counted = Counter(each[name] for each in going)
        found.check(name, dict(counted), {key: count for key, count in summary[name].items() if count})
    found.check("reasons", dict(Counter(reason for each in going for reason in each["reasons"])),
                {key: count for key, count in summary["reasons"].items() if count})
    unknown = [each for each in going if each["consent"] == "not_known"]
    found.check("not_known", dict(Counter(rule for each in unknown for rule in each["not_known"])),
                {each["rule"]: each["rows"] for each in summary["not_known"]})
    found.check("stale", sum(each["stale"] for each in going), summary["stale"])
    _of_money(summary, going, homes, verdicts, found)
    _of_curve(summary, going, found)
    _of_extremes(summary, going, found)
    return found


def _take_what_counts_twice(sums, going, homes, verdicts):
    """An item that is a row and falls with another one is at risk once: where it surely is, else with its own row."""
    claims = defaultdict(list)
    for each in going:
        name = {"required": "at_risk", "not_known": "not_known"}.get(each["consent"])
        if not name:
            continue
        key = (each["currency"], each["storefront"], each["period"])
        own = (each["original_transaction_id"], each["sku"])
        claims[own].insert(0, (name, key, None))
        for item, (amount, place) in verdicts[each["line"]].dependents.items():
            claims[item].append((name, (place[0], homes[item[0]], place[1]) if place else key, amount))
    for said in claims.values():
        kept = next((each for each in said if each[0] == "at_risk"), said[0])
        amount = next((amount for _, _, amount in said if amount is not None), 0)
        for each in said:
            if each is not kept:
                sums[each[1]][each[0]] -= amount


def _of_money(summary, going, homes, verdicts, found):
    sums = defaultdict(lambda: dict.fromkeys(["rows", *PER_PERIOD], 0))
    for each in going:
        total = sums[(each["currency"], each["storefront"], each["period"])]
        total["rows"] += 1
        total["now"] += each["seats"] * each["current_price_milliunits"]
        total["then"] += each["seats"] * each["new_price_milliunits"]
        name = {"required": "at_risk", "not_known": "not_known"}.get(each["consent"])
        if name:
            total[name] += each["at_risk_milliunits"]
            # What is lost on the customer's other subscriptions stands with theirs.
            for charge in each["at_risk_elsewhere"]:
                home = homes[charge["original_transaction_id"]]
                if not charge["milliunits"]:
                    continue
                sums[(charge["currency"], home, charge["period"])][name] += charge["milliunits"]
    _take_what_counts_twice(sums, going, homes, verdicts)
    answered = {(each["currency"], each["storefront"], each["period"]): each for each in summary["money"]}
    sums = {key: total for key, total in sums.items() if any(total.values())}
    found.check("money: groups that are missing", [], sorted(sums.keys() - answered.keys()))
    found.check("money: groups of no row", [], sorted(answered.keys() - sums.keys()))
    by_currency = defaultdict(lambda: dict.fromkeys(["rows", *PER_PERIOD], 0))
    for key in sums.keys() & answered.keys():
        found.check(f"money: rows {key}", sums[key]["rows"], answered[key]["rows"])
        by_currency[key[0]]["rows"] += sums[key]["rows"]
        times, parts = MONTHS_OF[key[2]]
        for name in PER_PERIOD:
            found.check(f"money: {name} {key}", sums[key][name], answered[key][f"{name}_per_period_milliunits"])
            # To the nearest thousandth, however a half is rounded.
            month = sums[key][name] * times / parts
            said = answered[key][f"{name}_per_month_milliunits"]
            found.check(f"money: {name} a month {key}", True, abs(month - said) <= 1)
            by_currency[key[0]][name] += month
    said = {each["currency"]: each for each in summary["money_a_month"]["by_currency"]}
    found.check("money: currencies", [], sorted(by_currency.keys() - said.keys()))
    for currency in by_currency.keys() & said.keys():
        total, each = by_currency[currency], said[currency]
        found.check(f"money: rows {currency}", total["rows"], each["rows"])
        for name in PER_PERIOD:
            found.check(f"money: {name} a month {currency}", True, abs(
                total[name] - each[f"{name}_per_month_milliunits"]) <= 1 + total["rows"])
        found.check(f"money: change {currency}", each["then_per_month_milliunits"] - each["now_per_month_milliunits"],
                    each["change_per_month_milliunits"])
    _of_one_currency(summary["money_a_month"], said, found)


def _of_one_currency(money, said, found):
    """The sum in one currency, by the rates that stand beside it."""
    one = money["in_reporting_currency"]
    rates = {each["currency"]: float(each["per_unit"]) for each in money["rates"]}
    rates[one["currency"]] = 1.0
    with_rate = [each for currency, each in said.items() if currency in rates]
    if one["currency"] not in money["no_rate_for"]:
        found.check("money: without a rate", sorted(set(said) - set(rates)), sorted(money["no_rate_for"]))
    found.check("money: rows in one currency", sum(each["rows"] for each in with_rate), one["rows"])
    for name in PER_PERIOD:
        total = sum(each[f"{name}_per_month_milliunits"] / rates[each["currency"]] for each in with_rate)
        answered = one[f"{name}_per_month_milliunits"]
        found.check(f"money: {name} in one currency", True, abs(total - answered) <= 2 + len(with_rate) + total / 1e6)


def _of_curve(summary, going, found):
    months, weeks = defaultdict(Counter), defaultdict(Counter)
    for each in going:
        at = moment(instant_of(each["effective_at"]))
        monday = (at - datetime.timedelta(days=at.weekday())).strftime("%Y-%m-%d")
        for curve, key in [(months, at.strftime("%Y-%m")), (weeks, monday)]:
            curve[key]["rows"] += 1
            curve[key][each["direction"]] += 1
    for name, curve, key in [("months", months, "month"), ("weeks", weeks, "week_of")]:
        expected = [(each, curve[each]["rows"], curve[each]["increase"], curve[each]["decrease"])
                    for each in sorted(curve)]
        found.check(name, expected, [(each[key], each["rows"], each["increases"], each["decreases"])
                                     for each in summary[name]])
    ends = [instant_of(each["effective_at"]) for each in going]
    found.check("last_effective_at", max(ends, default=None), instant_of(summary["last_effective_at"]))
    begins = [instant_of(each["send_by"]) for each in going]
    found.check("first_send_by", min(begins, default=None), instant_of(summary["first_send_by"]))


def _of_extremes(summary, going, found):
    def share(each):
        before = each["current_price_milliunits"]
        return (each["new_price_milliunits"] - before) / before if before else float("inf")

    for name, direction, sign in [("largest_increases", "increase", -1), ("largest_decreases", "decrease", 1)]:
        of_it = sorted(sign * share(each) for each in going if each["direction"] == direction)
        lines = {each["line"]: sign * share(each) for each in going}
        answered = [lines.get(each["line"], "no such row") for each in summary[name]]
        found.check(name, of_it[:len(answered)], answered)
        found.check(f"{name}: how many", min(len(of_it), 10), len(answered))
    _of_warnings(summary, going, found)


def _of_warnings(summary, going, found):
    def is_far(each):
        return instant_of(each["effective_at"]) > add_months(instant_of(summary["as_of"]), 24)

    for name, holds in [
            ("more_than_threefold", lambda each: each["new_price_milliunits"] > 3 * each["current_price_milliunits"]),
            ("less_than_a_third", lambda each: 3 * each["new_price_milliunits"] < each["current_price_milliunits"]),
            ("several_seats", lambda each: each["seats"] > 1), ("more_than_two_years_ahead", is_far)]:
        lines = [each["line"] for each in going if holds(each)]
        said = next((each for each in summary["warnings"] if each["warning"] == name), None)
        found.check(name, len(lines), said["rows"] if said else 0)
        if said:
            found.check(f"{name}: lines", sorted(lines)[:len(said["first_lines"])], said["first_lines"])
