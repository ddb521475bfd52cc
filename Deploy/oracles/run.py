"""Makes worlds, asks the product for plans of them, and judges what it says."""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter

import compare
import lies
import scenarios
from batch import BatchMaker, Expectation, Row
from cases import all_cases
from dates import DAY, HOUR, instant_of, text_of
from forms import plain_csv, some_form
from product import Broken, Cluster, Product
from signing import Signer
from world import World

FIRST_DAY = instant_of("2027-01-01")
SHOWN = 40


class Report:
    """What was looked at, and each difference with what it is about."""

    def __init__(self):
        self.looked_at, self.differences, self.doubtful = Counter(), Counter(), Counter()
        self.codes = Counter()

    def add(self, where, about, found, doubts=()):
        self.looked_at[where] += 1
        if found and doubts:
            for doubt in doubts:
                self.doubtful[doubt] += 1
            return
        for what, expected, answered in found:
            self.differences[(where, what)] += 1
            if self.differences.total() <= SHOWN:
                print(f"DIFFERENCE {where}: {what}: expected {readable(expected)}, answered {readable(answered)}")
        if found and self.differences.total() <= SHOWN:
            print(f"    {about}")

    def print(self):
        print("\nlooked at:", ", ".join(f"{count} {name}" for name, count in sorted(self.looked_at.items())))
        print("rows by code:", ", ".join(f"{count} {code or 'can go'}" for code, count in self.codes.most_common()))
        for doubt, count in sorted(self.doubtful.items()):
            print(f"not judged, the contract can be read two ways: {count} ({doubt})")
        for (where, what), count in self.differences.most_common():
            print(f"{count:6} differences of {where}: {what}")
        print(f"{self.differences.total()} differences")


def readable(value):
    is_instant = isinstance(value, int) and not isinstance(value, bool) and value > 10**12
    return text_of(value) if is_instant else value


class Surroundings:
    def __init__(self, root, programs, folder):
        os.makedirs(folder, exist_ok=True)
        self.programs, self.folder, self.store = programs, folder, f"{folder}/store"
        if not os.path.exists(f"{self.store}/authority.pem"):
            subprocess.run(
                [f"{programs}/appstore-sandbox", "seed", "--data", self.store, "--subscriptions", "1",
                 "--clock", "2027-01-01T00:00:00Z@1"], check=True, capture_output=True)
        self.signer = Signer(self.store)
        self.cluster = Cluster(root, f"{folder}/postgres")

    def product(self, name, at, environment="Production"):
        product = Product(self.cluster, self.programs, self.store, f"{self.folder}/{name}", name, environment)
        product.set_clock(at)
        product.migrate()
        return product


class Asked:
    """One plan: what was asked, what must be said, and what was said."""

    def __init__(self, product, world, rows, now, open_changes=(), words=(), chance=None):
        self.rows, self.now, self.product, self.world = rows, now, product, world
        self.file, out = f"{product.folder}/batch.csv", f"{product.folder}/rows.ndjson"
        with open(self.file, "w", encoding="utf-8", newline="") as file:
            file.write(some_form(rows, chance) if chance else plain_csv(rows))
        answer = product.run("plan", self.file, "--as-of", text_of(now), "--rows", out, "--json", *words)
        if answer.code not in (0, 3):
            raise Broken(f"plan exits {answer.code}: {answer.err.strip()[-1000:]}")
        self.code, self.summary = answer.code, json.loads(answer.out)
        with open(out, encoding="utf-8") as file:
            self.answers = [json.loads(line) for line in file]
        self.expectation = Expectation(world, rows, now, open_changes, environment=world.environment)

    def judge(self, report, where="rows"):
        answers = {each["line"]: each for each in self.answers}
        for row in self.rows:
            verdict = self.expectation.verdicts[row.line]
            report.codes[verdict.code] += 1
            answer = answers.get(row.line)
            found = compare.of_row(row, verdict, answer) if answer else [("line", row.line, None)]
            said = answer and answer.get("message")
            report.add(where, f"{self.about(row)}\n    said: {said}", found, verdict.doubts)
        report.add("sums", f"plan of {len(self.rows)} rows", compare.of_sums(
            self.summary, self.answers, self.world.homes, self.expectation.verdicts))
        ends = 3 if any(each["code"] for each in self.answers) else 0
        report.add("exit codes", self.file, [] if self.code == ends else [("exit code", ends, self.code)])

    def about(self, row):
        subscription = self.world.by_id.get(row.cells["original_transaction_id"])
        beside = [each.line for each in self.rows
                  if each.cells["original_transaction_id"] == row.cells["original_transaction_id"] and each is not row]
        text = f"{self.product.name} as of {text_of(self.now)} line {row.line} {row.cells} beside lines {beside}"
        return f"{text}\n    {subscription.story()}" if subscription else text


def explained(asked, report, chance, how_many):
    """`explain` of single rows: each as a plan of that row alone would say."""
    fit = [row for row in asked.rows if row.line not in asked.expectation.file_refused
           and row.cells["original_transaction_id"] in asked.world.by_id]
    for row in chance.sample(fit, min(how_many, len(fit))):
        cells = dict(row.cells, expected_price="", storefront="")
        alone = Row(cells, line=2, price=row.price)
        subscription = asked.world.by_id[cells["original_transaction_id"]]
        if cells["currency"] != subscription.newest.period.currency:
            continue
        verdict = Expectation(asked.world, [alone], asked.now, asked.expectation.open_changes,
                              environment=asked.world.environment).verdicts[2]
        words = ["explain", subscription.id, cells["sku"], cells["price"], "--as-of", text_of(asked.now), "--json"]
        if cells["dependent_skus"]:
            words += ["--dependent-skus", cells["dependent_skus"]]
        if cells["effective_on_or_after"]:
            words += ["--effective-on-or-after", cells["effective_on_or_after"]]
        answer = asked.product.run(*words)
        try:
            said = json.loads(answer.out)
        except ValueError:
            report.add("explain", asked.about(row), [("output", "JSON", (answer.code, answer.err.strip()[-300:]))])
            continue
        found = compare.of_row(alone, verdict, said)
        if answer.code != (3 if verdict.code else 0):
            found.append(("exit code", 3 if verdict.code else 0, answer.code))
        report.add("explain", asked.about(row), found, verdict.doubts)


def second_batch(product, world, chance, now, report):
    """A batch is stored, then another is planned while the first is open."""
    first = Asked(product, world, BatchMaker(chance, world, now).rows(60), now)
    first.judge(report)
    product.set_clock(now)
    product.expect(0, "submit", first.file, "--name", f"first of {product.name}", "--accept-valid")
    open_changes = {}
    for row, answer in zip(first.rows, first.answers):
        verdict = first.expectation.verdicts[row.line]
        if answer["code"] is None:
            is_increase = verdict.direction == "increase"
            at = instant_of(answer["effective_at"]) if is_increase else None
            open_changes[row.group] = (at, tuple(row.claims(world)))
    stored_forecast(product, first, report)
    later = now + HOUR // 60
    second = Asked(product, world, BatchMaker(chance, world, later).rows(), later, open_changes)
    second.judge(report, "rows beside an open batch")
    explained(second, report, chance, 3)


def stored_forecast(product, plan, report):
    """What `report forecast_accuracy` holds of a batch that nothing became of yet: its forecast, and no outcome."""
    expected = Counter()
    for each in plan.answers:
        if each["code"] is None:
            rules = {rule["rule"]: rule for rule in each["rules"]}
            because = rules.get("increase_within_12_months", {"inputs": {}})["inputs"].get("because")
            if "increase_within_12_months" not in each["reasons"]:
                because = None
            elif because is not None:
                because = "earlier_increase" if because[:4].isdigit() and "T" in because else "sibling"
            unknown = tuple(each["not_known"]) if each["consent"] == "not_known" else ()
            expected[(each["direction"], each["consent"], each["threshold_source"], tuple(each["reasons"]), unknown,
                      because)] += 1
    answer = product.expect(0, "report", "forecast_accuracy", "--format", "json")
    answered, outcomes = Counter(), 0
    for each in json.loads(answer.out)["rows"]:
        answered[(each["direction"], each["forecast_consent"], each["forecast_threshold_source"],
                  tuple(each["forecast_reasons"]), tuple(each["forecast_not_known"]), each["forecast_because"])] += each[
                      "changes"]
        outcomes += sum(each[name] for name in ["effective", "slipped", "renewals_moved"])
        outcomes += each["consent_outcome"] != "not_known"
    found = compare.Differences()
    found.check("only expected", {}, dict(expected - answered))
    found.check("only answered", {}, dict(answered - expected))
    found.check("outcomes", 0, outcomes)
    report.add("stored forecasts", product.name, found)


def one_world(surroundings, seed, options, report, environment="Production"):
    chance = random.Random(f"{environment} {seed}")
    now = FIRST_DAY + chance.randint(0, 800) * DAY + chance.randint(0, DAY)
    name = f"{environment.lower()}_{seed}"
    product = surroundings.product(name, now - DAY, environment)
    world = World(chance, now, options.subscribers, environment)
    world.teach(product, surroundings.signer, now - DAY)
    later = now + 3 * DAY
    if environment == "Production":
        product.set_clock(later)
        world.teach_more(product, later)
    for turn in range(options.plans):
        at = now
        if turn > 1 and environment == "Production":
            at += chance.choice([chance.randint(0, 4 * DAY), chance.randint(0, 60 * DAY), chance.randint(0, 400 * DAY)])
        grouping = chance.choice(["announced", "item", "subscription"])
        asked = Asked(product, world, BatchMaker(chance, world, at).rows(), at, words=["--grouping", grouping], chance=chance)
        asked.judge(report)
        explained(asked, report, chance, options.explain)
    if environment == "Production":
        for sku in chance.sample(["FILM_1M", "SPORT_1Y", "NEWS_1W", "KIDS_1M", "FILM_6M", "NEWS_3M"], 2):
            scenarios.highest_prices(product, world, sku, now, report)
            scenarios.as_planned(product, sku, chance.choice(["+10%", "+55%", "+7.50"]), now, report)
            scenarios.of_cohort(product, world, sku, now, chance, report)
        second_batch(product, world, chance, later + HOUR, report)
    product.drop()


def main():
    parser = argparse.ArgumentParser(prog="Deploy/oracle", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--subscribers", type=int, default=150)
    parser.add_argument("--plans", type=int, default=5, help="of each world")
    parser.add_argument("--explain", type=int, default=5, help="rows of each plan that are asked for by `explain`")
    parser.add_argument("--programs", default=".build/debug")
    parser.add_argument("--folder", default=".repricer/oracle")
    parser.add_argument("--no-cases", action="store_true", help="random worlds alone")
    parser.add_argument("--self-check", action="store_true")
    options = parser.parse_args()
    root = os.getcwd()
    surroundings = Surroundings(root, os.path.abspath(options.programs), os.path.abspath(options.folder))
    report, began = Report(), time.time()
    try:
        if options.self_check:
            return lies.check(surroundings, options.seed, Asked)
        if not options.no_cases:
            all_cases(surroundings, report, Asked)
        for number in range(options.worlds):
            seed = options.seed + number
            print(f"world {seed}, {time.time() - began:.0f} s", flush=True)
            one_world(surroundings, seed, options, report)
        one_world(surroundings, options.seed, options, report, "Sandbox")
        report.print()
        return 1 if report.differences else 0
    except Broken as broken:
        print(f"oracle: {broken}", file=sys.stderr)
        return 1
    finally:
        surroundings.cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
