"""Lies in the product's answers, one by one: each must be found. What finds nothing proves nothing."""

import copy
import random

import compare
from batch import BatchMaker
from dates import DAY, instant_of, text_of
from world import World


def _moved(name, by):
    def lie(answer):
        answer[name] = text_of(instant_of(answer[name]) + by)
    return lie


def _set(name, value):
    def lie(answer):
        answer[name] = value(answer) if callable(value) else value
    return lie


def _flipped(rule):
    def lie(answer):
        for each in answer["rules"]:
            if each["rule"] == rule:
                each["answer"] = not each["answer"]
    return lie


def _without(name):
    def lie(answer):
        answer[name] = answer[name][1:]
    return lie


def goes(answer):
    return answer["code"] is None


def rises(answer):
    return goes(answer) and answer["direction"] == "increase"


def _with(name, value):
    return lambda answer: rises(answer) and answer[name] == value


def _some(name):
    return lambda answer: goes(answer) and bool(answer[name])


# Each: what it is called, in which row it can be told, the lie.
ROW_LIES = [
    ("a row that can't go is let go", lambda each: not goes(each), _set("code", None)),
    ("a row that can go is refused", goes, _set("code", "no_change")),
    ("another code", lambda each: each["code"] in ("auto_renew_off", "grace_period", "billing_retry", "item_in_offer"),
     _set("code", "not_active")),
    ("an increase is called a decrease", rises, _set("direction", "decrease")),
    ("consent is said to be unneeded", _with("consent", "required"), _set("consent", "not_required")),
    ("consent is said to be needed", _with("consent", "not_required"), _set("consent", "required")),
    ("what is not known is said to be no", _with("consent", "not_known"), _set("consent", "not_required")),
    ("what is not known is said to be yes", _with("consent", "not_known"), _set("consent", "required")),
    ("a reason is left out", _some("reasons"), _without("reasons")),
    ("what is not known is left out", _some("not_known"), _without("not_known")),
    ("a threshold is judged the other way", rises, _flipped("threshold")),
    ("an earlier increase is judged the other way", rises, _flipped("increase_within_12_months")),
    ("Korea is judged the other way", rises, _flipped("korea_offer_conversion")),
    ("the storefront is judged the other way", rises, _flipped("always_consent_storefront")),
    ("a seat is left out", goes, _set("seats", lambda each: each["seats"] - 1)),
    ("it takes effect a day later", goes, _moved("effective_at", DAY)),
    ("it takes effect a millisecond early", goes, _moved("effective_at", -1)),
    ("the notice is a day late", rises, _moved("notice_at", DAY)),
    ("a decrease is announced", lambda each: goes(each) and each["direction"] == "decrease",
     _set("notice_at", lambda each: each["effective_at"])),
    ("it may be sent an hour too long", goes, _moved("send_by", DAY // 24)),
    ("it may be sent a millisecond too long", goes, _moved("send_by", 1)),
    ("a held row goes at once", _some("send_after"), _set("send_after", None)),
    ("a held row goes a millisecond early", _some("send_after"), _moved("send_after", -1)),
    ("a held row is judged now", _some("send_after"), _moved("judged_at", -1)),
    ("the next renewal is another", goes, _moved("renewal_at", DAY)),
    ("stale facts look fresh", _some("stale"), _set("stale", False)),
    ("the facts look newer", goes, _moved("facts_at", DAY)),
    ("more is known", goes, _moved("known_since", -DAY)),
    # A free dependent adds nothing, and leaving it out is no lie.
    ("a dependent's money is left out", lambda each: rises(each) and each["dependent_skus"]
     and each["at_risk_milliunits"] != each["current_price_milliunits"],
     _set("at_risk_milliunits", lambda each: each["current_price_milliunits"])),
    ("a decrease puts money at risk", lambda each: goes(each) and each["direction"] == "decrease",
     _set("at_risk_milliunits", lambda each: each["current_price_milliunits"])),
    ("the price of today is another", goes,
     _set("current_price_milliunits", lambda each: each["current_price_milliunits"] + 10)),
    ("a fault of the cells is left out", lambda each: len(each["faults"]) > 1 and each["code"] in CELLS,
     _set("faults", lambda each: each["faults"][:1])),
    ("the faults stand in another order", lambda each: len(each["faults"]) > 1,
     _set("faults", lambda each: each["faults"][::-1])),
    ("a row without fault has one", goes, _set("faults", ["drifted"])),
    ("a row is missing", goes, None),
]
CELLS = {"malformed_row", "bad_transaction_id", "bad_sku", "bad_price", "price_decimals", "unknown_currency"}

SUM_LIES = [
    ("a row is not counted", lambda sums: sums.update(can_go=sums["can_go"] - 1)),
    ("a refusal is not counted", lambda sums: sums.update(refused=sums["refused"] - 1)),
    ("a code is counted twice", lambda sums: _more(sums["rejected_rows"])),
    ("a consent is counted twice", lambda sums: _more(sums["consent"])),
    ("a reason is counted twice", lambda sums: _more(sums["reasons"])),
    ("a direction is counted twice", lambda sums: _more(sums["direction"])),
    ("what is not known is counted less", lambda sums: _less(sums["not_known"][0], "rows")),
    ("stale rows are not counted", lambda sums: sums.update(stale=0)),
    ("a sum is a unit short", lambda sums: _less(sums["money"][0], "then_per_period_milliunits")),
    ("money at risk is left out", lambda sums: _nothing(sums["money"], "at_risk_per_period_milliunits")),
    ("money of what is not known is left out", lambda sums: _nothing(sums["money"], "not_known_per_period_milliunits")),
    ("a week counts as a month", lambda sums: _week(sums["money"])),
    ("a currency is missing", lambda sums: sums["money_a_month"]["by_currency"].pop()),
    ("a change is not the difference",
     lambda sums: _less(sums["money_a_month"]["by_currency"][0], "change_per_month_milliunits")),
    ("one currency holds another sum", lambda sums: sums["money_a_month"]["in_reporting_currency"].update(
        now_per_month_milliunits=sums["money_a_month"]["in_reporting_currency"]["now_per_month_milliunits"] * 2 + 10**6)),
    ("a month of the curve is missing", lambda sums: sums["months"].pop()),
    ("a week of the curve has one more", lambda sums: _less(sums["weeks"][0], "rows")),
    ("the largest increase is left out", lambda sums: sums["largest_increases"].pop(0)),
    ("the largest decrease is left out", lambda sums: sums["largest_decreases"].pop(0)),
    ("a threefold price is not warned of", lambda sums: sums.update(warnings=[
        each for each in sums["warnings"] if each["warning"] != "more_than_threefold"])),
    ("the last date is another", lambda sums: sums.update(last_effective_at=sums["first_send_by"])),
]


def _more(counts):
    name = next(iter(counts))
    counts[name] += 1


def _less(row, name):
    row[name] -= 1


def _nothing(rows, name):
    row = next(each for each in rows if each[name])
    row[name] = 0


def _week(rows):
    row = next(each for each in rows if each["period"] == "P1W")
    row["now_per_month_milliunits"] = row["now_per_period_milliunits"] * 4


def check(surroundings, seed, asked):
    """0 when every lie is found."""
    chance = random.Random(seed)
    now = instant_of("2027-06-20") + chance.randint(0, 300) * DAY
    product = surroundings.product("lies", now - DAY)
    world = World(chance, now, 120)
    world.teach(product, surroundings.signer, now - DAY)
    plan = asked(product, world, BatchMaker(chance, world, now, fault_share=15).rows(), now)
    product.drop()
    truths = _differences(plan, plan.answers, plan.summary)
    for each in truths:
        print("found in the truth:", each)
    missed = []
    for name, fits, lie in ROW_LIES:
        answers = copy.deepcopy(plan.answers)
        row = next((each for each in answers if fits(each) and _is_sure(plan, each)), None)
        if row is None:
            missed.append(f"{name}: no row to tell it of")
            continue
        if lie is None:
            answers.remove(row)
        else:
            lie(row)
        if len(_rows(plan, answers)) <= len(_rows(plan, plan.answers)):
            missed.append(name)
    for name, lie in SUM_LIES:
        summary = copy.deepcopy(plan.summary)
        try:
            lie(summary)
        except (StopIteration, IndexError, KeyError):
            missed.append(f"{name}: nothing to tell it of")
            continue
        if len(compare.of_sums(summary, plan.answers, world.homes, plan.expectation.verdicts)) <= len(truths):
            missed.append(name)
    told = len(ROW_LIES) + len(SUM_LIES)
    for name in missed:
        print("not found:", name)
    print(f"{told - len(missed)} of {told} lies found, {len(truths)} differences without a lie")
    return 1 if missed or truths else 0


def _is_sure(plan, answer):
    return not plan.expectation.verdicts[answer["line"]].doubts


def _rows(plan, answers):
    by_line = {each["line"]: each for each in answers}
    found = []
    for row in plan.rows:
        verdict = plan.expectation.verdicts[row.line]
        if verdict.doubts:
            continue
        answer = by_line.get(row.line)
        found += compare.of_row(row, verdict, answer) if answer else [("line", row.line, None)]
    return found


def _differences(plan, answers, summary):
    return _rows(plan, answers) + compare.of_sums(
        summary, answers, plan.world.homes, plan.expectation.verdicts)
