"""What goes wrong while the world runs, drawn from the seed: kills, freezes, restarts, clock steps, faults of the App Store."""

import collections
import subprocess
import threading
import time

from relief import release_all
from world import Broken

# (kind, weight, seconds of silence). Most are shorter than a lease outlives its holder, so that the next
# attempt comes soon; those of LONG are longer than a lease, a few longer than a client waits.
CALL_FAULTS = [
    ("reset_before", 5, (0, 0)), ("reset_after", 6, (0, 0)), ("drop_before", 3, (1, 4)),
    ("drop_after", 5, (1, 4)), ("slow", 4, (1, 4)), ("late", 4, (1, 4)), ("http_500", 5, (0, 0)),
    ("garbage", 4, (0, 0)), ("hollow", 4, (0, 0)), ("refuse_repeats", 3, (0, 0)),
    ("http_429", 2, (1, 3)),
]
LONG = [
    ("drop_before", 2, (12, 18)), ("drop_after", 3, (12, 18)), ("slow", 3, (12, 18)),
    ("late", 3, (12, 18)), ("late", 1, (31, 33)), ("drop_after", 1, (31, 33))]
NOTIFICATION_FAULTS = [
    ("duplicate", 4, (0, 0)), ("reorder", 3, (1, 3)), ("delay", 3, (1, 4)), ("lose", 1, (0, 0))]

# Refusals without a fault of ours: of one call, and of so many in a row that they say nothing about a customer.
ODD_CODES = [4030010, 4040010, 4000173, 4010000]
SYSTEMIC_CODES = [4030010, 4040010, 4000173]
ODD_SHARE, SYSTEMIC_SHARE = 0.03, 0.034
# Of odd ones, the share up to which they are of this endpoint. Others than price changes are refused with a code that ends
# them: what is parked by itself would outlast the round. Only price changes until `mass_once` is understood beside others:
# [("changePrice", 0.8), ("extend", 0.9), ("cancel", 1)] brought it once, in two rounds.
ODD_ENDPOINTS = [("changePrice", 0.8), ("extend", 0.9), ("cancel", 1)]
# In rounds that have one, the part of the trouble after which all are refused.
SYSTEMIC_FROM = (0.25, 0.5)
# How long all are refused, in seconds, before the App Store mends it and a person resumes.
SYSTEMIC_LASTS = (8, 25)

# Endpoint and the share of faults up to it.
FAULTY = [
    ("changePrice", 0.5), ("status", 0.63), ("cancel", 0.7), ("extend", 0.75), ("extendAll", 0.77),
    ("extendStatus", 0.79), ("notifications", 1)]

# A lease lasts 10 s and is renewed every 2.5 s: what is frozen for longer than this has lost its own.
FREEZES = [(1, 4), (11, 14)]
CLOCK_STEP_SECONDS = 4


class Trouble:
    """Threads that kill, upset, order faults and bring back. All end with `stop`."""

    def __init__(self, world):
        self.world = world
        self.counts = collections.Counter()
        self.log = []
        # What the auditor is told: when each replica was gone or stood still, when PostgreSQL was away.
        self.absences, self.outages, self.stops = [], [], []
        # Orders to refuse one call, and many in a row.
        self.refusals = [0, 0]
        # Since when until when all were refused alike, and a person let calls go on again.
        self.alike = []
        # And since when until when the database forgot what happened; see losses.py.
        self.losses = []
        self.failure = None
        self.ending = threading.Event()
        self.cluster_rests_until = 0
        self.drains = []
        self.threads = []

    def start(self):
        for work in (self._kill, self._upset, self._order_faults, self._bring_back):
            thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def stop(self):
        self.ending.set()
        for thread in [*self.threads, *self.drains]:
            thread.join(timeout=120)
        for replica in self.world.replicas:
            with replica.lock:
                self._revive(replica)
        self._try(self.world.store.clear_faults)
        if self.failure:
            raise self.failure

    @property
    def kills(self):
        return sum(count for what, count in self.counts.items() if what.startswith("kill -9 "))

    def _guarded(self, work):
        try:
            work()
        except (Broken, OSError, subprocess.SubprocessError) as error:
            self.failure = Broken(f"{work.__name__}: {error}")

    def _note(self, what, detail=""):
        self.counts[what] += 1
        self.log.append((time.time(), what, detail))

    # Kills: -9, of replicas and of PostgreSQL's processes.

    def _kill(self):
        plan, chance = self.world.plan, self.world.chance["kills"]
        due = time.time()
        while True:
            # What a slow restart held up is caught up with, within reason.
            due = max(due, time.time() - 3) + chance.expovariate(plan.kills_per_minute / 60)
            if self.ending.wait(max(0, due - time.time())):
                return
            draw = chance.random()
            if draw < 0.04:
                self._with_cluster("kill -9 postmaster", self.world.cluster.kill)
            elif draw < 0.08:
                self._with_cluster("kill -9 backend", self.world.cluster.kill_backend)
            else:
                self._kill_replica(chance)

    def _kill_replica(self, chance):
        order = chance.sample(self.world.replicas, len(self.world.replicas))
        pause = chance.uniform(0.2, 3) if chance.random() < 0.25 else 0
        for replica in order:
            # To kill a replica that is away, frozen or draining tests nothing.
            if not replica.lock.acquire(blocking=False):
                continue
            try:
                if replica.frozen_since is not None or replica.process is None:
                    continue
                if not replica.is_alive:
                    self._note("died by itself", f"replica {replica.number}")
                elif not replica.is_ready and chance.random() < 0.8:
                    # Where processes start slowly, kills at the start only would leave nothing to kill.
                    continue
                self._absent(replica, "kill")
                replica.kill()
                self._note("kill -9 replica", str(replica.number))
                if pause:
                    replica.back_at = time.time() + pause
                else:
                    replica.start()
                return
            finally:
                replica.lock.release()

    def _absent(self, replica, why):
        self.absences.append(
            {"client": replica.client, "life": replica.life, "why": why,
             "from": round(time.time() * 1000), "to": None})
        return self.absences[-1]

    def _with_cluster(self, what, act):
        with self.world.cluster.lock:
            began = time.time()
            # Up for as long as it was away, or on a slow machine there would be no database at all.
            if began < self.cluster_rests_until or not act():
                return
            self.outages.append([round(began * 1000), round(time.time() * 1000)])
            self.cluster_rests_until = time.time() + max(3, 2 * (time.time() - began))
            self._note(what)

    # What upsets without killing.

    def _upset(self):
        chance = self.world.chance["upsets"]
        works = [
            (self._terminate, 4), (self._freeze, 3), (self._cut_connections, 3),
            (self._restart_fast, 1), (self._restart_immediate, 1)]
        if self.world.clock_library:
            works.append((self._step_clock, 3))
        while not self.ending.wait(chance.expovariate(self.world.plan.upsets_per_minute / 60)):
            work = chance.choices([work for work, _ in works], [weight for _, weight in works])[0]
            self._try(lambda: work(chance))

    def _cut_connections(self, _):
        self.world.cluster.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'repricer serve'")
        self._note("cut connections")

    def _restart_fast(self, _):
        self._with_cluster("restart postgres fast", lambda: self.world.cluster.restart("fast"))

    def _restart_immediate(self, _):
        self._with_cluster(
            "restart postgres immediate", lambda: self.world.cluster.restart("immediate"))

    def _terminate(self, chance):
        """SIGTERM: drained in 10 s; a second one ends it at once. Another replica comes after a while."""
        replica = chance.choice(self.world.replicas)
        is_twice, pause = chance.random() < 0.3, chance.uniform(0, 3)
        thread = threading.Thread(target=self._drain, args=(replica, is_twice, pause), daemon=True)
        self.drains.append(thread)
        thread.start()

    def _drain(self, replica, is_twice, pause):
        with replica.lock:
            # One that has not opened yet has nothing to drain, and ends as any program does.
            if replica.frozen_since is not None or not replica.is_alive or not replica.is_ready:
                return
            absence = self._absent(replica, "drain")
            began = time.time()
            replica.process.terminate()
            if is_twice:
                time.sleep(0.5)
                if replica.is_alive:
                    replica.process.terminate()
            code = replica.wait(40)
            absence["from"] = round(time.time() * 1000)
            self.stops.append({
                "client": replica.client, "from": round(began * 1000),
                "to": round(time.time() * 1000), "code": code, "twice": is_twice})
            replica.process = None
            replica.back_at = time.time() + pause
            self._note("terminate twice" if is_twice else "terminate", str(replica.number))

    def _freeze(self, chance):
        """SIGSTOP, and SIGCONT later: perhaps once the lease of what it held is over."""
        replica, seconds = chance.choice(self.world.replicas), chance.uniform(*chance.choice(FREEZES))
        with replica.lock:
            if replica.frozen_since is not None or not replica.is_alive:
                return
            replica.frozen_since = self._absent(replica, "freeze")
            replica.freeze()
            replica.back_at = time.time() + seconds
            self._note("freeze past the lease" if seconds > 10 else "freeze", str(replica.number))

    def _step_clock(self, chance):
        """The wall clock of one replica, forth or back; the App Store's and PostgreSQL's stay."""
        replica = chance.choice(self.world.replicas)
        replica.set_clock(round(chance.uniform(-CLOCK_STEP_SECONDS, CLOCK_STEP_SECONDS), 2))
        self._note("step clock", str(replica.number))

    def _bring_back(self):
        while not self.ending.wait(0.05):
            for replica in self.world.replicas:
                if replica.back_at is None or time.time() < replica.back_at:
                    continue
                if replica.lock.acquire(blocking=False):
                    try:
                        self._revive(replica)
                    finally:
                        replica.lock.release()

    def _revive(self, replica):
        replica.back_at = None
        if replica.frozen_since is not None:
            replica.frozen_since["to"] = round(time.time() * 1000)
            replica.frozen_since = None
            replica.unfreeze()
        if replica.process is None:
            replica.start()

    # Faults of the App Store.

    def _order_faults(self):
        chance = self.world.chance["faults"]
        rounds = 0
        plan, began = self.world.plan, time.time()
        systemic = began + plan.seconds * chance.uniform(*SYSTEMIC_FROM) if plan.refuses_all else None
        relief = None
        while not self.ending.wait(chance.uniform(0.1, self.world.plan.fault_pause)):
            rounds += 1
            if rounds % 20 == 0:
                # Orders for which no call came must not pile up.
                self._try(self.world.store.clear_faults)
            if systemic and time.time() >= systemic:
                self._order_refusals(chance, is_odd=False)
                systemic, relief = None, time.time() + chance.uniform(*SYSTEMIC_LASTS)
            if relief and time.time() >= relief:
                self._relieve()
                relief = None
            refusal = chance.random()
            if refusal < SYSTEMIC_SHARE:
                self._order_refusals(chance, is_odd=refusal < ODD_SHARE)
                if refusal >= ODD_SHARE:
                    relief = time.time() + chance.uniform(*SYSTEMIC_LASTS)
                continue
            draw = chance.random()
            endpoint = next(name for name, share in FAULTY if draw < share)
            kinds = NOTIFICATION_FAULTS if endpoint == "notifications" else CALL_FAULTS
            if endpoint != "notifications" and chance.random() < self.world.plan.long_faults:
                kinds = LONG
            kind, _, (least, most) = chance.choices(kinds, [kind[1] for kind in kinds])[0]
            fault = {"endpoint": endpoint, "kind": kind, "count": chance.choice([1, 1, 1, 2, 3])}
            if kind in ("http_429", "lose") or kinds is LONG:
                fault["count"] = 1
            if most > 0:
                fault["seconds"] = round(chance.uniform(least, most), 2)
            if self._try(lambda: self.world.store.order(fault)):
                self._note(f"order {endpoint} {kind}{' long' if kinds is LONG else ''}")

    def _order_refusals(self, chance, is_odd):
        draw = chance.random() if is_odd else 0
        endpoint = next(name for name, share in ODD_ENDPOINTS if draw < share)
        codes = SYSTEMIC_CODES if not is_odd else ODD_CODES if endpoint == "changePrice" else ODD_CODES[:1]
        fault = {
            "endpoint": endpoint, "kind": "refuse", "count": 1 if is_odd else chance.randint(12, 40),
            "code": chance.choice(codes)}
        if self._try(lambda: self.world.store.order(fault)):
            self.refusals[0 if is_odd else 1] += 1
            if not is_odd and (not self.alike or self.alike[-1][1] is not None):
                self.alike.append([round(time.time() * 1000), None])
            self._note(f"order {'odd' if is_odd else 'systemic'} refusals"
                       f"{'' if endpoint == 'changePrice' else ' of ' + endpoint}")

    def _relieve(self):
        self._try(self.world.store.clear_faults)
        self._try(lambda: release_all(self.world))
        if self.alike and self.alike[-1][1] is None:
            self.alike[-1][1] = round(time.time() * 1000)
        self._note("relief")

    def _try(self, act):
        try:
            act()
            return True
        except (OSError, subprocess.SubprocessError):
            # Away for the moment; the next turn tries something else.
            self.counts["orders that failed"] += 1
            return False
