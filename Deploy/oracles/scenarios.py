"""`scenario` against the judge: the highest price without consent by its own definition, and the batch file that it writes."""

import csv
import json

from batch import Expectation, Row, money, money_of
from dates import DAY, day_of, text_of
from rulebook import grain


def _scenario(product, sku, rule, now, *filters):
    out = f"{product.folder}/scenario.csv"
    answer = product.run("scenario", "--sku", sku, "--rule", rule, "--decline-rate", "10", "--as-of", text_of(now),
                         "--out", out, "--json", *filters)
    if answer.code != 0:
        return None, None, (answer.code, answer.err.strip()[-300:])
    with open(out, encoding="utf-8", newline="") as file:
        return json.loads(answer.out), list(csv.DictReader(file)), None


def _verdict(world, subscription, sku, price, now):
    period = subscription.newest.period
    row = Row({
        "original_transaction_id": subscription.id, "sku": sku, "price": money(price), "currency": period.currency,
        "storefront": "", "dependent_skus": "", "expected_price": "", "effective_on_or_after": ""}, line=2, price=price)
    return Expectation(world, [row], now).verdicts[2]


def _floor(subscription, sku):
    """What a row must be above: the price that is paid, or the higher one that was agreed elsewhere."""
    item, renewing = subscription.item(sku), subscription.renewing(sku)
    return max(item.price, renewing.price) if renewing and not item.offer else item.price


def highest_prices(product, world, sku, now, report):
    """`max-without-consent`: the price needs no consent, and a step more does, or nobody knows."""
    table, rows, problem = _scenario(product, sku, "max-without-consent", now)
    where = "max-without-consent"
    if problem:
        report.add(where, f"{product.name} {sku}", [("exit", 0, problem)])
        return
    said = {row["original_transaction_id"]: row for row in rows}
    for subscription in world.subscriptions:
        item = subscription.item(sku)
        if item is None:
            continue
        unit = grain(subscription.newest.period.currency)
        least = _verdict(world, subscription, sku, _floor(subscription, sku) + unit, now)
        is_due = least.code is None and least.consent == "not_required"
        row = said.pop(subscription.id, None)
        found, doubts = [], set(least.doubts)
        if bool(row) != is_due:
            found.append(("has such a price", is_due, row))
        elif row:
            price = money_of(row["price"])
            here, more = (_verdict(world, subscription, sku, each, now) for each in [price, price + unit])
            doubts |= here.doubts | more.doubts
            if (here.code, here.consent) != (None, "not_required"):
                found.append(("needs no consent", "not_required", (here.code, here.consent, row)))
            if more.consent not in ("required", "not_known"):
                found.append(("a step more needs it", "required or not_known", (more.code, more.consent, row)))
            if row["expected_price"] and money_of(row["expected_price"]) != item.price:
                found.append(("expected_price", money(item.price), row["expected_price"]))
        report.add(where, f"{product.name} as of {text_of(now)} {sku} {least}\n    {subscription.story()}", found, doubts)
    report.add(where, sku, [("rows of others", [], list(said))] if said else [])


def as_planned(product, sku, rule, now, report):
    """What a scenario says of its rows is what a plan of its file says, and none of them has a fault."""
    table, rows, problem = _scenario(product, sku, rule, now)
    where = "scenarios beside plans"
    if problem:
        report.add(where, f"{product.name} {sku}", [("exit", 0, problem)])
        return
    scenario = table["scenarios"][0]
    if not rows:
        report.add(where, sku, [("rows that can go", 0, scenario["can_go"])] if scenario["can_go"] else [])
        return
    answer = product.run("plan", f"{product.folder}/scenario.csv", "--as-of", text_of(now), "--json")
    found = [] if answer.code == 0 else [("exit code of plan", 0, (answer.code, answer.err.strip()[-300:]))]
    plan = json.loads(answer.out)
    for name in ["can_go", "consent"]:
        of_plan = plan[name] if name == "can_go" else {k: v for k, v in plan[name].items() if v and k != "none"}
        of_scenario = scenario[name] if name == "can_go" else {k: v for k, v in scenario[name].items() if v and k != "none"}
        if of_plan != of_scenario:
            found.append((name, of_plan, of_scenario))
    report.add(where, f"{product.name} {sku} {rule} as of {text_of(now)}", found)


def of_cohort(product, world, sku, now, chance, report):
    """Who is in the batch file of a scenario with filters: exactly those who fit and can go, each at the rule's price."""
    fits, filters = [], []
    for name, option, of in [
            ("storefront", "--storefront", lambda each: each.newest.period.storefront),
            ("currency", "--currency", lambda each: each.newest.period.currency)]:
        if chance.random() < 0.5:
            wanted = of(chance.choice(world.subscriptions))
            filters += [option, wanted]
            fits.append(lambda each, of=of, wanted=wanted: of(each) == wanted)
    limit = chance.choice([4990, 9990, 12990, 500000])
    if chance.random() < 0.5:
        filters += ["--price-below", money(limit)]
        fits.append(lambda each: each.item(sku).price < limit)
    elif chance.random() < 0.5:
        filters += ["--price-above", money(limit)]
        fits.append(lambda each: each.item(sku).price > limit)
    if chance.random() < 0.4:
        day = now // DAY * DAY - chance.randint(0, 700) * DAY
        filters += ["--started-before", day_of(day)]
        fits.append(lambda each: (each.bought if each.began is None else each.began) < day)
    by = chance.choice([1000, 2000, 7000])
    _, rows, problem = _scenario(product, sku, f"+{money(by)}.00", now, *filters)
    where, about = "cohorts of scenarios", f"{product.name} as of {text_of(now)} {sku} {filters} +{money(by)}"
    if problem:
        report.add(where, about, [("exit", 0, problem)])
        return
    expected = {}
    for each in world.subscriptions:
        if each.item(sku) is not None and all(fit(each) for fit in fits):
            verdict = _verdict(world, each, sku, each.item(sku).price + by, now)
            if verdict.code is None:
                expected[each.id] = each.item(sku).price + by
    answered = {row["original_transaction_id"]: money_of(row["price"]) for row in rows}
    report.add(where, about, [("rows", expected, answered)] if expected != answered else [])
