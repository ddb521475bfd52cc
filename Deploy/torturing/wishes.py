"""Asks for renewal-date extensions while everything breaks: of single subscriptions, of all in some storefronts, and
of those that failed."""

import json
import threading
import time
import uuid

REASONS = ["outage", "customer-satisfaction", "other", "undeclared"]
# Refused for a reason that stays: not eligible, not allowed, another one is under way.
REFUSALS = {3, 4, 5}


class Wishes:
    """A thread of its own. `world.asked` says what was asked for, and with which exit code it ended."""

    def __init__(self, world, until):
        self.world, self.chance, self.until = world, world.chance["wishes"], until
        with open(f"{world.store.folder}/store.json", encoding="utf-8") as file:
            found = json.load(file)["subscriptions"]
        self.subscriptions = [str(one["originalTransactionID"]) for one in found]
        self.storefronts = sorted({one["storefront"] for one in found})
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        seconds = self.until - time.time()
        singles = max(6, round(seconds / 6))
        dues = sorted(
            [(self.chance.uniform(0.05, 1), self.single) for _ in range(singles)]
            + [(0.25, self.all), (0.75, self.retry)], key=lambda due: due[0])
        begin = time.time()
        for share, act in dues:
            time.sleep(max(0, begin + seconds * share - time.time()))
            if time.time() > self.until + 10:
                return
            act()

    def single(self):
        id, days = self.identifier(), self.chance.randint(1, 20)
        subscription, reason = self.chance.choice(self.subscriptions), self.chance.choice(REASONS)
        code = self.insist(
            "extend", "one", subscription, "--days", str(days), "--reason", reason, "--request-id", id,
            user="ana")
        if code is not None:
            self.world.asked["singles"].append({
                "id": id, "subscription": subscription, "days": days, "code": code, "is_taken": code == 0})

    def all(self):
        id = self.identifier()
        product = self.read("SELECT min(product_id) FROM repricer.subscriptions")
        words = ["--product", product, "--days", str(self.chance.randint(1, 10)), "--reason", "outage",
                 "--request-id", id]
        if self.chance.random() < 0.7:
            count = max(1, len(self.storefronts) // 3)
            words += ["--storefronts", ",".join(sorted(self.chance.sample(self.storefronts, count)))]
        if self.insist("extend", "all", *words, user="ana") != 0:
            return
        self.world.asked["masses"].append(id)
        self.insist_until_queued(id)

    def insist_until_queued(self, id):
        """An approval whose answer was lost is an approval, and the next one a conflict."""
        for _ in range(5):
            if self.insist("approve", id, "--yes", user="ben") == 0:
                return
            if self.read(f"SELECT state FROM repricer.mass_extensions WHERE extension_id = '{id}'") \
                    != "awaiting_approval":
                return

    def retry(self):
        for id in self.world.asked["masses"]:
            end = time.time() + 20
            while time.time() < end and self.read(
                    f"SELECT state FROM repricer.mass_extensions WHERE extension_id = '{id}'") != "complete":
                time.sleep(0.5)
            self.insist("extend", "retry-failed", id, user="ana")

    def identifier(self):
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def insist(self, verb, *words, user):
        """The exit code, as soon as it is neither lost nor a database that is away; None when that takes too long."""
        end = time.time() + 60
        while time.time() < end:
            with self.world.people:
                code = self.world.ask(verb, *words, user=user).returncode
            if code == 0 or code in REFUSALS:
                return code
            time.sleep(0.3)
        return None

    def read(self, query):
        end = time.time() + 60
        while True:
            try:
                return "".join(self.world.cluster.sql(query)[:1])
            except OSError:
                if time.time() > end:
                    raise
                time.sleep(0.3)
