"""Kills, lost answers and an auditor: runs rounds of trouble until the time is over, and audits each."""

import argparse
import collections
import dataclasses
import json
import os
import random
import shutil
import signal
import sys
import time

import audit
import evidence
import selfcheck
from losses import Losses
from relief import release
from trouble import Trouble
from wishes import Wishes
from world import Broken, World

DAY = 86_400_000
ROUND_SECONDS_MAX = 300
# If the machine stood still for longer, months of the hurried clock passed unseen: that gives no verdict about the product.
STANDSTILL_MAX_MS = 20_000
VOID_ROUNDS_MAX = 3
# What no run can be without: a check of these that looked at nothing is blind.
ALWAYS_BUSY = {
    "rows_accounted", "states_sum", "final_or_waiting", "applied_once", "one_id_an_intent", "ids_committed", "sends_committed",
    "no_overlap", "rate_second", "rate_hour", "applied_in_ledger", "ends_equal", "nothing_stuck", "journals_whole",
    "extensions_settled"}
# The same for runs of KILLS_OF_BUSY_RUNS kills or more: in these some processes died with a call out that others took over, and
# some customers declined.
BUSY_WITH_KILLS = {
    "taken_over", "events_whole", "webhooks_delivered", "webhooks_true", "webhooks_signed", "ends_proved"}
KILLS_OF_BUSY_RUNS = 100


@dataclasses.dataclass
class Plan:
    """One round."""

    seed: int
    kind: str
    seconds: int
    subscriptions: int
    # Customers with two subscriptions.
    pairs: int
    calendar: list
    settings: dict
    limits: dict
    # The last events of the store that the ledger may not have heard of yet, business milliseconds.
    grace: int
    replicas: int
    kills_per_minute: float
    # Drains, freezes, restarts of PostgreSQL, cut connections, clock steps.
    upsets_per_minute: float
    # Of the faults of calls, the share that lasts longer than a lease.
    long_faults: float
    steps_clocks: bool
    fault_pause: float = 0.5
    batches: int = 4
    # What is lost in this round: "restore", "failover".
    losses: tuple = ()
    # Once, price changes of all are refused alike, so that their batches or the service halt and ask on.
    refuses_all: bool = False
    # Business milliseconds that pass in one of the machine's.
    speed: int = 1


def make_plan(kind, seconds, seed, options):
    """`test`: shortened periods on a true clock, so that the rate binds. `quarter`: Production's calendar, hurried."""
    common = {
        "seed": seed, "kind": kind, "seconds": seconds, "replicas": options.replicas,
        "kills_per_minute": options.kills_per_minute, "batches": max(3, seconds // 15),
        "upsets_per_minute": options.upsets_per_minute, "long_faults": 0.03,
        "steps_clocks": kind == "test",
        # What it halts asks once a minute: shorter rounds would do nothing else.
        "refuses_all": seconds >= 60 and random.Random(f"{seed} refusals").random() < 0.4}
    # How the store takes a price under a second id, Apple does not say.
    repeats = ["--repeats", random.Random(f"{seed} repeats").choice(["stale-token", "accepted", "refused"])]
    if kind == "test":
        # Looks and the history may be quicker, so that the round ends soon. A process that starts reads the history first
        # where the last reading is older than the reconciler's pause, which under kills takes half a minute: with a
        # short pause calls would wait for it nearly all the time.
        rate, looks = 10, 30
        return Plan(
            **common, subscriptions=max(120, rate * seconds // 2), pairs=max(16, seconds // 3),
            calendar=["--month", str(max(12, seconds // 6)), *repeats],
            settings={
                "REPRICER_CHANGE_PRICE_RATE": rate, "REPRICER_STATUS_RATE": looks,
                "REPRICER_CANCEL_RATE": 2, "REPRICER_EXTEND_RATE": 2,
                "REPRICER_RECONCILE_EVERY": "45s", "REPRICER_SILENT_AFTER": "20s"},
            limits={"changePrice": rate, "status": looks, "history": looks, "cancel": 2, "extend": 2,
                    "extendAll+extendStatus": 1}, grace=15_000)
    speed = round(90 * 86_400 / (seconds + 20))
    return Plan(
        **common, subscriptions=max(150, 3 * seconds), pairs=max(16, seconds // 2), speed=speed,
        calendar=["--clock", f"2026-03-02T00:00:00Z@{speed}", *repeats], settings={},
        limits={"changePrice": 50, "status": 50, "history": 50, "cancel": 5, "extend": 20,
                "extendAll+extendStatus": 1}, grace=15 * speed * 1000)


def split(path, plan, chance):
    """The sample's rows in several files: mostly a subscription's rows together, at times apart."""
    with open(path, encoding="utf-8") as file:
        header, *rows = file.read().splitlines()
    parts = [[] for _ in range(plan.batches)]
    home = {}
    for row in rows:
        transaction = row.split(",", 1)[0]
        if transaction not in home or chance.random() < 0.15:
            home[transaction] = chance.randrange(plan.batches)
        parts[home[transaction]].append(row)
    files = []
    for number, part in enumerate(parts):
        if part:
            name = f"{path[:-4]}-{number}.csv"
            with open(name, "w", encoding="utf-8") as file:
                file.write("\n".join([header, *part]) + "\n")
            files.append(name)
    return files


def until_done(seconds, act):
    """Tries again what the trouble interrupts."""
    end = time.time() + seconds
    while True:
        problem = act()
        if problem is None:
            return
        if time.time() > end:
            raise Broken(problem)
        time.sleep(0.2)


def submit(world, path, name):
    """As ana, approved by ben; both as often as it takes."""
    state = {}
    # Some with the guard that holds where nobody says otherwise: what odd refusals halt goes on once they are over.
    is_guarded = random.Random(f"{world.plan.seed} {name} guard").random() < 0.4
    guard = () if is_guarded else ("--halt-if", "none")

    def store():
        done = world.ask("submit", path, "--name", name, "--accept-valid", *guard, user="ana")
        if done.returncode == 0:
            state["batch"] = done.stdout.strip().split("\n")[-1]
            return None
        return f"submit of {path} exits with {done.returncode}: {done.stderr[-300:]}"

    def approve():
        done = world.ask("approve", state["batch"], "--yes", user="ben")
        if done.returncode == 0:
            return None
        try:
            # An approval whose answer was lost is an approval.
            found = world.cluster.sql(
                f"SELECT state FROM repricer.batches WHERE batch_id = '{state['batch']}'")
            if found == ["approved"]:
                return None
        except OSError:
            pass
        return f"approve exits with {done.returncode}: {done.stderr[-300:]}"

    with world.people:
        until_done(90, store)
        world.submitted.append((name, path))
        until_done(90, approve)


UNSETTLED = """SELECT
    (SELECT count(*) FROM repricer.store_calls WHERE kind = 'price_change' AND state IN ('sending', 'unknown')) AS calls,
    (SELECT count(*) FROM repricer.price_changes c JOIN repricer.batches b USING (batch_id)
        WHERE c.state = 'queued' AND c.is_ready AND NOT b.is_paused) AS ready,
    (SELECT count(*) FROM repricer.inbox WHERE error IS NULL) AS inbox,
    (SELECT count(*) FROM repricer.store_calls WHERE kind = 'cancel' AND state IN ('sending', 'unknown')) AS cancels,
    (SELECT count(*) FROM repricer.extension_requests WHERE settled_at IS NULL) AS extensions,
    (SELECT count(*) FROM repricer.mass_extensions
        WHERE state IN ('queued', 'sending', 'unknown', 'running')) AS masses,
    (SELECT count(*) FROM repricer.extension_summaries WHERE folded_at IS NULL) AS summaries,
    (SELECT count(*) FROM repricer.webhook_deliveries WHERE state = 'pending') AS webhooks,
    (SELECT count(*) FROM repricer.dependent_cancellations
        WHERE state IN ('requested', 'cancel_sent')) AS dependents,
    (SELECT count(*) FROM repricer.price_changes
        WHERE state IN ('scheduled', 'pending_consent', 'accepted')
            AND due_effective_at < to_timestamp({now} / 1000.0)) AS overdue,
    (SELECT count(*) FROM repricer.price_changes WHERE ended_at IS NULL) AS open"""


def settle(world):
    """Waits until nothing is under way; what never comes is the auditor's to name."""
    # Its own working time: a machine that stands still uses up no patience. A service that was refused alike asks after a
    # minute, and who is refused then, as with a stale token, waits for two more.
    patience, before = 240.0, time.time()
    reconciled, counts = 0, {}
    while patience > 0:
        patience -= min(3, time.time() - before)
        before = time.time()
        try:
            now = world.store.now() - world.plan.grace
            counts = world.cluster.rows(UNSETTLED.format(now=now))[0]
        except OSError:
            time.sleep(0.5)
            continue
        # A mass extension that is at work ends by its summary, which may be lost: reconciled below.
        busy = [key for key in (
            "calls", "ready", "inbox", "dependents", "cancels", "extensions", "summaries", "webhooks") if counts[key]]
        if busy:
            release(world)
            time.sleep(0.5)
            continue
        if reconciled >= 2 and (counts["overdue"] + counts["masses"] == 0 or reconciled >= 6):
            break
        # Notifications that were lost come from the history, and by it newer facts.
        until_done(60, lambda: reconcile(world))
        reconciled += 1
        time.sleep(1 if counts["overdue"] + counts["masses"] == 0 else 5)
    return counts


def reconcile(world):
    done = world.ask("reconcile", user="repricerd")
    return None if done.returncode == 0 else f"reconcile exits with {done.returncode}"


def close(world, trouble):
    """The store first: what it still told is folded before the replicas drain."""
    world.ended_at, world.real_end = world.store.now(), round(time.time() * 1000)
    world.store.stop()
    end = time.time() + 30
    while time.time() < end and not (world._is_folded() and world._is_told()):
        time.sleep(0.1)
    for replica in world.replicas:
        began = time.time()
        code, seconds = replica.stop()
        trouble.stops.append({
            "client": replica.client, "from": round(began * 1000),
            "to": round((began + seconds) * 1000), "code": code, "twice": False})


def run_round(plan, options, say):
    """Figures and results of one round."""
    folder = f"{options.home}/round-{plan.seed}-{plan.kind}"
    world = World(options.root, options.programs, folder, plan, say)
    try:
        began = time.time()
        world.build()
        say(f"{plan.kind}, seed {plan.seed}: {plan.subscriptions} subscriptions,"
            f" forgotten calls {plan.calendar[-1]}, up in {time.time() - began:.0f} s; trouble for {plan.seconds} s")
        trouble = Trouble(world)
        chance = world.chance["batches"]
        files = split(world.batch_file, plan, chance)
        trouble.start()
        start = time.time()
        wishes = Wishes(world, start + plan.seconds * 0.9)
        wishes.thread.start()
        losses = Losses(world, trouble, plan.losses, plan.seconds)
        losses.thread.start()
        try:
            for number, path in enumerate(files):
                due = start + plan.seconds * 0.7 * number / len(files)
                wait(due, trouble, start, world, say)
                submit(world, path, f"Torture {plan.seed} {number}")
            wait(start + plan.seconds, trouble, start, world, say)
        finally:
            seconds = time.time() - start
            trouble.ending.set()
            losses.thread.join(timeout=300)
            trouble.stop()
            losses.finish()
            wishes.thread.join(timeout=180)
            world.hooks.is_calm = True
        for replica in world.replicas:
            replica.set_clock(0)
            if not replica.is_alive:
                trouble.counts["died by itself"] += 1
                replica.start()
        left = settle(world)
        trail = world.ask("audit", "verify", user="ana")
        close(world, trouble)
        found = evidence.gather(world, trouble)
        with open(f"{folder}/evidence.json", "w") as file:
            json.dump(found, file)
        results, excused = audit.audit(found)
        results.append((
            "trail_whole", "The audit trail of decisions verifies.", len(world.submitted),
            [] if trail.returncode == 0 else [f"exit code {trail.returncode}: {trail.stderr[-300:]}"]))
        by_themselves = trouble.counts["died by itself"]
        results.append((
            "stayed_alive", "No replica ended unless it was killed.", plan.replicas,
            [f"{by_themselves} times, see replica*.log"] if by_themselves else []))
        numbers = audit.figures(found)
        numbers["trouble"] = dict(sorted(trouble.counts.items()))
        numbers["kills"], numbers["seconds"] = trouble.kills, round(seconds)
        numbers["losses"] = collections.Counter(loss["what"] for loss in trouble.losses)
        numbers["postgres_restart_seconds_max"] = round(max(world.cluster.restarts, default=0), 1)
        numbers["left"], numbers["excused"] = left, excused
        numbers["machine_stalls"] = {
            "count": len(found["stalls"]),
            "longest_ms": max((to - since for since, to in found["stalls"]), default=0)}
        with open(f"{folder}/violations.json", "w") as file:
            json.dump({name: wrong for name, _, _, wrong in results if wrong}, file, indent=1)
        with open(f"{folder}/trouble.log", "w") as file:
            for at, what, detail in trouble.log:
                file.write(f"{round(at * 1000)} {what} {detail}\n")
        return numbers, results, folder
    finally:
        world.close()


def wait(until, trouble, start, world, say):
    """Sleeps, with a line of progress every ten seconds."""
    while time.time() < until:
        if trouble.failure:
            raise trouble.failure
        time.sleep(min(0.2, max(0, until - time.time())))
        if time.time() - wait.told >= 10:
            wait.told = time.time()
            seconds = time.time() - start
            try:
                states = world.cluster.sql(
                    "SELECT string_agg(state || ' ' || n, ', ' ORDER BY state) FROM (SELECT state,"
                    " count(*) AS n FROM repricer.price_changes GROUP BY state) AS s")
            except OSError:
                states = ["the database is away"]
            say(f"  {seconds:.0f} s, {trouble.kills} kills"
                f" ({trouble.kills / max(seconds, 1) * 60:.0f} a minute): {''.join(states)}")


wait.told = 0


def table(totals):
    lines = [f"{'check':<22}{'looked at':>10}{'violations':>12}"]
    for name, (counted, wrong) in totals.items():
        lines.append(f"{name:<22}{counted:>10}{len(wrong):>12}")
    return "\n".join(lines)


def parse(words):
    parser = argparse.ArgumentParser(prog="Deploy/torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="of trouble, in all (5)")
    parser.add_argument("--seed", type=int, help="of everything that is drawn; printed when left out")
    parser.add_argument("--world", choices=["test", "quarter", "both"], default="both")
    parser.add_argument("--kills-per-minute", type=float, default=60)
    parser.add_argument("--upsets-per-minute", type=float, default=12,
                        help="drains, freezes, restarts, cut connections, clock steps (12)")
    parser.add_argument("--restores", type=int,
                        help="in so many rounds a dump is restored while all goes on (1 from 3 minutes on)")
    parser.add_argument("--failovers", type=int,
                        help="in so many rounds a standby that lags is promoted (1 from 3 minutes on)")
    parser.add_argument("--replicas", type=int, choices=range(2, 9), default=3)
    parser.add_argument("--json", help="also writes the totals to this file")
    parser.add_argument("--programs", help="folder of repricer and appstore-sandbox")
    parser.add_argument("--self-check", action="store_true",
                        help="shows that the auditor finds what it looks for; starts nothing")
    parser.add_argument("--audit", metavar="FILE", help="audits a kept evidence.json again")
    options = parser.parse_args(words)
    options.root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    options.home = f"{options.root}/.repricer/torture"
    options.programs = os.path.abspath(options.programs or f"{options.root}/.build/release")
    return options


def main(words):
    options = parse(words)
    if options.self_check:
        return selfcheck.run(ALWAYS_BUSY | BUSY_WITH_KILLS, blind)
    if options.audit:
        with open(options.audit) as file:
            results, excused = audit.audit(json.load(file))
        print(f"excused: {excused}")
        return report({name: (counted, wrong) for name, _, counted, wrong in results}, set())
    if selfcheck.run(ALWAYS_BUSY | BUSY_WITH_KILLS, blind, quiet=True) != 0:
        return 1
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"torture: seed {seed}, {options.minutes:g} minutes", flush=True)
    shutil.rmtree(options.home, ignore_errors=True)
    least = 1 if options.minutes >= 3 else 0
    options.restores = least if options.restores is None else options.restores
    options.failovers = least if options.failovers is None else options.failovers
    totals, kills, seconds, turn = collections.OrderedDict(), 0, 0, 0
    wanted, numbers_of_rounds, voids = options.minutes * 60, [], 0
    kinds = ["test", "quarter"] if options.world == "both" else [options.world]
    while seconds < wanted - 5:
        length = min(ROUND_SECONDS_MAX, round(wanted - seconds))
        if options.world == "both" and turn == 0 and length > wanted * 0.6:
            length = round(wanted * 0.6)
        plan = make_plan(kinds[turn % len(kinds)], length, seed + turn, options)
        plan.losses = losses_of(turn, options)
        numbers, results, folder = run_round(plan, options, lambda text: print(text, flush=True))
        if numbers["machine_stalls"]["longest_ms"] > STANDSTILL_MAX_MS and voids < VOID_ROUNDS_MAX:
            voids += 1
            print(f"  void: the machine stood still for {numbers['machine_stalls']['longest_ms']} ms", flush=True)
            continue
        turn += 1
        kills, seconds = kills + numbers["kills"], seconds + numbers["seconds"]
        numbers_of_rounds.append(numbers)
        print(f"  {json.dumps(numbers)}", flush=True)
        failed = False
        for name, _, counted, wrong in results:
            sums = totals.setdefault(name, [0, []])
            sums[0] += counted
            sums[1] += [f"seed {plan.seed} {plan.kind}: {text}" for text in wrong]
            failed = failed or bool(wrong)
        if failed:
            print(f"  violations; everything is kept in {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({
                "seed": seed, "kills": kills, "seconds": seconds, "rounds": numbers_of_rounds,
                "checks": {name: {"counted": sums[0], "violations": len(sums[1])}
                           for name, sums in totals.items()}}, file)
    busy = ALWAYS_BUSY | (BUSY_WITH_KILLS if kills >= KILLS_OF_BUSY_RUNS else set())
    code = report(totals, busy)
    print(f"seed {seed}: {kills} kills in {seconds} s of trouble,"
          f" {kills / max(seconds, 1) * 60:.0f} a minute", flush=True)
    return code


def losses_of(turn, options):
    """The restores begin in the first round and the failovers in the second, where there is one; one of each a round."""
    first, second = (0, 1) if options.world == "both" else (0, 0)
    found = ["restore"] if first <= turn < first + options.restores else []
    return tuple(found + ["failover"] * (second <= turn < second + options.failovers))


def blind(totals, busy):
    """The checks that must have had something to look at, and had nothing."""
    return sorted(name for name in busy if name not in totals or totals[name][0] == 0)


def report(totals, busy):
    print(table(totals))
    code = 0
    for name in blind(totals, busy):
        print(f"{name}: looked at nothing")
        code = 1
    idle = [name for name, (counted, _) in totals.items() if not counted and name not in busy]
    if idle:
        print(f"not looked at: {', '.join(idle)}")
    for name, (_, wrong) in totals.items():
        for text in wrong[:10]:
            print(f"{name}: {text}")
        if len(wrong) > 10:
            print(f"{name}: and {len(wrong) - 10} more")
        code = 1 if wrong else code
    return code


def interrupt(*_):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    try:
        sys.exit(main(sys.argv[1:]))
    except Broken as broken:
        print(f"torture: {broken}; see .repricer/torture", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
